"""Looking after a channel: yank, prune, audit, diff."""
