"""The workload as distributions, without ids or text: made, read back, compared, set beside what was made from it.

In: an opened dataset, or a profile from elsewhere. Out: the document of profile_schema.json.
"""
