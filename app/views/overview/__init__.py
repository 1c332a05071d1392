"""The page Overview: the headline figures (`overview`), and trajectory types (`types`).

In: the question of the visit. Out: what the workload is, and what of it a cache could reuse.
"""
