"""What a release is held against before it enters a channel, one rule a module."""
