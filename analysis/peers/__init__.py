"""What other tools and engines call a hit: kvcache-simulator, AIPerf, and the block managers of vLLM and SGLang.

In: an opened dataset and a question that names a definition. Out: hits per request and capacity under that definition.
"""
