"""Rows on their way into a table."""
