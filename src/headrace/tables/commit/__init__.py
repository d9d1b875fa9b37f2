"""How an epoch is committed exactly once."""
