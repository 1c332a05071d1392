"""Commands that make a dataset or hand one on as it is: ingest, validate, formats, demo, bundle, synth.

In: files of traces, a profile, or a dataset. Out: a dataset's folder or zip, and the receipt.
"""
