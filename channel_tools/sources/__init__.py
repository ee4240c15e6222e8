"""Sources: what the recipes need, a store of it, fetching, and staging for inspection."""
