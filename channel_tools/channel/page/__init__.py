"""The channel page."""
