"""Divergence."""
