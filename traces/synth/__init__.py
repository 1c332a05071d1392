"""Synth."""
