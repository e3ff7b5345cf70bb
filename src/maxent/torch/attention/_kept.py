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
    crow, col, root, owner : rows of lists (where they begin), keys, (z - tau)_+ or weights, and the
        rows of entries.
    mean, mass : for each query sum_j w_j v_j and sum_j w_j.
    counts : how many queries attend to each key.
    norms : the largest of each head.
    tau : thresholds.
    """

    by: str
    crow: Tensor | None = None
    col: Tensor | None = None
    root: Tensor | None = None
    owner: Tensor | None = None
    mean: Tensor | None = None
    mass: Tensor | None = None
    counts: Tensor | None = None
    norms: Tensor | None = None
    tau: Tensor | None = None


_ENTRIES = ("col", "root", "owner")


def room(given: Attention, name: str, entries: int = 0) -> Tensor:
    """A tensor of the shape that one of these names has, whichever engine is at work."""
    query, key = given.query, given.key
    if name in _ENTRIES:
        on_cpu = name == "owner" and query.device.type not in KEEPING_DEVICES
        kind = compute_type(query) if name == "root" else torch.int32
        return query.new_empty(0 if on_cpu else entries, dtype=kind)
    on = int(query.device.type in KEEPING_DEVICES)
    rows, pairs = query.shape[:3].numel(), query.shape[:2].numel() * on
    if name == "crow":
        return query.new_empty(rows + 1, dtype=torch.int64)
    rows *= on
    shared = key.shape[:2].numel() * on
    if name == "mean":
        return query.new_empty(rows, given.value.shape[3])
    if name == "counts":
        return query.new_empty(shared * key.shape[2], dtype=torch.int32)
    if name == "norms":
        return query.new_empty(2 * shared + pairs, dtype=torch.int32)
    return query.new_empty(rows, dtype=torch.float32)
