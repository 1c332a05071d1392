"""Openhands."""
