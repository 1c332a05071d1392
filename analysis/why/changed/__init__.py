"""Changed."""
