"""Policies of other projects, as their code has them."""
