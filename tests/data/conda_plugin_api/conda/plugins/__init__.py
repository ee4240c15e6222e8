"""Plugins of conda."""

from .hookspec import hookimpl as hookimpl
