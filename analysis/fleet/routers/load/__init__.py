"""Policies that choose by load alone."""
