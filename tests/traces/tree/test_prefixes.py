"""The prefix tree and the readers of ids in front of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from traces.digests import KeyedDigest
from traces.records import Base, Piece, Prompt
from traces.tree.batches import BlockRow, PieceRow, block_batch, piece_batch
from traces.tree.blocks import KnownTexts, units_of
from traces.tree.prefixes import PrefixTree

DIGEST = KeyedDigest(b"k" * 32)
BLOCK = 4

prompts = st.lists(
    st.tuples(st.lists(st.integers(0, 3), max_size=8), st.integers(0, BLOCK - 1), st.sampled_from(["s", "t", None])),
    min_size=1,
    max_size=40,
)


def build(rows: list[tuple[list[int], int, Any]], flush: int = 7) -> tuple[PrefixTree, Any, Any]:
    """Insert prompts of whole blocks and a partial one with an id of its own, through the raw text path."""
    tree, known = PrefixTree(), KnownTexts()
    leaf, full, reply = (np.full(len(rows), -1, np.int64) for _ in range(3))
    waiting = []
    for row, (ids, rest, session) in enumerate(rows):
        labels = [*ids, 1000 + row] if rest else ids
        tokens = len(ids) * BLOCK + rest
        text = ",".join(map(str, labels)).encode()
        added = known.add(0, session, text, len(ids), -(-tokens // BLOCK), row)
        waiting.append(BlockRow(row, tokens, BLOCK, 0, added))
        if len(waiting) == flush or row == len(rows) - 1:
            batch, fine = block_batch(waiting, DIGEST, 1)
            assert fine.all()
            tree.insert(batch, leaf, full, reply)
            waiting = []
    return tree, leaf, full


@given(prompts)
@settings(max_examples=80, deadline=None)
def test_paths_are_the_prompts(rows: list[tuple[list[int], int, Any]]) -> None:
    tree, leaf, full = build(rows)
    columns, pool = tree.columns(), tree.pool()

    def path(node: int) -> list[int]:
        units: list[int] = []
        while node > 0:
            count = (columns["end"][node] - columns["start"][node]) // columns["per_unit"][node]
            at = columns["offset"][node]
            units = [int(pool[at + i]) if at >= 0 else -1 for i in range(count)] + units
            assert columns["start"][node] == columns["end"][columns["parent"][node]]
            node = columns["parent"][node]
        return units

    for row, (ids, rest, _) in enumerate(rows):
        assert path(full[row]) == ids
        assert columns["end"][leaf[row]] == len(ids) * BLOCK + rest
    firsts = [(int(p), int(pool[o])) for p, o in zip(columns["parent"], columns["offset"], strict=True) if o >= 0]
    assert len(set(firsts)) == len(firsts), "children differ in their first unit"
    held = sum(
        (columns["end"][n] - columns["start"][n]) // BLOCK for n in range(1, tree.size) if columns["offset"][n] >= 0
    )
    assert held == len({tuple(ids[: k + 1]) for ids, _, _ in rows for k in range(len(ids))})


@given(prompts)
@settings(max_examples=30, deadline=None)
def test_a_restored_tree_goes_on(rows: list[tuple[list[int], int, Any]]) -> None:
    tree = build(rows)[0]
    again = PrefixTree.restore({k: v.copy() for k, v in tree.columns().items()}, tree.pool().copy())
    size = again.size
    more, fine = block_batch(
        [
            BlockRow(i, len(ids) * BLOCK, BLOCK, 0, KnownTexts().add(0, None, list(ids), len(ids), len(ids), i))
            for i, (ids, _, _) in enumerate(rows)
        ],
        DIGEST,
        1,
    )
    out = [np.full(len(rows), -1, np.int64) for _ in range(3)]
    again.insert(more, *out)
    assert fine.all()
    ends = again.columns()["end"]
    assert [int(ends[n]) for n in out[0]] == [len(ids) * BLOCK for ids, _, _ in rows]
    assert int(again.pool().size) == int(tree.pool().size), "nothing new was stored"
    assert again.size >= size


def pieces(tree: PrefixTree, rows: list[PieceRow]) -> tuple[Any, Any]:
    leaf, full, reply = (np.full(len(rows), -1, np.int64) for _ in range(3))
    tree.insert(piece_batch(rows), leaf, full, reply)
    return leaf, reply


def test_text_shares_to_the_token() -> None:
    tree = PrefixTree()
    units = np.arange(20, dtype=np.uint32)
    other = units.copy()
    other[13] = 99
    rows = [
        PieceRow(0, 0, Prompt((Piece(1, 20, "user", units),)), -1, ()),
        PieceRow(1, 0, Prompt((Piece(2, 20, "user", other),)), -1, ()),
    ]
    leaf, _ = pieces(tree, rows)
    parent, end = tree.columns()["parent"], tree.columns()["end"]
    assert parent[leaf[0]] == parent[leaf[1]]
    assert end[parent[leaf[0]]] == 13


def test_virtual_runs_share_up_to_the_shorter() -> None:
    tree = PrefixTree()
    rows = [
        PieceRow(0, 0, Prompt((Piece(7, 30, "user"),)), -1, ()),
        PieceRow(1, 0, Prompt((Piece(7, 20, "user"), Piece(8, 5, "user"))), -1, ()),
        PieceRow(2, 0, Prompt((Piece(9, 30, "user"),)), -1, ()),
    ]
    leaf, _ = pieces(tree, rows)
    parent, end = tree.columns()["parent"], tree.columns()["end"]
    assert end[parent[leaf[0]]] == 20
    assert parent[leaf[1]] == parent[leaf[0]]
    assert parent[leaf[2]] == 0


def test_a_prompt_extends_a_reply_or_a_part() -> None:
    tree = PrefixTree()
    first = PieceRow(0, 0, Prompt((Piece(1, 10, "user"),)), -1, (Piece(2, 4, "assistant"),))
    onward = PieceRow(1, 0, Prompt((Piece(3, 6, "user"),), Base("a")), 0, ())
    rewound = PieceRow(2, 0, Prompt((Piece(4, 6, "user"),), Base("a", True, 12)), 0, ())
    leaf, reply = pieces(tree, [first, onward, rewound])
    end = tree.columns()["end"]
    assert [int(end[n]) for n in leaf] == [10, 20, 18]
    assert int(end[reply[0]]) == 14


def test_ids_are_opaque() -> None:
    huge = 2**64 - 1
    assert units_of([0, huge], DIGEST).tolist() == [0, huge]
    a, b = units_of(["x", "y"], DIGEST).tolist()
    assert a != b
    assert units_of([2**70], DIGEST)[0] == units_of([str(2**70)], DIGEST)[0]


def test_ids_that_are_none() -> None:
    for text in (b"1,2.5", b"1,,2", b"1 2", b"[1]", b"1,null"):
        added = KnownTexts().add(0, None, text, 2, 3, 0)
        _, fine = block_batch([BlockRow(0, 9, 4, 0, added)], DIGEST, 1)
        assert fine.tolist() == [0], text


def test_numbers_beyond_64_bits_are_labels() -> None:
    added = KnownTexts().add(0, None, b"1, 99999999999999999999", 2, 2, 0)
    _, fine = block_batch([BlockRow(0, 8, 4, 0, added)], DIGEST, 1)
    assert fine.tolist() == [1]
