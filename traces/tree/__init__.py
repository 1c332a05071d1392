"""The prefix tree: prompts as runs of tokens or block ids, each run stored once.

In: prompts as readers state them (`batches`, `blocks`). Out: the node where each prompt ends, the arrays of all nodes,
a digest of each prompt's content, and walks over pairs of prompts.
"""
