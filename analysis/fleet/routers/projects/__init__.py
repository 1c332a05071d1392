"""Policies of other projects, as implemented in their code."""
