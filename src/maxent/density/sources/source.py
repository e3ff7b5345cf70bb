"""Source: the records of one kind, checked, and the entropy whose loss they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from maxent.rows.blocks.table import is_blocked

KINDS = ("presences", "survey", "counts")


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
        The predictors, the same columns in every source. A table in blocks (of dask, an xarray
        Dataset, what ``open_table`` gives) is read where it is when ``IntegratedDensity`` is
        fitted, and checked then.
    y : array (n_rows,), default None
        The records. Here and below an array in blocks too, where X is in blocks; None where X comes
        with a column y (and area, visits; all others of its columns are efforts).
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
    y: Any = None
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
        self._keep("weight", positive(f"{self._me}: weight", self.weight))
        self._check_settings()
        if self.in_blocks:  # what is wrong with its rows shows where they are read
            return
        X = self.X if is_frame(self.X) else np.asarray(self.X)
        if X.ndim != 2 or 0 in X.shape:
            raise ValueError(f"{self._me}: X must be a table with rows and columns, got {X.shape}")
        self._keep("X", X)
        self._keep("y", self._row("y", self.y))
        self._keep("area", self._row("area", self.area))
        self._keep("visits", self._row("visits", self.visits))
        self._keep("effort", self._columns())
        self._check_records()

    def _check_settings(self) -> None:
        if not 0 <= self.deviation < np.inf:
            raise ValueError(
                f"{self._me}: deviation must be 0 (none) or a finite number > 0, got "
                f"{self.deviation!r}"
            )
        if self.kind == "presences" and self.own_scale:
            raise ValueError(f"{self._me}: presences never know the scale; leave own_scale out")
        if not self.size > 0:
            raise ValueError(
                f"{self._me}: size must be > 0 (infinity is Poisson), got {self.size!r}"
            )
        if self.kind != "counts" and np.isfinite(self.size):
            raise ValueError(f"{self._me}: size is for counts, not for {self.kind}")

    def __repr__(self) -> str:
        if self.in_blocks:
            return f"Source({self.name!r}: rows in blocks)"
        return f"Source({self.name!r}: {self.n_rows} rows, {self.n_records:g} records)"

    def _keep(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @property
    def _me(self) -> str:
        return f"source {self.name!r}"

    def _row(self, name: str, given: Any) -> Array:
        """A number for each row; one for all is repeated."""
        if given is None:
            raise ValueError(f"{self._me} has no {name}: give a number for each row of X")
        try:
            values = np.asarray(given, dtype=np.float64)
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
        return {name: self._row(f"effort {name!r}", x) for name, x in self.named_efforts().items()}

    def named_efforts(self) -> dict[str, Any]:
        """The columns of effort by their names, as they were given."""
        given = self.effort
        if given is None:
            return {}
        if isinstance(given, Mapping):
            named = dict(given)
        elif is_frame(given):
            named = {str(name): given[name] for name in given.columns}
        else:
            table = given if is_blocked(given) else np.asarray(given, dtype=np.float64)
            table = table[:, None] if table.ndim == 1 else table
            if table.ndim != 2 or (not self.in_blocks and len(table) != self.n_rows):
                rows = "each row of X" if self.in_blocks else f"each of the {self.n_rows} rows of X"
                raise ValueError(
                    f"{self._me}: effort needs a row for {rows}, got shape {table.shape}"
                )
            named = {f"effort {j + 1}": table[:, j] for j in range(table.shape[1])}
        return {str(name): x for name, x in named.items()}

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
        self._check_contrast()

    def _check_contrast(self) -> None:
        if self.kind == "presences":
            check_contrast(self._me, bool((self.y > 0).any()), bool((self.y == 0).any()))

    # -- what it is ----------------------------------------------------------------------------

    @property
    def in_blocks(self) -> bool:
        """Whether its rows are in blocks, and read when a fit needs them."""
        return is_blocked(self.X)

    def require_memory(self) -> None:
        """Refuse rows in blocks, for what needs all of them at once."""
        if self.in_blocks:
            raise TypeError(
                f"{self._me} is in blocks, which IntegratedDensity fits without intervals or "
                "weights by held-out rows: give a sample of its rows in memory for anything else"
            )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        self.require_memory()
        return int(self.X.shape[0])

    @property
    def n_records(self) -> float:
        """Presences, visits that found the species, or rows with a count above 0."""
        return float(self.records.sum())

    @property
    def records(self) -> Array:
        """The records in each row: see ``n_records``."""
        self.require_memory()
        return np.minimum(self.y, 1.0) if self.kind == "counts" else self.y

    @property
    def knows_scale(self) -> bool:
        """Whether its kind sees the absolute intensity."""
        return self.kind != "presences" and not self.own_scale

    @property
    def one_sided(self) -> str | None:
        """What a survey or counts found everywhere, where they tell nothing of the scale."""
        self.require_memory()
        return one_sided(self.kind, not self.y.any(), bool((self.y == self.visits).all()))

    def take(self, rows: Array) -> Source:
        """Some of the rows."""
        self.require_memory()
        effort = {name: x[rows] for name, x in self.effort.items()}
        parts = {name: getattr(self, name)[rows] for name in ("y", "area", "visits")}
        return replace(self, X=take_rows(self.X, rows), effort=effort or None, **parts)

    def entries(self) -> Entries:
        """The terms of its loss: of several visits one for those in vain, one for each find."""
        self.require_memory()
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

    def found(self, entries: Entries) -> Array:
        """The records of the entries, of which ``n_records`` are in all."""
        return np.minimum(entries.y, 1.0) if self.kind == "counts" else entries.y

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


def one_sided(kind: str, nothing: bool, everywhere: bool) -> str | None:
    """What a survey or counts found that tells no scale, in words."""
    if kind == "presences":
        return None
    if nothing:
        return "nothing anywhere"
    return "the species at every visit" if kind == "survey" and everywhere else None


def check_contrast(me: str, found: bool, background: bool) -> None:
    """Refuse presences without any, or without background."""
    if not (found and background):
        lack = "background: rows with y = 0" if found else "presence: a row with y > 0"
        raise ValueError(f"{me} has no {lack} is needed")


def columns_of(X: Any) -> tuple[str, ...] | int:
    """Names of the columns of a table, or their number."""
    return tuple(map(str, X.columns)) if is_frame(X) else int(X.shape[1])


def check_common(names: Sequence[str], columns: Sequence[tuple[str, ...] | int]) -> None:
    """Refuse sources whose tables do not have the same columns, in any order."""
    first, known = names[0], columns[0]
    for name, given in zip(names[1:], columns[1:], strict=True):
        if isinstance(given, int) != isinstance(known, int):
            raise ValueError(
                f"sources {first!r} and {name!r} have no common columns: one is a "
                "table with names, the other an array; give both names"
            )
        if isinstance(given, int) or isinstance(known, int):
            if given != known:
                raise ValueError(
                    f"all sources need the same columns: {first!r} has {known}, {name!r} has "
                    f"{given}"
                )
        elif set(given) != set(known):
            ours, theirs = set(known), set(given)
            raise ValueError(
                f"all sources need the same columns: {first!r} alone has "
                f"{sorted(ours - theirs)}, {name!r} alone has {sorted(theirs - ours)}"
            )
