"""Who published a package, and to which channel: signing and checking."""
