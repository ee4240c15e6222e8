"""GPU-arch-matched conda packages for AMD: build, verify, publish and install."""

__version__ = "0.1.0"
