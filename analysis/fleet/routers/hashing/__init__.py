"""Policies that keep a session on the replica that its name hashes to."""
