"""Index files: what they say, changing that, and writing each form of them."""
