"""Every format: one module each with `NAME`, `SUMMARY`, `sniff(head)` and `read(source, context)`.

In: a source (`traces.source`). Out: records (`traces.records`). A new format is copied from its nearest relative.
"""
