"""Provider."""
