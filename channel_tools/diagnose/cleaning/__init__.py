"""What went stale when arch, ROCm or compiler changed."""
