"""A dataset, or its profile, written for a planner or load generator.

In: an opened dataset and a `Scaling`. Out: files that appear whole or not at all; `planners` has one writer per target.
"""
