"""Wheel indexes for pip, one per GPU arch and ROCm release."""
