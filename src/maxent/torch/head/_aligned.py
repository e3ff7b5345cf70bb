"""Scores in rows of aligned length, and products in parts: at odd sizes both are slower by far.

For 16-bit numbers of which there is no multiple of 8, cuBLAS takes kernels that are five times
slower; a product with the few classes too many, beside that with all others, costs next to nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

_COLUMNS, _CLASSES = 16, 8  # of which there is a multiple


def aligned(columns: int) -> int:
    """So many columns, and those to spare."""
    return columns + -columns % _COLUMNS


def write_scores(x: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Scores into the first columns of x, -inf into those to spare; the former."""
    classes = len(weight)
    if x.shape[1] > classes:
        x[:, classes:] = -torch.inf
    for part in _parts(classes):
        if bias is None:
            torch.mm(hidden, weight[part].T, out=x[:, part])
        else:
            torch.addmm(bias[part], hidden, weight[part].T, out=x[:, part])
    return x[:, :classes]


def write_product(out: Tensor, residual: Tensor, weight: Tensor) -> None:
    """The product of residuals and weight."""
    first, *rest = _parts(len(weight))
    torch.mm(residual[:, first], weight[first], out=out)
    for part in rest:
        out.addmm_(residual[:, part], weight[part])


def _parts(classes: int) -> list[slice]:
    most = classes - classes % _CLASSES
    return [slice(0, most), slice(most, classes)] if 0 < most < classes else [slice(0, classes)]
