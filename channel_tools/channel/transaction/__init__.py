"""Changing a channel so that its consumers see the old state or the new one."""
