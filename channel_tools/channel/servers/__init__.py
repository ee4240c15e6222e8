"""Releases sent to package servers, which make their own index."""
