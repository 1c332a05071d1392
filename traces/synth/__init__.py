"""Seeded workloads: sessions like those that a profile describes.

In: a profile, a number of sessions, a seed. Out: a dataset. Start at `workload.synthesize`.
"""
