"""Arrow data of any kind, as checked batches of one schema."""
