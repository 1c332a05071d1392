"""The catalogue of models and GPUs, and any Hugging Face config.json beside it.

In: a name or a config.json. Out: cache groups, parameters, and attention work per token.
"""
