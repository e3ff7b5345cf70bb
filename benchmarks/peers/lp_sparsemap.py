"""lp-sparsemap: SparseMAP in C++. Its sources no longer build: the figure is a recorded one.

Forward and backward of one chain of 50 positions and 20 states with random scores: 57 ms.
"""

from __future__ import annotations

NAME = "lp-sparsemap"
SECONDS_PER_CHAIN = 0.057
