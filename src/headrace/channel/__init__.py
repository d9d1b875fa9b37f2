"""The bounded channel that carries every stream; it imports no engine."""
