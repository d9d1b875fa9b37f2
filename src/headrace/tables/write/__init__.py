"""Writing: create tables, write data files, stage upserts."""
