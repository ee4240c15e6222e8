"""What is wrong with an installed environment."""
