"""Rows: the one shape convention of the library.

Scores ``theta`` and points ``p`` are batches of rows. A batch is either an array whose last
axis is the row, or, where rows have different sizes, a :class:`Ragged`. Every reduction over
rows goes through the functions here, so that entropies, losses and problems are written once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import ArrayLike, NDArray

from maxent import io

Array = NDArray[Any]


@io.register
@dataclass(frozen=True, eq=False)
class Ragged(NDArrayOperatorsMixin):
    """Rows of different sizes: ``values`` (total,) cut at ``offsets`` (rows + 1,).

    Arithmetic and numpy ufuncs act element by element and keep the cuts.

    >>> r = Ragged.from_rows([[1.0, 2.0], [3.0]])
    >>> (2 * r).rows()
    [array([2., 4.]), array([6.])]
    """

    values: Array
    offsets: Array

    @classmethod
    def from_rows(cls, rows: list[Any]) -> Ragged:
        """Join a list of one-dimensional rows."""
        arrays = [np.asarray(row, dtype=float if not len(row) else None) for row in rows]
        if any(a.ndim != 1 for a in arrays):
            raise ValueError(
                "Ragged.from_rows expects one-dimensional rows; flatten each row first"
            )
        offsets = np.concatenate([[0], np.cumsum([a.size for a in arrays])]).astype(np.int64)
        return cls(np.concatenate(arrays) if arrays else np.empty(0), offsets)

    def rows(self) -> list[Array]:
        """The rows, as views."""
        return [self.values[a:b] for a, b in zip(self.offsets[:-1], self.offsets[1:], strict=True)]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        return self.values.dtype

    def astype(self, dtype: Any, copy: bool = True) -> Ragged:
        """The same rows with values of another type."""
        return Ragged(self.values.astype(dtype, copy=copy), self.offsets)

    def copy(self) -> Ragged:
        """Rows that share no memory with these."""
        return Ragged(self.values.copy(), self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or "out" in kwargs:
            return NotImplemented
        for other in inputs:
            if isinstance(other, Ragged) and not np.array_equal(other.offsets, self.offsets):
                raise ValueError("two Ragged batches must have rows of the same sizes")
        plain = [x.values if isinstance(x, Ragged) else x for x in inputs]
        return Ragged(getattr(ufunc, method)(*plain, **kwargs), self.offsets)

    def __setmodel__(self, state: dict[str, Any]) -> None:
        """Compiled kernels trust the offsets, so a file may not bring wrong ones."""
        values, offsets = state["values"], state["offsets"]
        sound = (
            isinstance(values, np.ndarray)
            and isinstance(offsets, np.ndarray)
            and values.ndim == offsets.ndim == 1
            and offsets.dtype.kind == "i"
            and offsets.size > 0
            and offsets[0] == 0
            and offsets[-1] == values.size
            and bool((np.diff(offsets) >= 0).all())
        )
        if not sound:
            raise ValueError("the offsets must grow from 0 to the number of values")
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "offsets", offsets)


Rows: TypeAlias = Any
"""A batch of rows: an array whose last axis is the row, or a Ragged, which acts like one."""


def as_float(x: Any) -> Rows:
    """Floating rows: float32 and float64 are kept, everything else becomes float64."""
    if isinstance(x, Ragged):
        return Ragged(np.ascontiguousarray(as_float(x.values)), x.offsets)
    a = np.asarray(x)
    if a.dtype == np.float16:
        return a.astype(np.float32)
    if a.dtype not in (np.float32, np.float64):
        try:
            a = a.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"expected numbers, got an array of dtype {a.dtype}") from error
    return a


def n_rows(x: Rows) -> int:
    """Number of rows in a batch."""
    return len(x) if isinstance(x, Ragged) else int(np.prod(x.shape[:-1], dtype=np.int64))


def flat(x: Rows) -> Array:
    """All entries as one vector (a view where possible)."""
    return x.values if isinstance(x, Ragged) else np.reshape(x, -1)


def row_sum(x: Rows) -> Array:
    """Sum of each row, accumulated in float64."""
    if isinstance(x, Ragged):
        # reduceat repeats the next entry for an empty row, so empty rows are masked to 0
        sizes = np.diff(x.offsets)
        sums = np.zeros(len(sizes))
        full = sizes > 0
        if full.any():
            sums[full] = np.add.reduceat(x.values.astype(np.float64), x.offsets[:-1][full])
        return sums
    if x.shape[-1] == 1:  # a reduction over an axis of one is slow
        return x[..., 0].astype(np.float64)
    return np.asarray(np.sum(x, axis=-1, dtype=np.float64))


def row_dot(x: Rows, y: Rows) -> Array:
    """Inner product of each pair of rows in float64; 0 * inf counts as 0."""
    if isinstance(x, Ragged) or isinstance(y, Ragged):
        return row_sum(_finite_product(x, y))
    with np.errstate(invalid="ignore", over="ignore"):
        product = np.einsum("...i,...i->...", x, y, dtype=np.float64)
    if np.isfinite(product).all():
        return product
    return row_sum(_finite_product(x, y))


def _finite_product(x: Any, y: Any) -> Rows:
    """x * y with 0 * inf = 0, the convention of convex analysis."""
    with np.errstate(invalid="ignore", over="ignore"):
        product = x * y
    zero = (x == 0) | (y == 0)
    if isinstance(product, Ragged):
        return Ragged(np.where(zero.values, 0.0, product.values), product.offsets)
    return np.where(zero, 0.0, product)


def row_scale(x: Rows, weights: ArrayLike) -> Rows:
    """Each row times its own weight."""
    weights = np.asarray(weights)
    if isinstance(x, Ragged):
        return Ragged(x.values * np.repeat(weights, np.diff(x.offsets)), x.offsets)
    return x * weights[..., None].astype(x.dtype, copy=False)


def as_rows(x: Rows) -> Rows:
    """The batch with one leading axis: what the hooks of domains and entropies receive."""
    return x if isinstance(x, Ragged) else np.ascontiguousarray(x.reshape(-1, x.shape[-1]))


def like(result: Rows, template: Rows) -> Rows:
    """Undo :func:`as_rows` on an array of rows."""
    return result if isinstance(result, Ragged) else np.reshape(result, np.shape(template))


def leading(values: Array, template: Rows) -> Array:
    """Undo :func:`as_rows` on one number per row."""
    return values if isinstance(template, Ragged) else values.reshape(template.shape[:-1])


def check_scores(theta: Any, name: str = "scores") -> Rows:
    """Scores as float rows; refuses NaN, +inf, empty rows and rows without a finite score."""
    theta = as_float(theta)
    values = flat(theta)
    if isinstance(theta, Ragged):
        sizes = np.diff(theta.offsets)
    else:
        if theta.ndim == 0:
            raise ValueError(f"{name} must have at least one axis, got a single number")
        sizes = np.full(1, theta.shape[-1])
    if (sizes == 0).any():
        raise ValueError(f"{name} have an empty row; every row needs at least one entry")
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = values.size and not np.isfinite(np.add.reduce(values))
    if suspicious:
        _explain_scores(theta, values, name)
    return theta


def _explain_scores(theta: Rows, values: Array, name: str) -> None:
    if np.isnan(values).any():
        raise ValueError(f"{name} contain NaN; remove or impute the missing values first")
    if np.isposinf(values).any():
        raise ValueError(
            f"{name} contain +inf; use -inf to exclude an entry, finite values otherwise"
        )
    rows = theta.rows() if isinstance(theta, Ragged) else np.reshape(theta, (-1, theta.shape[-1]))
    dead = [i for i, row in enumerate(rows) if np.isneginf(row).all()]
    if dead:
        raise ValueError(
            f"row {dead[0]} of the {name} is -inf everywhere, so no entry can be chosen "
            f"({len(dead)} such rows); give each row at least one finite entry"
        )
