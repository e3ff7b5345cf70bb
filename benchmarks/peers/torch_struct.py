"""torch-struct: Matrix-Tree marginals by a batched inverse, charts with autograd."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

NAME = "torch-struct"


def marginals(scores: np.ndarray, multiroot: bool) -> Callable[[], np.ndarray]:
    """Marginals (batch, n, n) of scores [head, dependent], in the type of the scores."""
    from torch_struct import NonProjectiveDependencyCRF

    table = _rooted(scores)

    def run() -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            p = NonProjectiveDependencyCRF(table, multiroot=multiroot).marginals.detach().numpy()
        return _unrooted(p, scores.dtype)

    return run


def log_partition(kind: str, scores: Tensor) -> Tensor:
    """Of torch's own tensors: "projective", its diagonal the scores of the root, or "spans"."""
    from torch_struct import DependencyCRF, TreeCRF

    # what it writes to must not be a leaf of autograd
    trees = DependencyCRF(scores * 1, multiroot=True) if kind == "projective" else TreeCRF(scores)
    value: Tensor = trees.partition
    return value


def projective(asked: str) -> Callable[[np.ndarray], Callable[[], np.ndarray]]:
    """ "marginals" or "argmax" (batch, n, n) of projective trees with any number of root arcs."""

    def prepared(scores: np.ndarray) -> Callable[[], np.ndarray]:
        from torch_struct import DependencyCRF

        table = _rooted(scores)

        def run() -> np.ndarray:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                # what it writes to must not be a leaf of autograd
                trees = DependencyCRF(table.clone().requires_grad_() * 1, multiroot=True)
                return _unrooted(getattr(trees, asked).detach().numpy(), scores.dtype)

        return run

    return prepared


def spans(asked: str) -> Callable[[np.ndarray], Callable[[], np.ndarray]]:
    """ "marginals" or "argmax" (batch, n, n, labels) of binary trees."""

    def prepared(scores: np.ndarray) -> Callable[[], np.ndarray]:
        from torch_struct import TreeCRF

        import torch

        table = torch.from_numpy(scores)

        def run() -> np.ndarray:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                p: np.ndarray = getattr(TreeCRF(table.clone()), asked).detach().numpy()
            return p

        return run

    return prepared


def _rooted(scores: np.ndarray) -> Any:
    """Its table, whose diagonal holds the scores of the root."""
    import torch

    table = torch.from_numpy(scores[:, 1:, 1:].copy())
    table.diagonal(dim1=1, dim2=2).copy_(torch.from_numpy(scores[:, 0, 1:]))
    return table


def _unrooted(p: np.ndarray, dtype: Any) -> np.ndarray:
    """Ours, with the root as node 0, from such a table."""
    batch, m, _ = p.shape
    out = np.zeros((batch, m + 1, m + 1), dtype)
    diagonal = np.arange(m)
    out[:, 1:, 1:] = p
    out[:, diagonal + 1, diagonal + 1] = 0
    out[:, 0, 1:] = p[:, diagonal, diagonal]
    return out


def describe() -> str:
    return f"{NAME} {version(NAME)}"
