"""Visit."""
