"""The dataset on disk: the only room that builds a path in a dataset, and the only door to open one.

In: tables, a manifest and private files from an ingest, or a folder or zip that anyone may have made.
Out: checked tables (`layout.Dataset`), kept results (`caches`), a zip that is safe to share (`bundle`).
"""
