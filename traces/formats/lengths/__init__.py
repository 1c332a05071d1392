"""Lengths."""
