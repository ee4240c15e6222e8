"""The files of locks as channels of their own."""
