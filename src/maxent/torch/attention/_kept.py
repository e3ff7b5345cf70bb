"""What a forward pass of attention keeps for its backward pass."""

from __future__ import annotations

from typing import NamedTuple

import torch
from maxent.torch.attention._inputs import Attention
from maxent.torch.maps._dispatch import compute_type
from torch import Tensor

ENGINES = ("plain", "numba", "lists", "tiles")
KEEPING_DEVICES = {"cuda"}  # devices whose kernels keep more than lists


class Kept(NamedTuple):
    """Tensors by their names; None where the engine that made them needs none.

    by : the engine.
    crow, col, root : rows of lists (where they begin), their keys, and (z - tau)_+ or weights.
    turned, tally : for each key the slots of its entries, with their rows in the upper half, and
        where they begin.
    norms : the largest of heads.
    mean, mass : for each query sum_j w_j v_j and sum_j w_j.
    tau : thresholds.
    """

    by: str
    crow: Tensor | None = None
    col: Tensor | None = None
    root: Tensor | None = None
    turned: Tensor | None = None
    tally: Tensor | None = None
    norms: Tensor | None = None
    mean: Tensor | None = None
    mass: Tensor | None = None
    tau: Tensor | None = None


def room(given: Attention, name: str, entries: int = 0) -> Tensor:
    """A tensor of the shape that one of these names has, whichever engine is at work."""
    query = given.query
    on = query.device.type in KEEPING_DEVICES
    rows = query.shape[0] * query.shape[1] * query.shape[2]
    if name == "crow":
        return query.new_empty(rows + 1, dtype=torch.int64)
    if name == "root":
        return query.new_empty(entries, dtype=compute_type(query))
    if name == "col":
        return query.new_empty(entries, dtype=torch.int32)
    if name == "turned":
        return query.new_empty(entries if on else 0, dtype=torch.int64)
    if name == "mean":
        return query.new_empty(rows if on else 0, given.value.shape[3])
    if name in ("mass", "tau"):
        return query.new_empty(rows if on else 0, dtype=torch.float32)
    shared = given.key.shape[0] * given.key.shape[1]
    keys = shared * given.key.shape[2]
    if name == "tally":
        return query.new_empty(keys + 1 if on else 0, dtype=torch.int64)
    heads = 2 * shared + query.shape[0] * query.shape[1]
    return query.new_empty(heads if on else 0, dtype=torch.int32)
