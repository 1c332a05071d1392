"""The result of replaying an engine's block manager at one capacity."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.peers.engines.paths import Ints


class Replay(NamedTuple):
    """What an engine does at one capacity.

    `usable_blocks` (or pages) excludes a null block. `method` is one_pass or replay, and `reason` says why.
    `hit_blocks` and `scheduled` are per request, in the order of `BlockPaths.row`. Requests that cannot be scheduled
    hit nothing; `unschedulable_tokens` sums their tokens. `decode_oom` counts requests whose prompt fits but whose
    output does not.
    """

    usable_blocks: int
    block_tokens: int
    hit_blocks: Ints
    scheduled: NDArray[np.bool_]
    unschedulable_tokens: int
    decode_oom: int
    method: str
    reason: str

    @property
    def unschedulable(self) -> int:
        """Requests whose prompt alone is larger than the cache."""
        return int((~self.scheduled).sum())

    @property
    def hit_tokens(self) -> int:
        """Prompt tokens not computed."""
        return int(self.hit_blocks.sum()) * self.block_tokens
