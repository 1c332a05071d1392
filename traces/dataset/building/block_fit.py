"""Which native block sizes the rows of an input allow, where the size that is used does not fit them."""

from __future__ import annotations

USUAL_BLOCKS = (16, 64, 512, 32, 128, 256, 1024, 1, 8, 2048)
"""Block sizes in the order in which traces use them."""


class BlockFit:
    """Counts rows with more block ids than their length allows, and narrows down the sizes that fit them all."""

    def __init__(self) -> None:
        self.misfits = 0
        self._low, self._high = 1, 1 << 40

    def add(self, tokens: int, ids: int) -> None:
        """Note a row of `tokens` tokens that has `ids` block ids, too many for the size that is used."""
        self.misfits += 1
        self._low = max(self._low, -(-tokens // ids))
        self._high = min(self._high, -(-tokens // max(1, ids - 1)) - 1)

    def note(self) -> str:
        """What the receipt says of these rows, with a size that would fit them."""
        low, high = self._low, self._high
        usual = next((size for size in USUAL_BLOCKS if low <= size <= high), low)
        fits = f"{usual}: sizes from {low} to {high} fit them all" if low <= high else "N"
        return (
            f"{self.misfits:,} rows have more block ids than their length allows at the native block size "
            "used, so their prompts are left out of every hit rate. Give the block size that the ids were made "
            f"with (--block-size {fits})."
        )
