"""How much memory a block takes, which schedulers ask before they move one."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse


def bytes_of(thing: Any) -> int:
    """The bytes of all arrays that an object holds, each counted once.

    >>> class Pair:
    ...     def __init__(self, one, other):
    ...         self.one, self.other = one, [other, one]
    >>> bytes_of(Pair(np.zeros(10), np.zeros((2, 5), np.float32)))
    120
    """
    seen: set[int] = set()
    total = 0
    waiting = [thing]
    while waiting:
        x = waiting.pop()
        if id(x) in seen:
            continue
        seen.add(id(x))
        if isinstance(x, np.ndarray):
            total += x.nbytes if x.base is None or 0 not in x.strides else 0
        elif sparse.issparse(x):
            waiting += [part for part in vars(x).values() if isinstance(part, np.ndarray)]
        elif isinstance(x, dict):
            waiting += x.values()
        elif isinstance(x, list | tuple):
            waiting += x
        elif hasattr(x, "__dict__"):
            waiting += vars(x).values()
    return total
