"""Rows on their way out of a table."""
