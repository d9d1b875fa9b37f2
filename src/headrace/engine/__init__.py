"""DataFusion: the only folder that imports it."""
