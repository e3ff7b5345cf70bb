"""Source: the records of one kind, checked, and the entropy whose loss they have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from maxent._support.checks import positive
from maxent.core.entropies import (
    Detection,
    Entropy,
    OverdispersedCounts,
    Relative,
    Shannon,
    UnnormalisedRelativeEntropy,
)
from maxent.features.cells import is_frame, take_rows
from maxent.rows.arrays import Array

KINDS = ("presences", "survey", "counts")


def _in_memory(values: Any) -> Any:
    """A collection of dask computed, all else as it is."""
    return values.compute() if hasattr(values, "__dask_graph__") else values


class Entries(NamedTuple):
    """What a source adds to the loss, entry by entry: row of X, record, area."""

    row: Array
    y: Array
    area: Array

    def take(self, kept: Array) -> Entries:
        """Some of the entries."""
        return Entries(self.row[kept], self.y[kept], self.area[kept])


@dataclass(frozen=True, eq=False)
class Source:
    """Records of one kind of the intensity `lambda(x) = exp(<w, f(x)>)` per unit of area.

    - "presences": y counts the records in each row, rows of 0 being background. They are a Poisson
      process thinned by an unknown effort: log intensity `<w, f> + <g, e> + c`, where c is
      whatever it must be, so presences know nothing of the scale.
    - "survey": y is 1 where a visit to an area a found the species and 0 where not, with
      `P(y = 1) = 1 - exp(-a lambda)`; with ``visits``, y is the number of visits that found it.
    - "counts": y individuals in an area a, Poisson of mean `a lambda`, or with a finite ``size`` k
      negative binomial, of variance `mean + mean^2 / k`.

    Parameters
    ----------
    kind : "presences", "survey" or "counts"
        What the records are.
    X : table (n_rows, n_columns)
        The predictors, the same columns in every source. Arrays and frames of dask are computed, so
        that the rows lie in memory.
    y : array (n_rows,)
        The records.
    area : float or array (n_rows,), default 1.0
        Area or effort of each visit, of presences what multiplies the default density of each row
        (mass, or effort that is known), > 0. All sources use one unit.
    visits : int or array (n_rows,), default 1
        Visits to each row of a survey, whose detections are independent and equally likely.
    effort : mapping of name to array (n_rows,), or array (n_rows, k), default None
        Columns `e` whose weights g are fitted for this source alone: distance to roads, say.
    size : float, default inf
        k of counts; small ones vary more than Poisson's.
    weight : float, default 1.0
        What multiplies this source's log likelihood.
    deviation : float, default 0.0
        Above 0 the source has a function of its own on top of the intensity, `<d, f>`, whose
        penalty `V*(-d)` is divided by this: for l2 squared, the variance of its bias in units of
        the intensity's. Towards infinity the source tells nothing of the others' intensity.
    own_scale : bool, default False
        Whether a survey or counts see an unknown share of the intensity: a scale of their own.
    name : str, default ""
        What messages and results call it; by default its kind.

    Examples
    --------
    >>> sites = Source("survey", [[0.0], [1.0], [2.0]], [0, 1, 1], area=0.5)
    >>> sites
    Source('survey': 3 rows, 2 records)
    >>> Source("counts", [[0.0], [1.0]], [0, -3])
    Traceback (most recent call last):
    ValueError: source 'counts': counts cannot be negative, got -3 in row 1
    """

    __unsaved__ = "it holds a table of data; save the intensity that is fitted to it"

    kind: str
    X: Any
    y: Any
    area: Any = 1.0
    visits: Any = 1
    effort: Any = None
    size: float = np.inf
    weight: float = 1.0
    deviation: float = 0.0
    own_scale: bool = False
    name: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {self.kind!r}")
        self._keep("name", self.name or self.kind)
        X = _in_memory(self.X)
        X = X if is_frame(X) else np.asarray(X)
        if X.ndim != 2 or 0 in X.shape:
            raise ValueError(f"{self._me}: X must be a table with rows and columns, got {X.shape}")
        self._keep("X", X)
        self._keep("y", self._row("y", self.y))
        self._keep("area", self._row("area", self.area))
        self._keep("visits", self._row("visits", self.visits))
        self._keep("weight", positive(f"{self._me}: weight", self.weight))
        self._keep("effort", self._columns())
        if not 0 <= self.deviation < np.inf:
            raise ValueError(
                f"{self._me}: deviation must be 0 (none) or a finite number > 0, got "
                f"{self.deviation!r}"
            )
        self._check_records()

    def __repr__(self) -> str:
        return f"Source({self.name!r}: {self.n_rows} rows, {self.n_records:g} records)"

    def _keep(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @property
    def _me(self) -> str:
        return f"source {self.name!r}"

    def _row(self, name: str, given: Any) -> Array:
        """A number for each row; one for all is repeated."""
        try:
            values = np.asarray(_in_memory(given), dtype=np.float64)
        except (TypeError, ValueError) as wrong:
            raise ValueError(f"{self._me}: {name} must be numbers, got {given!r:.60}") from wrong
        if values.ndim == 0 and name != "y":
            values = np.full(self.n_rows, float(values))
        if values.shape != (self.n_rows,):
            raise ValueError(
                f"{self._me}: {name} needs one number per row of X, shape ({self.n_rows},), got "
                f"{values.shape}"
            )
        lost = np.flatnonzero(~np.isfinite(values))
        if lost.size:
            raise ValueError(
                f"{self._me}: {name} is missing or infinite in {lost.size} rows, the first row "
                f"{lost[0]}: leave those rows out, or give them a number"
            )
        values = values.copy()
        values.setflags(write=False)
        return values

    def _columns(self) -> dict[str, Array]:
        given = self.effort
        if given is None:
            return {}
        if isinstance(given, Mapping):
            named = dict(given)
        elif is_frame(given):
            named = {str(name): given[name] for name in given.columns}
        else:
            table = np.asarray(given, dtype=np.float64)
            table = table[:, None] if table.ndim == 1 else table
            if table.ndim != 2 or len(table) != self.n_rows:
                raise ValueError(
                    f"{self._me}: effort needs a row for each of the {self.n_rows} rows of X, got "
                    f"shape {table.shape}"
                )
            named = {f"effort {j + 1}": column for j, column in enumerate(table.T)}
        return {str(name): self._row(f"effort {name!r}", x) for name, x in named.items()}

    def _check_records(self) -> None:
        y, kind = self.y, self.kind
        if not (self.area > 0).all():
            row = int(np.argmin(self.area))
            raise ValueError(
                f"{self._me}: area must be > 0, got {self.area[row]:g} in row {row}: a visit "
                "without area or effort says nothing, leave it out"
            )
        word = "counts" if kind == "counts" else "y"
        for wrong, text in ((y < 0, "cannot be negative"), (y != np.floor(y), "must be integers")):
            if wrong.any():
                row = int(np.argmax(wrong))
                raise ValueError(f"{self._me}: {word} {text}, got {y[row]:g} in row {row}")
        visits = self.visits
        if kind != "survey" and (visits != 1).any():
            raise ValueError(f"{self._me}: visits are for surveys; multiply area by them")
        if ((visits < 1) | (visits != np.floor(visits))).any():
            raise ValueError(f"{self._me}: visits must be integers >= 1")
        if kind == "survey" and (y > visits).any():
            row = int(np.argmax(y > visits))
            raise ValueError(
                f"{self._me}: a survey has y = 0 or 1, or up to the number of visits, got "
                f"{y[row]:g} with {visits[row]:g} visits in row {row}; individuals are "
                'kind="counts"'
            )
        if kind == "presences" and self.own_scale:
            raise ValueError(f"{self._me}: presences never know the scale; leave own_scale out")
        if kind == "presences" and not ((y > 0).any() and (y == 0).any()):
            lack = "presence: a row with y > 0" if not y.any() else "background: rows with y = 0"
            raise ValueError(f"{self._me} has no {lack} is needed")
        if not self.size > 0:
            raise ValueError(
                f"{self._me}: size must be > 0 (infinity is Poisson), got {self.size!r}"
            )
        if kind != "counts" and np.isfinite(self.size):
            raise ValueError(f"{self._me}: size is for counts, not for {kind}")

    # -- what it is ----------------------------------------------------------------------------

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def n_records(self) -> float:
        """Presences, visits that found the species, or rows with a count above 0."""
        return float(self.records.sum())

    @property
    def records(self) -> Array:
        """The records in each row: see ``n_records``."""
        return np.minimum(self.y, 1.0) if self.kind == "counts" else self.y

    @property
    def knows_scale(self) -> bool:
        """Whether its kind sees the absolute intensity."""
        return self.kind != "presences" and not self.own_scale

    @property
    def one_sided(self) -> str | None:
        """What a survey or counts found everywhere, where they tell nothing of the scale."""
        if self.kind == "presences":
            return None
        if not self.y.any():
            return "nothing anywhere"
        if self.kind == "survey" and (self.y == self.visits).all():
            return "the species at every visit"
        return None

    @property
    def rate(self) -> float:
        """Finds per area, roughly: where the scale starts."""
        return float((self.y.sum() + 0.5) / (self.area * self.visits).sum())

    def take(self, rows: Array) -> Source:
        """Some of the rows."""
        effort = {name: x[rows] for name, x in self.effort.items()}
        parts = {name: getattr(self, name)[rows] for name in ("y", "area", "visits")}
        return replace(self, X=take_rows(self.X, rows), effort=effort or None, **parts)

    def entries(self) -> Entries:
        """The terms of its loss: of several visits one for those in vain, one for each find."""
        if (self.visits == 1).all():
            return Entries(np.arange(self.n_rows), self.y, self.area)
        vain = np.flatnonzero(self.visits > self.y)
        found = np.repeat(np.arange(self.n_rows), self.y.astype(np.intp))
        return Entries(
            np.concatenate([vain, found]),
            np.repeat([0.0, 1.0], [vain.size, found.size]),
            # absences multiply: their areas add up
            np.concatenate([(self.area * (self.visits - self.y))[vain], self.area[found]]),
        )

    def entropy(self, entries: Entries, rate: float = 1.0) -> Entropy:
        """`Omega_k`, scores being logs of the intensity over ``rate``."""
        if self.kind == "presences":
            return Relative(Shannon(), entries.area)
        area = entries.area * rate
        if self.kind == "survey":
            return Detection(entries.y, area)
        if np.isfinite(self.size):
            return OverdispersedCounts(entries.y, float(self.size), area)
        return UnnormalisedRelativeEntropy(area)

    def observed(self, entries: Entries) -> tuple[Array, float]:
        """The point of `dom Omega_k` that the records are, and by how many it is multiplied."""
        if self.kind == "presences":
            total = float(entries.y.sum())
            return entries.y / total, total
        return entries.y, 1.0

    def deviance(self, entries: Entries, theta: Array, rate: float = 1.0) -> float:
        """Twice `n_k [Omega_k*(theta) - <theta, y> + Omega_k(y)]`: 0 for a perfect fit."""
        entropy, (y, times) = self.entropy(entries, rate), self.observed(entries)
        value = float(entropy.conjugate(theta)[0]) - float(theta @ y)
        return 2 * times * (value + float(entropy.value_inside(y)))
