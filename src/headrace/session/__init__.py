"""What users hold: the session, frames, readers, sinks and providers."""
