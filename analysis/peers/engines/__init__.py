"""What the block managers of real engines would hit, instead of an ideal LRU cache: one engine per module.

In: `paths.block_paths`, the prefix tree and its requests cut into the pieces that engines handle. Out: hits from `vllm`
and `sglang`.
"""
