"""The bounded channel that carries every stream; no engine in it."""
