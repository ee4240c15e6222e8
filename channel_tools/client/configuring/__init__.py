"""The channel in the configuration of a user's client."""
