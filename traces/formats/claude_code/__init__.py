"""Claude code."""
