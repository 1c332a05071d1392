"""Tracetower's own policies that choose by how much of the prompt each replica holds."""
