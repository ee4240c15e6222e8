"""Releases: what one must be, publishing it, reading it back, promoting it."""
