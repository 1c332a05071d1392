"""Hashing."""
