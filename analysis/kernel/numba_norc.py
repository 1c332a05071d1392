"""Compiled functions without reference counting ("norc"), for arrays that the caller keeps alive.

Numba counts references to every array argument with atomic instructions. The replay passes dozens of arrays to very
short functions, and counting took half of its time and much of its compilation. Its caller holds all the arrays until
it returns, so counting is switched off. In exchange, such a function cannot create an array.
"""

from __future__ import annotations

from functools import partial

from numba.core.cpu import CPUTargetOptions

from traces.tree.compiled import njit

# Numba does not document these options. A release without them is slower, not broken.
_LEFT_OUT = {"_nrt": False, "no_cfunc_wrapper": True}
_KNOWN = {name: value for name, value in _LEFT_OUT.items() if hasattr(CPUTargetOptions, name)}

numba_norc = partial(njit, cache=True, **{name: value for name, value in _KNOWN.items() if name == "_nrt"})
"""Decorator for functions that Python calls, or that are passed as pointers."""

norc_inner = partial(njit, cache=True, **_KNOWN)
"""Decorator for functions that only compiled functions call. They are never passed as pointers, so they compile
faster."""
