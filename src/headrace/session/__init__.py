"""The public session API: sessions, frames, readers, sinks and providers."""
