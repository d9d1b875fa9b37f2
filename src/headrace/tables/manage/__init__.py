"""What a table's owner does: look, verify, compact, clean up."""
