"""Checks of a host, before a build or before use."""
