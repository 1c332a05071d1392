"""What the block managers of real engines would hit, not what an ideal LRU would: one definition a module.

`paths.block_paths` turns the prefix tree and its requests into what the definitions read; `vllm` and `sglang` answer.
"""
