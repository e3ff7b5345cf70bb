"""Rows: the one shape convention of the library.

Scores ``theta`` and points ``p`` are batches of rows. A batch is either an array whose last
axis is the row, or, where rows have different sizes, a :class:`Ragged`, or, where rows of
different sizes end in a block that many of them share, a :class:`Tied`. Every reduction over
rows goes through the functions here, so that entropies, losses and problems are written once.
"""

from __future__ import annotations

from collections.abc import Callable
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
    """Rows of different sizes: one array cut at offsets.

    Arithmetic and numpy ufuncs act element by element and keep the cuts.

    Parameters
    ----------
    values : array (total,)
        The entries of all rows, one row after the other.
    offsets : array (n_rows + 1,)
        Where the rows start; row i is ``values[offsets[i]:offsets[i + 1]]``.

    Examples
    --------
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


@io.register
@dataclass(frozen=True, eq=False)
class Tied(NDArrayOperatorsMixin):
    """Ragged rows that end in a block of one size: row i is ``own`` row i, then ``tied`` row i.

    ``tied`` has one row per row of ``own``, or a single one that all of them share, as the
    transition scores of a chain model do; the sum of such a batch and one with a block per row
    has a block per row. Inner products, sums and weights act on the rows written out.

    Parameters
    ----------
    own : Ragged
        What each row has of its own.
    tied : array (n_rows, size) or (1, size)
        The block at the end of each row, or a single one that all rows share.

    Examples
    --------
    >>> scores = Tied(Ragged.from_rows([[1.0, 2.0], [3.0]]), np.array([[10.0]]))
    >>> scores.rows()
    [array([ 1.,  2., 10.]), array([ 3., 10.])]
    """

    own: Ragged
    tied: Array

    def __post_init__(self) -> None:
        if self.tied.ndim != 2 or len(self.tied) not in (1, len(self.own)):
            raise ValueError(
                f"the tied block needs one row, or one per row of the batch ({len(self.own)}), "
                f"got shape {self.tied.shape}"
            )

    def rows(self) -> list[Array]:
        """The rows written out."""
        blocks = np.broadcast_to(self.tied, (len(self), self.tied.shape[1]))
        return [np.concatenate(pair) for pair in zip(self.own.rows(), blocks, strict=True)]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the entries."""
        return np.result_type(self.own.dtype, self.tied.dtype)

    def astype(self, dtype: Any, copy: bool = True) -> Tied:
        """The same rows with entries of another type."""
        return Tied(self.own.astype(dtype, copy=copy), self.tied.astype(dtype, copy=copy))

    def copy(self) -> Tied:
        """Rows that share no memory with these."""
        return Tied(self.own.copy(), self.tied.copy())

    def __len__(self) -> int:
        return len(self.own)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or "out" in kwargs:
            return NotImplemented
        if not all(isinstance(x, Tied) or np.ndim(x) == 0 for x in inputs):
            raise TypeError("rows with a tied block combine with numbers and with rows of one kind")
        both = [
            [getattr(x, part) if isinstance(x, Tied) else x for x in inputs]
            for part in ("own", "tied")
        ]
        return Tied(*(ufunc(*parts, **kwargs) for parts in both))

    def __setmodel__(self, state: dict[str, Any]) -> None:
        if not (isinstance(state["own"], Ragged) and isinstance(state["tied"], np.ndarray)):
            raise ValueError("tied rows are Ragged rows and an array of blocks")
        object.__setattr__(self, "own", state["own"])
        object.__setattr__(self, "tied", state["tied"])
        self.__post_init__()


Rows: TypeAlias = Any
"""A batch of rows: an array whose last axis is the row, or a Ragged or Tied, which act like one."""


def uneven(x: Any) -> bool:
    """Whether the rows may differ in size."""
    return isinstance(x, Ragged | Tied)


def same_cuts(x: Rows, y: Rows) -> bool:
    """Whether two batches have rows of the same sizes, laid out alike."""
    if isinstance(x, Tied) and isinstance(y, Tied):
        return same_cuts(x.own, y.own) and x.tied.shape[1] == y.tied.shape[1]
    if isinstance(x, Ragged) and isinstance(y, Ragged):
        return np.array_equal(x.offsets, y.offsets)
    return not uneven(x) and not uneven(y) and np.shape(x) == np.shape(y)


def as_float(x: Any) -> Rows:
    """Floating rows: float32 and float64 are kept, everything else becomes float64."""
    if isinstance(x, Ragged):
        return Ragged(np.ascontiguousarray(as_float(x.values)), x.offsets)
    if isinstance(x, Tied):
        own, tied = as_float(x.own), np.ascontiguousarray(as_float(x.tied))
        kind = np.result_type(own.dtype, tied.dtype)
        return Tied(own.astype(kind, copy=False), tied.astype(kind, copy=False))
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
    return len(x) if uneven(x) else int(np.prod(x.shape[:-1], dtype=np.int64))


