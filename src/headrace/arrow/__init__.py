"""Arrow data from any library, converted to checked record batches of one schema."""
