"""Writes a dataset, or its profile, for a planner or load generator.

In: an opened dataset and a `Scaling`. Out: complete files, or none after an error. `planners` has one writer per
target.
"""