def parts(x: Rows) -> tuple[Array, ...]:
    """The arrays that hold the entries, each as one vector (a view where possible)."""
    if isinstance(x, Tied):
        return x.own.values, x.tied.reshape(-1)
    return (x.values,) if isinstance(x, Ragged) else (np.reshape(x, -1),)


def flat(x: Rows) -> Array:
    """All entries as one vector (a view unless the rows have a tied block)."""
    vectors = parts(x)
    return vectors[0] if len(vectors) == 1 else np.concatenate(vectors)


def row_sum(x: Rows) -> Array:
    """Sum of each row, accumulated in float64."""
    if isinstance(x, Tied):
        return row_sum(x.own) + row_sum(x.tied)
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
    if isinstance(x, Tied) and isinstance(y, Tied):
        return row_dot(x.own, y.own) + row_dot(x.tied, y.tied)
    with np.errstate(invalid="ignore", over="ignore"):
        if uneven(x) or uneven(y):
            product = row_sum(x * y)
        else:
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
    if isinstance(x, Tied):
        return Tied(row_scale(x.own, weights), x.tied * weights[:, None])
    if isinstance(x, Ragged):
        return Ragged(x.values * np.repeat(weights, np.diff(x.offsets)), x.offsets)
    return x * weights[..., None].astype(x.dtype, copy=False)


def as_rows(x: Rows) -> Rows:
    """The batch with one leading axis: what the hooks of domains and entropies receive."""
    return x if uneven(x) else np.ascontiguousarray(x.reshape(-1, x.shape[-1]))


def like(result: Rows, template: Rows) -> Rows:
    """Undo :func:`as_rows` on an array of rows."""
    return result if uneven(result) else np.reshape(result, np.shape(template))


def leading(values: Array, template: Rows) -> Array:
    """Undo :func:`as_rows` on one number per row."""
    return values if uneven(template) else values.reshape(template.shape[:-1])


def take_row(rows: Rows, i: int) -> Rows:
    """Row i as a batch of one, a view."""
    if isinstance(rows, Tied):
        return Tied(
            take_row(rows.own, i), rows.tied[i : i + 1] if len(rows.tied) > 1 else rows.tied
        )
    if isinstance(rows, Ragged):
        values = rows.values[rows.offsets[i] : rows.offsets[i + 1]]
        return Ragged(values, np.array([0, values.size]))
    return rows[i : i + 1]


def put_row(rows: Rows, i: int, batch: Rows) -> None:
    """Overwrite row i with a batch of one."""
    for place, new in zip(parts(take_row(rows, i)), parts(batch), strict=True):
        place[...] = new


def check_scores(
    theta: Any, name: str = "scores", may_be_empty: Callable[[int], bool] | None = None
) -> Rows:
    """Scores as float rows; refuses NaN, +inf, empty rows and rows without a finite score.

    ``may_be_empty`` says of which sizes rows of -inf alone are allowed.
    """
    theta = as_float(theta)
    if uneven(theta):
        own = theta.own if isinstance(theta, Tied) else theta
        sizes = np.diff(own.offsets)
    else:
        if theta.ndim == 0:
            raise ValueError(f"{name} must have at least one axis, got a single number")
        sizes = np.full(1, theta.shape[-1])
    if (sizes == 0).any():
        raise ValueError(f"{name} have an empty row; every row needs at least one entry")
    with np.errstate(over="ignore", invalid="ignore"):
        if not all(np.isfinite(np.add.reduce(values)) for values in parts(theta)):
            _explain_scores(theta, flat(theta), name, may_be_empty or (lambda size: False))
    return theta


def _explain_scores(
    theta: Rows, values: Array, name: str, may_be_empty: Callable[[int], bool]
) -> None:
    if np.isnan(values).any():
        raise ValueError(f"{name} contain NaN; remove or impute the missing values first")
    if np.isposinf(values).any():
        raise ValueError(
            f"{name} contain +inf; use -inf to exclude an entry, finite values otherwise"
        )
    rows = theta.rows() if uneven(theta) else np.reshape(theta, (-1, theta.shape[-1]))
    void = [i for i, row in enumerate(rows) if np.isneginf(row).all()]
    dead = [i for i in void if not may_be_empty(rows[i].size)]
    if dead:
        raise ValueError(
            f"row {dead[0]} of the {name} is -inf everywhere, so no entry can be chosen "
            f"({len(dead)} such rows); give each row at least one finite entry"
        )
