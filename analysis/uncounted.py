"""Compiled functions over arrays that somebody else keeps alive.

Numba counts references to every array that a function is handed, with atomic instructions. The replay hands dozens of
arrays to functions of a few lines, and counting them took half of its time and much of its compilation. Its caller
holds all of them until it returns, so here nothing is counted; in exchange such a function cannot make an array.
"""

from __future__ import annotations

from functools import partial

from numba import njit

uncounted = partial(njit, cache=True, _nrt=False)
"""For functions that Python calls, or that are handed over as pointers."""

inner = partial(uncounted, no_cfunc_wrapper=True)
"""For functions that only compiled functions call: they are never pointers, and compile sooner for it."""
