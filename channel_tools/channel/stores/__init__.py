"""Where a channel lies: a folder or a bucket, behind one interface, and the lease on it."""
