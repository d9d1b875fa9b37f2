"""DataFusion behind a session; only this package imports datafusion."""
