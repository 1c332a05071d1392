"""What an engine definition answers for one capacity."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.peers.engines.paths import Ints


class Replay(NamedTuple):
    """What an engine does at one capacity.

    `usable_blocks` (or pages) excludes a null block. `method` is one_pass or replay, `reason` why. `hit_blocks` is per
    request, in the order of `BlockPaths.row`, as is `scheduled`. Requests that cannot be scheduled hit nothing; their
    tokens are in `unschedulable_tokens`. `decode_oom` counts requests that fit with their prompt but not with their
    output.
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
