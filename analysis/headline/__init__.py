"""Headline."""
