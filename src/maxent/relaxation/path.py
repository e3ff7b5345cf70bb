"""RelaxationPath: the solutions for every relaxation value at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.special import xlogy

from maxent import io
from maxent.relaxation import inputs
from maxent.relaxation.drawing import draw
from maxent.relaxation.kernels import homotopy
from maxent.relaxation.kernels.euclidean import euclidean
from maxent.relaxation.kernels.path_sweep import sweep
from maxent.relaxation.kernels.tangents import hull
from maxent.relaxation.selection import HeldOut, best_nu
from maxent.relaxation.single import DIVERGENCES, check_choice, probabilities, stop_message
from maxent.rows.arrays import Array

METHODS = ("auto", "local", "global", "uniform", "hull")
_FEW = 64  # rows up to which the plain recursion is the fastest
_BLOCK = 32  # rows of a hull
_AT_ONCE = 2**24  # probabilities computed at a time
_CERTIFIED = 16  # values of nu at which a fit computes its duality gap
_COLUMNS = 7  # of a segment, as in kernels.homotopy
_RATIO = 1e32  # of two entries whose sum, a pair of doubles, has digits of both
_LARGEST = 1e280  # nu that stands for infinity where its digits are split
_EDGE = 1e-12  # of nu q_j, within which a row counts as at its boundary


class Active(NamedTuple):
    """Rows of I_- (p = q - 1/nu), I_0 and I_+ (p = q + 1/nu), (5)."""

    minus: Array
    zero: Array
    plus: Array


@io.register
class RelaxationPath:
    """Every p(nu) closest to a prior within 1/nu of an observation (relaxation paper).

    `min_p sum_j m_j p_j log(p_j / u_j)`  with  `sum_j m_j p_j = 1`, `|p_j - q_j| <= 1/nu`   (1)

    for all `nu > 0`: `p_j = q_j + F(mu u_j - nu q_j) / nu` with `F(x) = max(-1, min(1, x))` and
    `mu(nu)` piecewise linear (7): from `nu = 0`, where p is the prior, to infinity, where it is the
    observation.

    Parameters
    ----------
    prior : array (n_rows,), default None
        u, one probability or count per row; None for a uniform one.
    observed : array (n_rows,), default None
        q, likewise. Counts are used as they are, without rounding.
    multiplicity : array (n_rows,), default None
        m, how many symbols a row stands for; None is 1. Equal rows are joined, and ``from_counts``
        makes one row of all symbols that are not listed.
    divergence : "kl" or "euclidean", default "kl"
        "euclidean" is `1/2 sum_j m_j (p_j - u_j)^2` over `p >= 0` (§9).

    Attributes
    ----------
    nu : array
        Knots of mu(nu), from 0, after ``fit``.
    mu : array
        Values of mu there, from 0; for "euclidean", nu times what all free entries have been
        shifted by.
    segments : int
        Number of segments; the last one has no end, or ends at ``nu_stop``.
    nu_end : float
        The nu from which `I_0` is empty; infinity if it never is.
    nu_stop : float
        The largest nu with a solution: infinity, or where a row without prior mass must get some.
    gap_ : float
        Largest duality gap found at values of nu spread over the path.

    Examples
    --------
    >>> path = RelaxationPath(prior=[0.5, 0.3, 0.2], observed=[1, 3, 6]).fit()
    >>> path.segments, path.distribution_at(10.0)
    (2, array([0.2, 0.3, 0.5]))
    >>> round(path.select([2, 3, 5]), 6)
    10.0
    """

    nu: Array
    mu: Array
    segments: int
    nu_end: float
    nu_stop: float
    gap_: float
    symbols: tuple[Any, ...] | None = None
    _row_of: dict[Any, int]
    _segments: Array  # (nu, U, Q, M) at the start of each, sums as pairs of doubles
    _knots: Array  # mu at the start of each segment
    _unit: float  # of the nu of segments

    def __init__(
        self,
        prior: Any = None,
        observed: Any = None,
        multiplicity: Any = None,
        *,
        divergence: str = "kl",
    ) -> None:
        if observed is None:
            raise ValueError("observed is missing: give counts or probabilities, one per row")
        check_choice("divergence", divergence, DIVERGENCES)
        self.prior, self.observed, self.multiplicity = prior, observed, multiplicity
        self.divergence = divergence
        self._rows = inputs.read(prior, observed, multiplicity)
        self._u, self._q = self._rows.u, self._rows.q

    def __repr__(self) -> str:
        known = f"{self.segments} segments" if hasattr(self, "_segments") else "not fitted"
        return f"<RelaxationPath: {self._rows.n} rows, {self.divergence}, {known}>"

    @classmethod
    def from_counts(
        cls,
        counts: Mapping[Any, float],
        n_symbols: int,
        prior: Mapping[Any, float] | None = None,
        rest: float = 1.0,
        **settings: Any,
    ) -> RelaxationPath:
        """A path over ``n_symbols`` symbols, most of which may never be listed.

        counts : how often each symbol was seen. prior : prior weights, and ``rest`` of each symbol
        that it does not list. Symbols in neither are one row, the last; ``row`` finds a symbol's.

        >>> path = RelaxationPath.from_counts({"the": 6, "of": 4}, n_symbols=10**9).fit()
        >>> path.symbols, path.segments, round(float(path.distribution_at(20.0, path.row("of"))), 4)
        (('the', 'of'), 3, 0.35)
        """
        weights = {} if prior is None else prior
        symbols = list(dict.fromkeys([*counts, *weights]))
        others = int(n_symbols) - len(symbols)
        if others < 0:
            raise ValueError(
                f"n_symbols={n_symbols}, and counts and prior list {len(symbols)}: give the size "
                "of the whole alphabet"
            )
        u = [float(weights.get(symbol, rest)) for symbol in symbols]
        q = [float(counts.get(symbol, 0)) for symbol in symbols]
        m = [1.0] * len(symbols)
        if others:
            u, q, m = [*u, float(rest)], [*q, 0.0], [*m, float(others)]
        total = float(np.dot(u, m))
        whole = all(float(value).is_integer() for value in u)
        scaled = u if whole else [value / total for value in u]
        path = cls(scaled, q, m, **settings)
        return path._named(symbols)

    def _named(self, symbols: Iterable[Any]) -> RelaxationPath:
        self.symbols = tuple(symbols)
        self._row_of = {symbol: row for row, symbol in enumerate(self.symbols)}
        return self

    def row(self, symbol: Any) -> int:
        """The row of a symbol of ``from_counts``."""
        if self.symbols is None:
            raise ValueError("rows have names only in a path made by from_counts")
        row = self._row_of.get(symbol, len(self.symbols))
        if row == self._rows.n:
            raise ValueError(f"{symbol!r} is not among the {row} symbols, all of which are listed")
        return row

    # -- fitting -------------------------------------------------------------------------------

    def fit(self, method: str = "auto") -> RelaxationPath:
        """Find all knots.

        method : "local" (§6, O(n) per knot), "uniform" (§7, a constant prior, O(n log n) in all),
        "global" (§7, `O(n^2 log n)` however many knots there are), "hull" (next knots as tangents
        to convex hulls, a few microseconds each), or "auto", the fastest for these rows.
        """
        check_choice("method", method, METHODS)
        if self.divergence == "euclidean":
            if method not in ("auto", "local"):
                raise ValueError(f'the euclidean path has method "local" alone, not {method!r}')
            rows = _joined(self._u, self._q, self._rows.m, self._q - self._u)
            return self._with_segments(euclidean(*rows))
        return self._with_segments(_track(self._rows, method))

    def _with_segments(self, segments: Array) -> RelaxationPath:
        self._segments = segments
        kl = self.divergence == "kl"
        self.nu_stop = self._rows.stop if kl else np.inf
        self._unit = self._rows.observed_scale if kl else 1.0
        self.nu = self._segments[:, 0] * self._unit
        self._knots = np.empty(len(segments) if kl else 0)  # the euclidean mu may fall
        if kl:
            homotopy.knot_levels(self._segments, self._knots)
        self.mu = self._level(self._segments[:, 0])
        self.segments = len(self.nu)
        self.nu_end = float(self.nu[-1]) if self._segments[-1, 1] == 0 else np.inf
        places = np.unique(np.linspace(0, self.segments - 1, _CERTIFIED).astype(int))[1:]
        self.gap_ = max((self.gap(float(self.nu[i])) for i in places), default=0.0)
        return self

    def swap(self) -> RelaxationPath:
        """The fitted path with prior and observation exchanged (§3): the same curve, nu for mu.

        It ends where the observation, now the prior, has a zero that the prior must fill.
        """
        self._check_fitted()
        if self.divergence != "kl":
            raise ValueError("only the path of relative entropy is symmetric")
        other = RelaxationPath(self.observed, self._prior_or_ones(), self.multiplicity)
        if np.isfinite(self.nu_stop):  # the other path goes on where this one stops
            return other.fit()
        swapped = self._segments.copy()
        swapped[:, 0] = self.mu / self._rows.prior_scale
        swapped[:, 1:3], swapped[:, 3:5] = self._segments[:, 3:5], self._segments[:, 1:3]
        swapped[:, 5:] *= -1
        nu, level = swapped[:, 0], (swapped[:, 1] == 0) & (swapped[:, 3] > 0)
        keep = nu * other._rows.observed_scale < other._rows.stop * (1 - _EDGE)
        keep &= ~level  # a constant mu is a jump of the other path
        keep[:-1] &= np.diff(nu) > homotopy.TIE * nu[1:]
        return other._with_segments(np.ascontiguousarray(swapped[keep]))

    def _prior_or_ones(self) -> Any:
        return self._rows.prior if self.prior is None else self.prior

    def _check_fitted(self) -> None:
        if not hasattr(self, "_segments"):
            raise ValueError("this RelaxationPath has no knots yet: call fit first")

    # -- what the path says --------------------------------------------------------------------

    def distribution_at(self, nu: Any, index: Any = None) -> Array:
        """p(nu), for one nu or many: shape of nu, then of the rows (``index``, or all of them).

        `O(log(segments))` per value for a few rows.
        """
        values = self._values(nu)
        rows = slice(None) if index is None else index
        u, q = self._u[rows], self._q[rows]
        shape = (*values.shape, *([1] * np.ndim(u)))
        level, t = self._ratio(values), 1 / values
        return probabilities(u, q, level.reshape(shape), t.reshape(shape), self.divergence)

    def active(self, nu: float) -> Active:
        """The rows of `I_-`, `I_0` and `I_+` at nu, to rounding."""
        (value,) = np.atleast_1d(self._values(nu))
        if np.isinf(self.nu_stop):  # no row moves after the last knot
            value = min(value, 2 * (self.nu[-1] or 0.5))
        level = float(self._ratio(np.array(value)))
        center = level * self._u if self.divergence == "kl" else np.maximum(self._u + level, 0.0)
        x = value * (center - self._q)
        edge = np.maximum(1 - _EDGE * (1 + value * np.maximum(self._q, center)), 0.5)
        places = (x <= -edge, np.abs(x) < edge, x >= edge)
        return Active(*(np.flatnonzero(place) for place in places))

    def entropy(self, nu: Any) -> Array:
        """`-sum_j m_j p_j log p_j` at each nu."""
        return self._sums(nu, lambda p: -xlogy(p, p))

    def kl(self, nu: Any) -> Array:
        """`sum_j m_j p_j log(p_j / u_j)` at each nu."""
        return self._sums(nu, lambda p: xlogy(p, p) - xlogy(p, self._u))

    def multipliers(self, nu: float) -> Array:
        """The `alpha_j` of (3) and (4) at nu: `p_j = u_j e^{alpha_j} / Z`, and 0 in `I_0`.

        Not negative in `I_-`, where `p_j = q_j - 1/nu`, and not positive in `I_+`; -inf where
        `p_j = 0 < u_j`, which is so at an infinite nu alone. Of "euclidean" it is
        `p_j = u_j + alpha_j + gamma`.
        """
        p, level = self.distribution_at(float(nu)), float(self._ratio(np.asarray(float(nu))))
        if self.divergence == "euclidean":
            return p - self._u - level
        center = self._u * level
        with np.errstate(divide="ignore"):
            return np.log(p / np.where(center > 0, center, 1.0), where=center > 0, out=0.0 * p)

    def gap(self, nu: float) -> float:
        """Duality gap of (1) and (4) at nu, with the ``multipliers`` that p(nu) implies."""
        p, t, alpha = self.distribution_at(nu), 1 / float(nu), self.multipliers(nu)
        q, u, m = self._q, self._u, self._rows.m
        if self.divergence == "euclidean":  # positive at lower bounds, negative at upper ones
            level = float(self._ratio(np.asarray(float(nu))))
            room = np.where(alpha > 0, p - np.maximum(q - t, 0.0), q + t - p)
            return float(m @ (np.abs(alpha) * room) + abs(level) * abs(m @ (p - q)))
        some = (u > 0) & ((p > 0) | (t > 0))  # at t = 0, p = q = 0 adds nothing
        p, q, u, m, alpha = p[some], q[some], u[some], m[some], alpha[some]
        log_z = np.log(m @ (u * np.exp(alpha)))
        value = m @ xlogy(p, p / u)
        # below 0 only where p does not sum to 1
        return float(abs(value + log_z - m @ (q * alpha) + t * (m @ np.abs(alpha))))

    def log_likelihood(self, counts: Any, nu: Any) -> Array:
        """`sum_j counts_j log p_j(nu)`."""
        weights = self._counts(counts)
        return self._sums(nu, lambda p: xlogy(weights, p), weighted=False)

    def select(self, counts: Any) -> float:
        """The nu of the largest held-out likelihood: the best over all segments, not over a grid.

        Branch and bound over segments; inside one the likelihood is concave in 1/nu. Infinity
        stands for the observation itself.
        """
        self._check_fitted()
        if self.divergence != "kl":
            raise ValueError("select is for the path of relative entropy")
        weights = self._counts(counts)
        seen = np.flatnonzero(weights)
        knots = np.append(self.nu[1:], self.nu_stop)
        return best_nu(
            HeldOut(weights[seen], self._u[seen], self._q[seen], knots, self._ratio(knots))
        )

    def plot(self, ax: Any = None, lines: int = 20) -> Any:
        """Draw `mu(nu)` with the lines `u_j mu - q_j nu = 1` and -1 that bend it (Figs 2 and 5)."""
        self._check_fitted()
        last = float(self.nu[-1]) if self.segments > 1 else 1.0
        end = min(1.15 * last, self.nu_stop)
        nu, mu = np.append(self.nu, end), np.append(self.mu, self._ratio(np.array([end])) * end)
        bending = self.divergence == "kl"
        return draw(nu, mu, self._u, self._q, ax, lines if bending else 0)

    # -- saving --------------------------------------------------------------------------------

    def __getmodel__(self) -> dict[str, Any]:
        names = ("prior", "observed", "multiplicity", "divergence", "symbols")
        return {name: getattr(self, name) for name in names} | {
            "segments": getattr(self, "_segments", None)
        }

    def __setmodel__(self, state: dict[str, Any]) -> None:
        segments, symbols = state.pop("segments"), state.pop("symbols")
        RelaxationPath.__init__(self, **state)
        if symbols is not None:
            self._named(symbols)
        if segments is not None:
            self._with_segments(_checked(segments))

    # -- inside --------------------------------------------------------------------------------

    def _values(self, nu: Any) -> Array:
        self._check_fitted()
        values = inputs.check_nu(nu)
        if values.size and values.max() > self.nu_stop * (1 + 1e-12):
            raise ValueError(stop_message(self._rows, float(values.max())))
        return values

    def _level(self, raw: Array) -> Array:
        """mu at values of nu in the unit of the segments, that of the given counts."""
        place = np.searchsorted(self._segments[:, 0], raw, side="right") - 1
        out = np.empty(raw.size)
        homotopy.levels_at(raw.ravel(), place.ravel(), self._segments, self._knots, out)
        scale = self._rows.prior_scale if self.divergence == "kl" else 1.0
        return out.reshape(raw.shape) * scale

    def _ratio(self, nu: Array) -> Array:
        """mu / nu: what the prior is multiplied by in I_0, or shifted by."""
        finite = np.minimum(nu, _LARGEST)
        return self._level(finite / self._unit) / finite

    def _sums(self, nu: Any, term: Callable[[Array], Array], weighted: bool = True) -> Array:
        values = self._values(nu)
        weight = self._rows.m if weighted else np.ones(self._rows.n)
        flat, step = values.ravel(), max(_AT_ONCE // self._rows.n, 1)
        parts = [
            term(self.distribution_at(flat[i : i + step])) @ weight
            for i in range(0, flat.size, step)
        ]
        joined = np.concatenate(parts) if parts else np.empty(0)
        return joined.reshape(values.shape)[()]

    def _counts(self, counts: Any) -> Array:
        weights = inputs.vector("counts", counts)
        if weights.size != self._rows.n:
            raise ValueError(f"counts has {weights.size} values for {self._rows.n} rows")
        if not weights.any():
            raise ValueError("counts is all zero: give held-out counts, one per row")
        return weights


def _checked(segments: Any) -> Array:
    """Segments of a file: compiled kernels look up their rows."""
    if (
        isinstance(segments, np.ndarray)
        and segments.dtype == np.float64
        and segments.ndim == 2
        and segments.shape[0] > 0
        and segments.shape[1] == _COLUMNS
        and np.isfinite(segments).all()
        and segments[0, 0] == 0
        and (np.diff(segments[:, 0]) >= 0).all()
    ):
        return np.ascontiguousarray(segments)
    raise ValueError("the segments must be a table of finite numbers, sorted by nu from 0 on")


def _track(rows: inputs.Rows, method: str) -> Array:
    """The segments of mu(nu) by one of the methods, in the units of the given counts."""
    some = rows.prior > 0
    u, q, m = rows.prior[some], rows.observed[some], rows.m[some]
    _check_ratio("prior", u)
    _check_ratio("observed", q[q > 0])
    u, q, m = _joined(u, q, m, q / u)
    constant = not rows.blocked.any() and u.min() == u.max()
    if method == "uniform" and not constant:
        raise ValueError('method="uniform" needs the same positive prior for all rows; use "auto"')
    if method == "auto":
        method = "uniform" if constant else "local" if u.size <= _FEW else "hull"
    if method == "uniform":
        return homotopy.uniform(u, q, m)
    fixed = float(rows.m[rows.blocked] @ rows.observed[rows.blocked])
    limit = rows.stop / rows.observed_scale * (1 - _EDGE)  # no knot at the stop itself
    if method == "hull":
        return hull(u, q, m, fixed, limit, _BLOCK)
    return (homotopy.local if method == "local" else sweep)(u, q, m, fixed, limit)


def _check_ratio(name: str, values: Array) -> None:
    """Refuse values of which the smallest would be lost in sums with the largest."""
    if values.size and values.max() > _RATIO * values.min():
        raise ValueError(
            f"the largest and the smallest positive value of {name} have the ratio "
            f"{values.max() / values.min():.1e}, and a path is exact up to {_RATIO:.0e}: set the "
            "smallest to 0, or use solve_relaxed at single values of nu"
        )


def _joined(u: Array, q: Array, m: Array, key: Array) -> tuple[Array, Array, Array]:
    """Rows in the order of a key, equal ones as one with their multiplicities added."""
    order = np.lexsort((u, key))
    u, q, m = u[order], q[order], m[order]
    new = np.append(True, (np.diff(u) != 0) | (np.diff(q) != 0))
    return u[new], q[new], np.add.reduceat(m, np.flatnonzero(new))
