"""Pinning an environment for several archs, and checking and updating what is pinned."""
