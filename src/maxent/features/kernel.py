"""Features of a kernel: Nystrom's, which span the kernel's functions at some landmarks.

A kernel k says how alike two cells are, and its functions f(x) = sum_l a_l k(x, z_l) are as smooth
as that. With the landmarks z and K = V diag(e) V' their own similarities, the features

    phi(x) = k(x, z) V diag(e)^(-1/2),        <phi(x), phi(y)> ~ k(x, y),

make such a function linear, <w, phi(x)>, of norm ||f|| = ||w||_2 (Williams and Seeger 2001). What
they lose is the residual r(x) = k(x, x) - ||phi(x)||^2 >= 0: the nearest <w, phi> to a function of
norm B differs from it by at most B sqrt(r(x)) at x.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from maxent import io
from maxent._support.checks import floats, indices, positive
from maxent._support.threads import one_blas_thread, over_rows, sum_of_parts
from maxent.features.base import Among, Bound, FeatureClass, Operator, replaced
from maxent.features.cells import Cells, Schema, check_levels
from maxent.rows.arrays import Array

_BLOCK = 512  # cells whose similarities to the landmarks stay in cache
_KEPT = 1 << 29  # bytes of features that are kept, not computed again in every pass
_JITTER, _SMALLEST = 1e-6, 1e-5  # of the mean and the largest eigenvalue
_FAR = 300.0  # exponents whose products are ordinary numbers
_CANDIDATES = 20_000  # cells that a pivoted Cholesky chooses landmarks from
_SPENT = 1e-7  # of the mean similarity of a cell to itself: less is no room for a landmark
_writing = threading.Lock()  # several threads may ask for the features of one table
_PAIRS = (("x", "y"), ("lon", "lat"), ("longitude", "latitude"), ("easting", "northing"))


def _matern12(t: Array) -> Array:
    return np.exp(-t)


def _matern32(t: Array) -> Array:
    t *= -math.sqrt(3.0)  # in place: these are passes over all pairs
    e = np.exp(t)
    t -= 1
    t *= e
    return np.negative(t, out=t)


def _matern52(t: Array) -> Array:
    t = np.sqrt(5.0) * t
    return (1 + t + t * t / 3) * np.exp(-t)


def _gaussian(t: Array) -> Array:
    return np.exp(-0.5 * t * t)


class Shape(NamedTuple):
    """g of a distance, whose array it may write to.

    For Matern's `(1 + slope t + bend t^2) exp(-t)` with t in 1 / rate.
    """

    function: Callable[[Array], Array]
    rate: float
    slope: float = 0.0
    bend: float = 0.0


FAMILIES = {
    "matern12": Shape(_matern12, 1.0),
    "matern32": Shape(_matern32, math.sqrt(3.0), 1.0),
    "matern52": Shape(_matern52, math.sqrt(5.0), 1.0, 1 / 3),
    "gaussian": Shape(_gaussian, 0.0),
}


@io.register
@dataclass(frozen=True, eq=False)
class KernelFeatures(Operator):
    """`phi(x) = k(x, z) U`, the features of a kernel at landmarks z.

    With u and v the variables of x and z, less ``centre`` and divided by ``spread``, and g the
    family's function of distance, k is the sum of

    - linear: `sum_j a_j u_j v_j` with the weights ``linear``;
    - additive: `sum_j b_j g(|u_j - v_j| / scale)` with the weights ``additive``;
    - joint: g of `sqrt(sum_j d_j (u_j - v_j)^2)` in ``joint_scale`` with the weights ``distance``;
    - spatial: g of the distance of the coordinates ``place``, in ``spatial_scale``.

    Two equal levels of a category have the similarity 1 and the squared distance 0, others 0 and 1.

    Parameters
    ----------
    name : str
        What the features are called.
    variables : tuple of str
        The continuous columns.
    categories : tuple of str
        The categorical ones.
    levels : tuple of tuple
        Their levels.
    family : str
        g by its name.
    scale : float
        Length scale of the additive term, in units of ``spread``.
    joint_scale : float
        That of the joint term.
    spatial_scale : float
        That of the spatial term.
    centre : array (n_continuous,)
        What is taken off each variable.
    spread : array (n_continuous,)
        What it is divided by then.
    low : array (n_continuous,)
        Its least value at the fit.
    high : array (n_continuous,)
        Its largest value at the fit.
    linear : array (n_continuous,)
        Weights of the linear term.
    additive : array (n_continuous + n_categorical,)
        Weights of the additive term, 0 for a column that is not looked at.
    distance : array (n_continuous + n_categorical,)
        Weights of the squares in the joint distance.
    joint : float
        Weight of the joint term.
    spatial : float
        Weight of the spatial term.
    place : array (2,) or (0,)
        Which continuous columns are the coordinates.
    values : array (n_continuous, n_landmarks)
        The landmarks z.
    codes : array (n_categorical, n_landmarks)
        Their levels by number.
    projection : array (n_landmarks, n_features)
        U.
    number : array (n_features,)
        The place of each feature by eigenvalue, from 0.
    least : array (n_features,)
        Its least value over the cells of the fit.
    most : array (n_features,)
        Its largest value.
    residual_mean : float
        Mean of `r(x) = k(x, x) - ||phi(x)||^2` over the cells of the fit, with all features.
    residual_max : float
        Its maximum.
    """

    name: str
    variables: tuple[str, ...]
    categories: tuple[str, ...]
    levels: tuple[tuple[Any, ...], ...]
    family: str
    scale: float
    joint_scale: float
    spatial_scale: float
    centre: Array
    spread: Array
    low: Array
    high: Array
    linear: Array
    additive: Array
    distance: Array
    joint: float
    spatial: float
    place: Array
    values: Array
    codes: Array
    projection: Array
    number: Array
    least: Array
    most: Array
    residual_mean: float
    residual_max: float

    def __post_init__(self) -> None:
        check_levels(self.categories, self.levels)
        if self.family not in FAMILIES:
            raise ValueError(f"the family must be one of {', '.join(FAMILIES)}: {self.family!r}")
        columns, both = len(self.variables), len(self.variables) + len(self.categories)
        for name in ("scale", "joint_scale", "spatial_scale"):
            positive(name, getattr(self, name))
        for name in ("joint", "spatial"):
            if not 0 <= getattr(self, name) < np.inf:
                raise ValueError(f"{name} must be finite and >= 0, got {getattr(self, name)!r}")
        if np.size(self.place) not in (0, 2):
            raise ValueError(f"place must name two coordinates or none, got {self.place!r}")
        for name in ("centre", "spread", "low", "high", "linear"):
            floats(name, getattr(self, name), columns)
        for name in ("additive", "distance"):
            floats(name, getattr(self, name), both)
        if not (self.spread > 0).all():
            raise ValueError("the spread of a variable must be positive")
        size, landmarks = np.size(self.number), np.shape(self.values)[-1]
        indices("place", self.place, np.size(self.place), max(columns, 1))
        indices("number", self.number, size, 1 << 31)
        for name in ("least", "most"):
            floats(name, getattr(self, name), size)
        for name, shape in (("values", (columns, landmarks)), ("projection", (landmarks, size))):
            given = getattr(self, name)
            floats(name, given.ravel(), int(np.prod(shape)))
            if given.shape != shape:
                raise ValueError(f"{name} must have shape {shape}, got {given.shape}")
        if self.codes.shape != (len(self.categories), landmarks) or self.codes.dtype.kind != "i":
            raise ValueError(
                f"codes must be integers of shape {(len(self.categories), landmarks)}, got "
                f"{self.codes.dtype} of {self.codes.shape}"
            )

    @property
    def n_features(self) -> int:
        """Number of features: at most one per landmark."""
        return int(self.number.size)

    @property
    def n_landmarks(self) -> int:
        """Number of landmarks."""
        return int(self.values.shape[1])

    def names(self) -> list[str]:
        """kernel 1, kernel 2 ..., largest eigenvalue first."""
        return [f"{self.name} {n + 1}" for n in self.number]

    def kinds(self) -> Array:
        """k."""
        return np.full(self.n_features, "k")

    def ranges(self) -> tuple[Array, Array]:
        """``least`` and ``most``."""
        return self.least, self.most

    def matches(self, schema: Schema) -> bool:
        """All columns, with the same levels."""
        mine = (self.variables, self.categories, self.levels)
        return mine == (schema.continuous, schema.categorical, schema.levels)

    def uses_columns(self, names: Sequence[str]) -> Array:
        """Every variable that the kernel looks at, for all features alike."""
        used = dict(zip((*self.variables, *self.categories), self._looked_at(), strict=True))
        known = np.array([bool(used.get(name, False)) for name in names], dtype=bool)
        return np.repeat(known[:, None], self.n_features, axis=1)

    def _looked_at(self) -> Array:
        used = (self.additive != 0) | ((self.distance != 0) & (self.joint != 0))
        used[: len(self.variables)] |= self.linear != 0
        if self.spatial:
            used[self.place] = True
        return used

    def restrict(self, index: Array) -> KernelFeatures:
        """Some of the features."""
        return replace(
            self,
            projection=np.ascontiguousarray(self.projection[:, index]),
            number=self.number[index],
            least=self.least[index],
            most=self.most[index],
        )

    def join(self, other: Operator) -> Operator | None:
        """Never; but features of two kernels must not have the same names."""
        if isinstance(other, KernelFeatures) and other.name == self.name:
            raise ValueError(
                f"two kernels are called {self.name!r}: give one another name, Kernel(name=...)"
            )
        return None

    def among(self, names: Sequence[str], all_names: Sequence[str], cells: Cells) -> Among | None:
        """The kernel of these variables alone, at the same landmarks: other features."""
        others = [name for name in all_names if name not in names]
        if not self.uses_columns(others).any():
            return Among(self, np.arange(self.n_features))
        gone = np.isin((*self.variables, *self.categories), others)
        spatial = 0.0 if gone[self.place].any() else self.spatial
        less = self._without(gone, joint=self.joint, spatial=spatial)
        if not less._looked_at().any():
            return None
        if not less.distance.any():
            less = replace(less, joint=0.0)
        found = less.at_landmarks(cells)
        return None if found is None else Among(found, np.full(found.n_features, -1))

    def parts(self) -> list[Operator]:
        """The terms of each variable, the joint one and that of space."""
        columns = len(self.variables) + len(self.categories)
        everything = np.ones(columns, dtype=bool)
        found: list[Operator] = []
        for v in np.flatnonzero(self._alone()):
            other = everything.copy()
            other[v] = False
            found.append(self._without(other, joint=0.0, spatial=0.0))
        if self.joint and self.distance.any():
            alone = self._without(everything, joint=self.joint, spatial=0.0)
            found.append(replace(alone, distance=self.distance))
        if self.spatial:
            found.append(self._without(everything, joint=0.0, spatial=self.spatial))
        return found

    def _alone(self) -> Array:
        """Columns with a term of their own."""
        alone = self.additive != 0
        alone[: len(self.variables)] |= self.linear != 0
        return alone

    def _without(self, gone: Array, joint: float, spatial: float) -> KernelFeatures:
        """The same features of fewer terms."""
        return replace(
            self,
            linear=np.where(gone[: len(self.variables)], 0.0, self.linear),
            additive=np.where(gone, 0.0, self.additive),
            distance=np.where(gone, 0.0, self.distance),
            joint=joint,
            spatial=spatial,
        )

    def bind(self, cells: Cells, clamp: bool = False) -> BoundKernel:
        """The features on given cells."""
        return BoundKernel(self, cells, clamp)

    def matrix(self, cells: Cells, clamp: bool = False) -> Array:
        """The features of all cells, (cells, features) in float32.

        Parameters
        ----------
        cells : Cells
            The cells, read with the schema of the fit.
        clamp : bool, default False
            Whether variables are held in their ranges at the fit.
        """
        out = np.empty((cells.n_cells, self.n_features), dtype=np.float32)
        self._over_blocks(self._ready(cells, clamp), lambda part, K: _put(out, part, K, self))
        return out

    def residuals(self, cells: Cells) -> Array:
        """`r(x) = k(x, x) - ||phi(x)||^2` at every cell."""
        return self._measured(cells)[0]

    # -- the kernel ----------------------------------------------------------------------------

    def _ready(self, cells: Cells, clamp: bool = False) -> Cells:
        """Cells in the units of the kernel."""
        values = cells.values.astype(np.float64)
        if clamp:
            np.clip(values, self.low[:, None], self.high[:, None], out=values)
        values -= self.centre[:, None]
        values /= self.spread[:, None]
        return Cells(values, cells.codes)

    def _landmarks(self) -> Cells:
        return self._ready(Cells(self.values, self.codes))

    def _similar(self, one: Cells, other: Cells) -> Array:
        """k between all cells of two tables, both ready."""
        function, count = FAMILIES[self.family].function, len(self.variables)
        shape = (one.n_cells, other.n_cells)
        used = np.flatnonzero(self.linear)
        K = (one.values[used].T * self.linear[used]) @ other.values[used]
        apart = np.zeros(shape if self.joint else (0, 0))
        self._add_continuous(one.values, other.values, K, apart)
        for v, (level, known) in enumerate(zip(one.codes, other.codes, strict=True), count):
            size = len(self.levels[v - count])
            same = np.arange(size + 1)[:, None] == known  # the last row is for unknown levels
            if self.additive[v]:
                K += (self.additive[v] * same)[level]
            if self.joint and self.distance[v]:
                apart += (self.distance[v] * ~same)[level]
        if self.joint:
            np.sqrt(apart, out=apart)
            apart /= self.joint_scale
            apart = function(apart)
            apart *= self.joint
            K += apart
        if self.spatial:
            first, second = (one.values[p][:, None] - other.values[p] for p in self.place)
            K += self.spatial * function(np.hypot(first, second) / self.spatial_scale)
        return K

    def _add_continuous(self, one: Array, other: Array, K: Array, apart: Array) -> None:
        """Terms of single continuous variables, and their squared distances."""
        from maxent._support.compiling.kernels import exact
        from maxent.features.kernels.similar import add_terms

        family, count = FAMILIES[self.family], len(self.variables)
        additive = self.additive[:count]
        distance = self.distance[:count] if self.joint else np.zeros(count)
        looked = np.flatnonzero((additive != 0) | (distance != 0))
        one, other = np.ascontiguousarray(one[looked]), np.ascontiguousarray(other[looked])
        additive, distance = additive[looked], distance[looked]
        rate = family.rate / self.scale
        far = max(np.abs(one).max(initial=0.0), np.abs(other).max(initial=0.0)) * rate
        if family.rate == 0 or not far < _FAR:  # exponentials would overflow
            for u, v, weight in zip(one, other, additive, strict=True):
                if weight:
                    K += weight * family.function(np.abs(u[:, None] - v) / self.scale)
            additive, rate = np.zeros(looked.size), 0.0
        up, others_up = np.exp(rate * one), np.exp(rate * other)
        exact(add_terms, 2 * K.size * looked.size)(
            one, up, 1 / up, other, others_up, 1 / others_up, additive, distance, rate,
            family.slope, family.bend, K, apart,
        )  # fmt: skip

    def _self_similar(self, cells: Cells) -> Array:
        """k(x, x) of every cell, ready."""
        constant = self.additive.sum() + self.joint + self.spatial
        return np.asarray(self.linear @ (cells.values**2) + constant)

    def _over_blocks(self, ready: Cells, work: Callable[[slice, Array], None]) -> None:
        """``work(rows, K)`` for blocks of cells, K their similarities to the landmarks."""
        landmarks = self._landmarks()
        starts = range(0, ready.n_cells, _BLOCK)

        def several(first: int, last: int) -> None:
            for start in starts[first:last]:
                rows = slice(start, min(start + _BLOCK, ready.n_cells))
                work(rows, self._similar(_part(ready, rows), landmarks))

        with one_blas_thread():
            over_rows(several, len(starts), _BLOCK * self.n_landmarks)

    def _measured(self, cells: Cells) -> tuple[Array, Array, Array]:
        """Residuals of the cells; least and most of every feature."""
        ready = self._ready(cells)
        residual = self._self_similar(ready)
        ends: dict[int, tuple[Array, Array]] = {}

        def measure(rows: slice, K: Array) -> None:
            phi = K @ self.projection
            residual[rows] -= np.einsum("ij,ij->i", phi, phi)
            ends[rows.start] = phi.min(axis=0), phi.max(axis=0)

        self._over_blocks(ready, measure)
        least = np.min([low for low, _ in ends.values()], axis=0)
        return residual, least, np.max([high for _, high in ends.values()], axis=0)

    def at_landmarks(self, cells: Cells) -> KernelFeatures | None:
        """The features that the landmarks give, measured over cells; None where all vanish."""
        landmarks = self._landmarks()
        K = self._similar(landmarks, landmarks)
        size = len(K)
        jitter = _JITTER * np.trace(K) / size * np.eye(size)
        e, V = np.linalg.eigh((K + K.T) / 2 + jitter)
        keep = np.flatnonzero(e > max(_SMALLEST * e[-1], 0.0))[::-1]
        none = np.zeros(keep.size)
        made = replace(
            self,
            projection=V[:, keep] / np.sqrt(e[keep]),
            number=np.arange(keep.size, dtype=np.int32),
            least=none,
            most=none,
        )
        residual, least, most = made._measured(cells)
        moves = np.flatnonzero(most > least)
        if not moves.size:
            return None
        return replace(
            made,
            least=least,
            most=most,
            residual_mean=float(residual.mean()),
            residual_max=float(residual.max()),
        ).restrict(moves)


def _part(cells: Cells, rows: slice) -> Cells:
    return Cells(cells.values[:, rows], cells.codes[:, rows])


def _put(out: Array, rows: slice, K: Array, operator: KernelFeatures) -> None:
    out[rows] = K @ operator.projection


class BoundKernel(Bound):
    """Features of a kernel on given cells.

    A first pass computes the similarities block by block and keeps none, as a prediction needs no
    more. A fit passes over the cells hundreds of times: from the second pass on the features are
    kept, in float64 up to ``_KEPT`` bytes, else in float32 up to as many; beyond, every pass
    computes them again.
    """

    def __init__(self, operator: KernelFeatures, cells: Cells, clamp: bool) -> None:
        self.operator, self.cells = operator, operator._ready(cells, clamp)
        self.n_features = operator.n_features
        self._passes = 0
        self._rows: Array | None = None  # (features, cells)

    @property
    def _count(self) -> int:
        return self.cells.n_cells

    def ranges(self) -> tuple[Array, Array]:
        """Those on the cells of the fit."""
        return self.operator.ranges()

    def _kept(self) -> Array | None:
        """All features written out, where that is worth its memory."""
        self._passes += 1
        if self._rows is not None or self._passes == 1:
            return self._rows
        with _writing:
            if self._rows is not None:
                return self._rows
            size = self.n_features * self._count
            kind = np.float64 if 8 * size <= _KEPT else np.float32
            if np.dtype(kind).itemsize * size <= _KEPT:
                rows = np.empty((self.n_features, self._count), dtype=kind)

                def put(part: slice, K: Array) -> None:
                    rows[:, part] = (K @ self.operator.projection).T

                self.operator._over_blocks(self.cells, put)
                self._rows = rows
        return self._rows

    def restrict(self, index: Array) -> BoundKernel:
        """Some of the features on the same cells."""
        if index.size == self.n_features:
            return self
        kept = self._kept()
        rows = None if kept is None else kept[index]
        part = self.operator.restrict(index)
        return replaced(self, operator=part, n_features=index.size, _rows=rows)

    def take(self, cells: Array) -> BoundKernel:
        """The same features on some of the cells."""
        rows = None if self._rows is None else np.ascontiguousarray(self._rows[:, cells])
        return replaced(self, cells=self.cells.take(cells), _rows=rows)

    def add_scores(self, w: Array, theta: Array) -> None:
        """theta += `k(x, z) U w`."""
        kept = self._kept()
        if kept is None:
            pull = self.operator.projection @ w

            def add(rows: slice, K: Array) -> None:
                theta[rows] += K @ pull

            self.operator._over_blocks(self.cells, add)
            return

        def work(start: int, stop: int) -> None:
            for rows in _pieces(start, stop):
                theta[rows] += w @ _double(kept[:, rows])

        with one_blas_thread():
            over_rows(work, self._count, self.n_features // 8 + 1)

    def moments(self, p: Array) -> Array:
        """`U' sum_i p_i k(z, x_i)`, over the cells with mass."""
        used = np.flatnonzero(p)
        if 2 * used.size < self._count:
            return self.take(used)._sums(p[used], square=False)
        return self._sums(p, square=False)

    def squares(self, p: Array) -> Array:
        """As the moments, of the second powers."""
        used = np.flatnonzero(p)
        if 2 * used.size < self._count:
            return self.take(used)._sums(p[used], square=True)
        return self._sums(p, square=True)

    def _sums(self, p: Array, square: bool) -> Array:
        kept = self._kept()
        with one_blas_thread():
            if kept is None:
                return self._fresh_sums(p, square)

            def part(start: int, stop: int) -> Array:
                total = np.zeros(self.n_features)
                for rows in _pieces(start, stop):
                    values = _double(kept[:, rows])
                    total += (values**2 if square else values) @ p[rows]
                return total

            return sum_of_parts(part, self._count, self.n_features // 8 + 1)

    def _fresh_sums(self, p: Array, square: bool) -> Array:
        operator, landmarks = self.operator, self.operator._landmarks()
        starts = range(0, self._count, _BLOCK)

        def part(first: int, last: int) -> Array:
            total = np.zeros(self.n_features if square else operator.n_landmarks)
            for start in starts[first:last]:
                rows = slice(start, min(start + _BLOCK, self._count))
                K = operator._similar(_part(self.cells, rows), landmarks)
                total += p[rows] @ ((K @ operator.projection) ** 2 if square else K)
            return total

        if not starts:
            return np.zeros(self.n_features)
        total = sum_of_parts(part, len(starts), _BLOCK * operator.n_landmarks)
        return total if square else total @ operator.projection

    def write(self, root: Array, start: int, stop: int, out: Array) -> None:
        """The columns of some cells, one row per feature."""
        kept = self._kept()
        if kept is not None:
            np.multiply(kept[:, start:stop], root[start:stop], out=out)
            return
        operator = self.operator
        K = operator._similar(_part(self.cells, slice(start, stop)), operator._landmarks())
        out[:] = (K @ operator.projection).T * root[start:stop]


def _pieces(start: int, stop: int) -> list[slice]:
    """Slices whose features stay in cache as float64."""
    return [slice(a, min(a + 4 * _BLOCK, stop)) for a in range(start, stop, 4 * _BLOCK)]


def _double(values: Array) -> Array:
    return values.astype(np.float64, copy=False)


@io.register
@dataclass(frozen=True)
class Kernel(FeatureClass):
    """Nystrom features of a sum of kernels: smooth responses, alone and joint, and space.

    With the d predictors u and v of two cells in standard deviations from their means over the
    cells of the fit, c categories, and g a function that falls with distance, the kernel is the sum
    of

    - ``linear`` times `sum_j u_j v_j / d`;
    - ``additive`` times the mean over predictors and categories of `g(|u_j - v_j| / scale)` and of
      whether two levels agree;
    - ``joint`` times g of the root mean square difference of the predictors, in ``joint_scale``
      (categories that differ add `2 / d` to the mean square);
    - ``spatial`` times g of the distance, in ``spatial_scale`` times the longer side of the region.

    The features phi have `<phi(x), phi(z)> ~ k(x, z)`, so that an l2 penalty on their weights is
    the squared norm of a function of the kernel: with ``Quadratic(1 / m)`` of m records the most
    probable one of a Gaussian process with covariance k.

    Parameters
    ----------
    linear : float, default 0.3
        Variance of the linear term.
    additive : float, default 0.6
        Variance of the sum of functions of one variable each.
    joint : float, default 0.3
        Variance of the function of all variables together.
    spatial : float, default 0.0
        Variance of the function of the coordinates.
    family : str, default "matern32"
        g: "matern12" `exp(-t)`, "matern32" `(1 + sqrt(3) t) exp(-sqrt(3) t)`, "matern52"
        `(1 + sqrt(5) t + 5/3 t^2) exp(-sqrt(5) t)`, or "gaussian" `exp(-t^2 / 2)`.
    scale : float, default 1.0
        Length scale of the additive term, in standard deviations of a predictor.
    joint_scale : float, default 1.6
        That of the joint term, in root mean square deviations.
    spatial_scale : float, default 0.2
        That of the spatial term, in longer sides of the region.
    landmarks : int, default 300
        Number of cells that the features are made of, all cells where there are fewer.
    choose : "seed" or "cholesky", default "seed"
        Landmarks drawn at random, or one by one where the error is largest (pivoted Cholesky).
    seed : int, default 0
        Seed of the draw, and of the 20,000 cells that a pivoted Cholesky chooses from where there
        are more.
    coordinates : pair of str, default None
        Columns of the coordinates, which are then no predictors. None: with a spatial term the
        columns x and y, lon and lat, longitude and latitude, or easting and northing; without one
        every column is a predictor.
    name : str, default "kernel"
        What the features are called, "kernel 1", "kernel 2" ...; several kernels need several.

    Notes
    -----
    The error is known: ``residual_mean`` and ``residual_max`` of the operator are those of
    `r(x) = k(x, x) - ||phi(x)||^2 >= 0` over the cells of the fit, and no function of norm B is
    further than `B sqrt(r(x))` from the features' nearest. A level that no landmark has is like no
    other. Constant columns are left out.

    Examples
    --------
    >>> from maxent.features import Schema, fit_operators
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> (phi,) = fit_operators([Kernel(landmarks=50)], X)
    >>> phi.n_features, phi.names()[:2], bool(0 <= phi.residual_mean < 0.1)
    (50, ['kernel 1', 'kernel 2'], True)
    >>> phi.matrix(Schema.from_table(X).read(X)).shape
    (200, 50)
    """

    linear: float = 0.3
    additive: float = 0.6
    joint: float = 0.3
    spatial: float = 0.0
    family: str = "matern32"
    scale: float = 1.0
    joint_scale: float = 1.6
    spatial_scale: float = 0.2
    landmarks: int = 300
    choose: str = "seed"
    seed: int = 0
    coordinates: tuple[str, str] | None = None
    name: str = "kernel"

    def __post_init__(self) -> None:
        for name in ("linear", "additive", "joint", "spatial"):
            value = getattr(self, name)
            if not (isinstance(value, int | float | np.number) and 0 <= value < np.inf):
                raise ValueError(f"{name} must be a variance, finite and >= 0, got {value!r}")
        if not self.linear + self.additive + self.joint + self.spatial > 0:
            raise ValueError("a kernel needs a term: give linear, additive, joint or spatial > 0")
        for name in ("scale", "joint_scale", "spatial_scale"):
            value = getattr(self, name)
            if not (isinstance(value, int | float | np.number) and 0 < value < np.inf):
                raise ValueError(f"{name} must be finite and > 0, got {value!r}")
        if self.family not in FAMILIES:
            raise ValueError(f"family must be one of {', '.join(FAMILIES)}, got {self.family!r}")
        if self.choose not in ("seed", "cholesky"):
            raise ValueError(f'choose must be "seed" or "cholesky", got {self.choose!r}')
        if not (isinstance(self.landmarks, int | np.integer) and self.landmarks >= 1):
            raise ValueError(f"landmarks must be an integer >= 1, got {self.landmarks!r}")
        if not (isinstance(self.name, str) and self.name):
            raise ValueError(f"name must be a word, got {self.name!r}")
        if self.coordinates is not None:
            pair = self.coordinates
            if isinstance(pair, str) or len(pair) != 2 or pair[0] == pair[1]:
                raise ValueError(
                    f"coordinates must be the names of two columns, such as ('x', 'y'), got {pair}"
                )
            object.__setattr__(self, "coordinates", tuple(pair))

    def fit(self, cells: Cells, schema: Schema, presences: Array) -> list[Operator]:
        """The features of the varying columns; none where no column varies."""
        blank = self._blank(cells, schema)
        if not (cells.n_cells and blank._looked_at().any()):
            return []
        chosen = self._chosen(blank, cells)
        values = cells.values[:, chosen].astype(np.float64)
        codes, none = np.ascontiguousarray(cells.codes[:, chosen]), np.empty((chosen.size, 0))
        made = replace(blank, values=values, codes=codes, projection=none)
        found = made.at_landmarks(cells)
        return [] if found is None else [found]

    def _blank(self, cells: Cells, schema: Schema) -> KernelFeatures:
        """The kernel for these cells, without landmarks."""
        place = self._place(schema)
        count = len(schema.continuous)
        values = cells.values
        low, high = cells.ranges()
        mean = values.mean(axis=1, dtype=np.float64) if cells.n_cells else np.zeros(count)
        spread = values.std(axis=1, dtype=np.float64) if cells.n_cells else np.zeros(count)
        varies = (high > low) & (spread > 0)
        predictor = varies.copy()
        predictor[place] = False
        category = np.array([np.unique(c[c >= 0]).size > 1 for c in cells.codes], dtype=bool)
        if place.size:
            spread[place] = (high - low)[place].max()
        spread = np.where(spread > 0, spread, 1.0)
        d, c = int(predictor.sum()), int(category.sum())
        both = np.concatenate([predictor, category])
        # two indicators of a level, one of them 0 and the other 1, are 2 apart
        squared = np.concatenate([predictor, 2.0 * category]) / max(d, 1)
        empty = np.empty((0, 0))
        return KernelFeatures(
            self.name,
            schema.continuous,
            schema.categorical,
            schema.levels,
            self.family,
            float(self.scale),
            float(self.joint_scale),
            float(self.spatial_scale),
            mean,
            spread,
            low,
            high,
            self.linear * predictor / max(d, 1),
            self.additive * both / max(d + c, 1),
            squared,
            float(self.joint) if both.any() else 0.0,
            float(self.spatial) if varies[place].any() else 0.0,
            place,
            np.empty((count, 0)),
            np.empty((len(schema.categorical), 0), dtype=np.int32),
            empty,
            np.empty(0, dtype=np.int32),
            np.empty(0),
            np.empty(0),
            np.nan,
            np.nan,
        )

    def _place(self, schema: Schema) -> Array:
        """Which continuous columns are the coordinates."""
        names = schema.continuous
        if self.coordinates is not None:
            lost = [name for name in self.coordinates if name not in names]
            if lost:
                raise ValueError(
                    f"the coordinates {', '.join(map(str, lost))} are no continuous columns of the "
                    f"table, which has {', '.join(names)}"
                )
            return np.array([names.index(name) for name in self.coordinates], dtype=np.int32)
        if not self.spatial:
            return np.empty(0, dtype=np.int32)
        lower = [name.lower() for name in names]
        for pair in _PAIRS:
            if all(name in lower for name in pair):
                return np.array([lower.index(name) for name in pair], dtype=np.int32)
        raise ValueError(
            "a spatial term needs the columns of the coordinates: name them, coordinates=(x, y); "
            f"the table has {', '.join(names)}"
        )

    def _chosen(self, blank: KernelFeatures, cells: Cells) -> Array:
        rng = np.random.default_rng(self.seed)
        size = min(int(self.landmarks), cells.n_cells)
        if self.choose == "seed":
            return rng.choice(cells.n_cells, size, replace=False)
        among = np.arange(cells.n_cells)
        if among.size > _CANDIDATES:
            among = np.sort(rng.choice(among.size, _CANDIDATES, replace=False))
        return among[pivots(blank, cells.take(among), size)]


def pivots(kernel: KernelFeatures, cells: Cells, size: int) -> Array:
    """Cells one by one where `r(x)` is largest, until ``size`` or until nothing is left of it.

    The pivots of a Cholesky decomposition of the cells' similarities, in O(cells size^2) steps.
    """
    ready = kernel._ready(cells)
    left = kernel._self_similar(ready)
    enough = _SPENT * float(left.mean())
    factor = np.empty((size, cells.n_cells))
    chosen: list[int] = []
    for k in range(size):
        pivot = int(left.argmax())
        if not left[pivot] > enough:
            break
        column = kernel._similar(_part(ready, slice(pivot, pivot + 1)), ready)[0]
        column -= factor[:k, pivot] @ factor[:k]
        factor[k] = column / np.sqrt(left[pivot])
        left -= factor[k] ** 2
        left[pivot] = 0.0  # exactly, whatever rounding left
        chosen.append(pivot)
    return np.array(chosen, dtype=np.intp)
