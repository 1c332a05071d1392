"""Prefix."""
