"""Speed of rocm-channel, in ratios to the plain work that cannot be left out. See README.md."""
