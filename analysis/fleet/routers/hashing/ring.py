"""The consistent-hash ring of vllm-router (0.1.17): 160 points a replica, hashed the way Facebook's routers do.

A point of replica u is fbi("u:i"), i < vnodes; a session's place is fbi("header:x-session-id:NAME"); it belongs to
the first point at or after its place, round the ring. fbi(key) = murmur64A(furc(key, 2^23 - 1) as 4 little-endian
bytes).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.fleet.routers.fleet import Setup
from traces.tree.compiled import njit

_SEED = np.uint64(4193360111)
_M = np.uint64(0xC6A4A7935BD1E995)
_R = np.uint64(47)
_FURC_SIZE = 2**23 - 1
_FURC_BITS = 23


@njit(cache=True)
def _murmur64a(key: Any) -> Any:
    """MurmurHash64A of uint8[:]."""
    h = _SEED ^ (np.uint64(len(key)) * _M)
    whole = len(key) // 8
    for i in range(whole):
        k = np.uint64(0)
        for j in range(8):
            k |= np.uint64(key[8 * i + j]) << np.uint64(8 * j)
        k *= _M
        k ^= k >> _R
        k *= _M
        h ^= k
        h *= _M
    rest = len(key) - 8 * whole
    if rest:
        for j in range(rest):
            h ^= np.uint64(key[8 * whole + j]) << np.uint64(8 * j)
        h *= _M
    h ^= h >> _R
    h *= _M
    return h ^ (h >> _R)


@njit(cache=True)
def _murmur64a_again(k: Any) -> Any:
    """MurmurHash64A of the eight bytes of a uint64."""
    h = _SEED ^ (np.uint64(8) * _M)
    k *= _M
    k ^= k >> _R
    k *= _M
    h ^= k
    h *= _M
    h ^= h >> _R
    h *= _M
    return h ^ (h >> _R)


@njit(cache=True)
def _furc(key: Any) -> int:
    """furc_hash into _FURC_SIZE buckets: walks a binary tree by the bits of a chain of hashes of the key."""
    chain = np.empty(64, np.uint64)
    known = 0
    depth = _FURC_BITS
    bit = depth
    for _attempt in range(32):
        while True:
            while known <= bit >> 6:
                chain[known] = _murmur64a(key) if known == 0 else _murmur64a_again(chain[known - 1])
                known += 1
            if (chain[bit >> 6] >> np.uint64(bit & 63)) & np.uint64(1):
                break
            depth -= 1
            if depth == 0:
                return 0
            bit = depth
        bit += _FURC_BITS
        number = 1
        for _step in range(depth - 1):
            while known <= bit >> 6:
                chain[known] = _murmur64a_again(chain[known - 1])
                known += 1
            number = (number << 1) | int((chain[bit >> 6] >> np.uint64(bit & 63)) & np.uint64(1))
            bit += _FURC_BITS
        if number < _FURC_SIZE:
            return number
    return 0


@njit(cache=True)
def _fbi(key: Any) -> Any:
    number = _furc(key)
    four = np.empty(4, np.uint8)
    for j in range(4):
        four[j] = (number >> (8 * j)) & 255
    return _murmur64a(four)


def fbi_hash(key: str) -> int:
    """The ring's 64-bit hash of a key."""
    return int(_fbi(np.frombuffer(key.encode(), np.uint8)))


def prepare_ring(setup: Setup) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """ints: each session's first point on the ring (s of them), then the replica of every point in ring order."""
    points = np.array(
        [fbi_hash(f"{name}:{i}") for name in setup.replica_names for i in range(int(setup.params["vnodes"]))], np.uint64
    )
    owner = np.repeat(np.arange(setup.replicas), int(setup.params["vnodes"]))
    order = np.argsort(points, kind="stable")
    place = np.array([fbi_hash(f"header:x-session-id:{name}") for name in setup.session_names], np.uint64)
    first = np.searchsorted(points[order], place) % len(points)
    return np.concatenate([first, owner[order]]).astype(np.int64), np.zeros(1)
