"""The catalogue of models and GPUs; other models are read from a Hugging Face config.json.

In: a name or a config.json. Out: cache groups, parameters, and attention work per token.
"""
