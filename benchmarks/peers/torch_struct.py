"""torch-struct: Matrix-Tree marginals by a batched inverse (and autograd where it needs it)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.metadata import version

import numpy as np

NAME = "torch-struct"


def marginals(scores: np.ndarray, multiroot: bool) -> Callable[[], np.ndarray]:
    """Marginals (batch, n, n) of scores [head, dependent], in the type of the scores."""
    from torch_struct import NonProjectiveDependencyCRF

    import torch

    # its diagonal holds the scores of the root
    table = torch.from_numpy(scores[:, 1:, 1:].copy())
    table.diagonal(dim1=1, dim2=2).copy_(torch.from_numpy(scores[:, 0, 1:]))

    def run() -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            p = NonProjectiveDependencyCRF(table, multiroot=multiroot).marginals.detach().numpy()
        out = np.zeros(scores.shape, scores.dtype)
        diagonal = np.arange(p.shape[1])
        out[:, 0, 1:] = p[:, diagonal, diagonal]
        out[:, 1:, 1:] = p
        out[:, diagonal + 1, diagonal + 1] = 0
        return out

    return run


def describe() -> str:
    return f"{NAME} {version(NAME)}"
