"""What each figure means under each definition, in words. These texts are printed with the figures."""

from __future__ import annotations

_KNOWN_PROMPTS = "hit tokens / prefix tokens of requests whose prompt is known (token-weighted)"
_ONE_AFTER_ANOTHER = "requests run one after another, so nothing in flight holds blocks"
_NO_REPLY = "a reply whose text is unknown fills blocks that nobody else can hit"

_EXPORTED = (
    "those of the Mooncake export at this block size, which is what the tool reads: a partial last block has an id of "
    "its own, also where the source's format (Weka) or text gives it none"
)

_VLLM = {
    "hit": "leading full blocks found by vLLM 0.33's block manager; the last prompt token is always computed, so a "
    "fully cached prompt computes its last block again; blocks of generated tokens are cached when full",
    "rate": f"{_KNOWN_PROMPTS}; a request that cannot be scheduled hits nothing and is counted",
    "ceiling": "a cache in which nothing is ever evicted, generated tokens included",
    "method": "each row says which: one_pass (stack distances, exact where every request fits and no block is computed "
    "twice) or replay (the block manager, run at this capacity)",
    "capacity": "blocks that requests can use; vLLM's null block is one more (num_gpu_blocks = capacity + 1)",
    "concurrency": _ONE_AFTER_ANOTHER,
    "replies": _NO_REPLY,
}

MEANINGS: dict[str, dict[str, str]] = {
    "tracetower": {
        "hit": "leading full blocks shared with an earlier request; a partial last block never hits",
        "rate": _KNOWN_PROMPTS,
        "ceiling": "unbounded, one shared cache, prompt tokens only",
        "eviction": "LRU, a request's blocks touched last to first; capacity is per replica",
    },
    "kvcache-simulator": {
        "hit": "leading block ids seen before; a partial last block is a block like others and weighs its tokens",
        "ids": _EXPORTED,
        "rate": "hit tokens / prompt tokens of the last half of the requests",
        "ceiling": "unbounded, one shared cache, prompt tokens only",
        "eviction": "LRU over block ids, leaves first; capacity is per replica. A prompt with more blocks than the "
        "cache leaves one place empty until a request brings a new block (as in kvcache-simulator 0.1.3, which prints "
        "no point where the cache is not full after the first half of the requests)",
    },
    "aiperf": {
        "hit": "leading block ids seen before, a partial last block included",
        "ids": _EXPORTED,
        "rate": "the mean over requests of hit blocks / blocks, not weighted",
        "ceiling": "unbounded, one shared cache, prompt tokens only",
        "eviction": "none: knows no capacity",
    },
    "vllm": _VLLM
    | {
        "engine": "vLLM 0.33.0 block manager (vllm/v1/core), one full-attention group; free queue as from 0.23 on",
        "eviction": "from the front of the free queue: the partial block of a finished request first, then least "
        "recently used, tails before heads",
    },
    "vllm:0.20": _VLLM
    | {
        "engine": "vLLM block manager (vllm/v1/core), one full-attention group; free queue as in 0.20 and before",
        "eviction": "from the front of the free queue, where a finished request's blocks are appended tail first, its "
        "partial block among them",
    },
    "sglang": {
        "engine": "SGLang 0.5.23 RadixCache (UnifiedRadixCache gives the same), policy lru; a page is the block size",
        "hit": "leading full pages found in the radix tree, at most the prompt without its last token; replies are "
        "cached",
        "rate": f"{_KNOWN_PROMPTS}; a request that cannot be scheduled hits nothing and is counted",
        "ceiling": "a cache in which nothing is ever evicted, generated tokens included",
        "eviction": "whole least recently used leaves until the shortfall is met",
        "method": "each row: replay (the radix cache, run at this capacity); leaf-granular eviction is not a stack "
        "algorithm, so no single pass is exact",
        "capacity": "pages of the KV pool",
        "concurrency": _ONE_AFTER_ANOTHER,
        "replies": _NO_REPLY,
    },
}
"""Definition -> term -> its meaning. Sources: the papers and engine files named in analysis.peers.engines."""
