"""The workload as distributions, without ids or text. Makes, reads and compares profiles, and checks synthetic
workloads.

In: an opened dataset, or a profile from elsewhere. Out: the document of profile_schema.json.
"""
