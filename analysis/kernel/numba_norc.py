"""Compiled functions over arrays that somebody else keeps alive.

Numba counts references to every array that a function is handed, with atomic instructions. The replay hands dozens of
arrays to functions of a few lines, and counting them took half of its time and much of its compilation. Its caller
holds all of them until it returns, so here nothing is counted; in exchange such a function cannot make an array.
"""

from __future__ import annotations

from functools import partial

from numba.core.cpu import CPUTargetOptions

from traces.tree.compiled import njit

# options that Numba's documentation does not name: a release without them is slower, not broken
_LEFT_OUT = {"_nrt": False, "no_cfunc_wrapper": True}
_KNOWN = {name: value for name, value in _LEFT_OUT.items() if hasattr(CPUTargetOptions, name)}

uncounted = partial(njit, cache=True, **{name: value for name, value in _KNOWN.items() if name == "_nrt"})
"""For functions that Python calls, or that are handed over as pointers."""

inner = partial(njit, cache=True, **_KNOWN)
"""For functions that only compiled functions call: they are never pointers, and compile sooner for it."""
