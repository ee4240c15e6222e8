"""Does the stack work on this GPU, and was it this GPU: steps, readings, verdict."""
