"""Policies of this project that choose by what replicas hold of the prompt."""
