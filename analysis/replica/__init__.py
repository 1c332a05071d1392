"""Replica."""
