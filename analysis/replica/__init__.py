"""One replica: does a model fit, how many tokens and sessions does its KV cache hold, how fast does it answer.

In: a model, GPUs and how they share it, optionally a dataset. Out: bytes, tokens and seconds, step by step.
Models and GPUs are data with sources in `models/`.
"""
