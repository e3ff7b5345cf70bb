"""FittedDensity: a fitted density as a value; its fields are the format of model files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from maxent import io
from maxent.core import bounds
from maxent.core.bounds import LossBound
from maxent.core.entropies import Entropy, Relative, Shannon
from maxent.core.problem import Problem
from maxent.core.solvers.base import Solution, Status
from maxent.density.evidence import Evidence, RecordWeights
from maxent.density.explanation import Explanation, MeanPlace, explain
from maxent.density.intervals import (
    LEVEL,
    Interval,
    Laplace,
    Refits,
    check_level,
    check_output,
    ends,
)
from maxent.density.link import DensityLink
from maxent.density.origin import Origin
from maxent.density.points import Points, check_missing
from maxent.density.profile import Profile, profile
from maxent.density.sums import DensitySums
from maxent.features import Cells, Operator, Schema, part_of
from maxent.features.cells import is_frame, missing_rows, take_rows
from maxent.features.scoring import Scorer
from maxent.rows.arrays import Array

OUTPUTS = ("raw", "logistic", "cloglog", "cumulative", "log")
_BLOCK = 1 << 16  # rows predicted at once


@io.register
@dataclass(frozen=True, eq=False)
class Certificate:
    """How good a fit is.

    status : why the solver stopped; None where no fit is known (a lambdas file).
    gap : duality gap; optimality : violation of the optimality conditions.
    gain, unregularized_gain : gain over the default density, with and without the penalty.
    guarantees : what the gap says of the distance to the optimum.
    history : one record per iteration.
    family_gap : where features were grown, the gap over all features of their families, found or
        not, which the guarantees are of; ``gap`` is that over the features that came in.
    parts : of a mean of densities, the certificates of those that were fitted to its records. It
        is the optimum of no problem itself: ``status``, ``gap`` and ``optimality`` are the worst of
        its parts, ``n_iter`` their sum, ``gain`` is not defined and ``guarantees`` are theirs.
    """

    status: Status | None
    gap: float
    optimality: float
    gain: float
    unregularized_gain: float
    n_iter: int
    guarantees: dict[str, float]
    history: list[dict[str, float]]
    family_gap: float | None = None
    parts: tuple[Certificate, ...] = field(default=(), metadata=io.LATER)

    @classmethod
    def of_parts(cls, parts: Sequence[Certificate], unregularized_gain: float) -> Certificate:
        """The certificate of a mean of densities, from those of its parts."""
        worst = max(parts, key=lambda part: part.gap)
        unsolved = [p for p in parts if p.status is None or not p.status.reached]
        return cls(
            status=(unsolved or [worst])[0].status,
            gap=worst.gap,
            optimality=max(part.optimality for part in parts),
            gain=math.nan,
            unregularized_gain=unregularized_gain,
            n_iter=sum(part.n_iter for part in parts),
            guarantees={},
            history=[],
            parts=tuple(replace(part, history=[]) for part in parts),
        )

    @classmethod
    def from_solution(
        cls, problem: Problem, solution: Solution, family_gap: float | None = None
    ) -> Certificate:
        """The certificate of a solution."""
        gain = problem.dual(np.zeros(problem.features.n_features)) - solution.objective
        return cls(
            status=solution.status,
            gap=solution.gap,
            optimality=solution.optimality,
            gain=gain,
            unregularized_gain=gain + problem.penalty(solution.w),
            n_iter=solution.n_iter,
            guarantees=solution.guarantees,
            history=solution.history,
            family_gap=family_gap,
        )

    def describe(self) -> str:
        """Status, iterations and gap in words."""
        if self.status is None:
            return "gain and certificate are not known"
        if self.parts:
            each = "; ".join(part.describe() for part in self.parts)
            return f"a mean of {len(self.parts)} densities, each solved by itself: {each}"
        text = f"{self.status.value} after {self.n_iter} iterations, duality gap {self.gap:.1e}"
        if self.family_gap is None:
            return text
        return f"{text} over the features chosen, {self.family_gap:.1e} over all of the families"


class Place(Protocol):
    """What a density needs of the table that it is over: ``Points`` or a ``TableSummary``."""

    @property
    def schema(self) -> Schema:
        """Columns and levels."""

    @property
    def ranges(self) -> tuple[Array, Array]:
        """Least and largest value of each continuous variable."""

    @property
    def n_points(self) -> float:
        """The mass of all points."""

    def mean_place(self) -> tuple[Array, tuple[Array, ...]]:
        """The mean of each continuous variable, and the shares of the levels of the others."""


@io.register
@dataclass(frozen=True, eq=False)
class FittedDensity:
    """A density over cells, fitted: all that prediction, reports and files need, and no data.

    With `theta = sum_j w_j f_j(x)` the raw output is ``link(theta) / exp(log_total)``, which sums
    to 1 over the points of the fit, each as often as it counts.

    Attributes
    ----------
    schema : Schema
        Columns, which are categorical, and their levels.
    operators : tuple of Operator
        The features in use.
    weights : array (n_used,)
        Their weights.
    beta : array (n_used,)
        Their penalties.
    low : array (n_continuous,)
        Lowest value of each continuous variable at the fit, to which it is clamped.
    high : array (n_continuous,)
        Highest value, likewise.
    entropy : Entropy
        The entropy.
    link : DensityLink
        Its map from scores to density.
    log_total : float
        The normalisation.
    raw_entropy : float
        Entropy of the raw output, from which logistic and cloglog are made.
    cumulative : array (2, n)
        Raw values and the mass of the points at or below each.
    mean_place : MeanPlace or None
        What explanations are relative to; None where it is not known.
    n_points : float
        Number of points of the fit.
    n_presences : float
        Number of occurrences.
    n_features : int
        Number of features, in use or not.
    biased : bool
        Whether the fit had a prior that differs from point to point.
    merged : bool
        Whether rows with equal values were one point.
    origin : Origin
        What the features were chosen from.
    certificate : Certificate
        Gap, gain, status of the fit.
    prevalence : float
        `tau` of the logistic output.
    evidence : Evidence or None
        Number and weights of the records, for the bound; None in files of before.
    uncertainty : Laplace, Refits or None
        What ``intervals`` are made of; None where none were asked for.

    Examples
    --------
    >>> from maxent import MaxentDensity
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> density = MaxentDensity("lq").fit(X, np.arange(50) > 30).density_
    >>> density.coef.keys(), bool(abs(density.predict(X).sum() - 1) < 1e-12)
    (dict_keys(['x0']), True)
    """

    schema: Schema
    operators: tuple[Operator, ...]
    weights: Array
    beta: Array
    low: Array
    high: Array
    entropy: Entropy
    link: DensityLink
    log_total: float
    raw_entropy: float
    cumulative: Array
    mean_place: MeanPlace | None
    n_points: float
    n_presences: float
    n_features: int
    biased: bool
    merged: bool
    origin: Origin
    certificate: Certificate
    prevalence: float
    evidence: Evidence | None = field(default=None, metadata=io.LATER)
    uncertainty: Laplace | Refits | None = field(default=None, metadata=io.LATER)

    def __post_init__(self) -> None:
        for part, kind in (
            (self.schema, Schema),
            (self.entropy, Entropy),
            (self.link, DensityLink),
            *(() if self.evidence is None else [(self.evidence, Evidence)]),
            *(() if self.uncertainty is None else [(self.uncertainty, Laplace | Refits)]),
            *((operator, Operator) for operator in self.operators),
        ):
            if not isinstance(part, kind):
                name = getattr(kind, "__name__", str(kind))
                raise TypeError(f"expected a {name}, got {part!r:.60}")
        count = sum(operator.n_features for operator in self.operators)
        variables = (len(self.schema.continuous),)
        expected = {
            "weights": (count,),
            "beta": (count,),
            "low": variables,
            "high": variables,
            "cumulative": (2, np.shape(self.cumulative)[-1]),
        }
        for name, shape in expected.items():
            if np.shape(getattr(self, name)) != shape:
                raise ValueError(
                    f"{name} has shape {np.shape(getattr(self, name))}, expected {shape}"
                )
            if getattr(self, name).dtype.kind != "f":
                raise ValueError(f"{name} must hold floats, got {getattr(self, name).dtype}")
        for operator in self.operators:
            if not operator.matches(self.schema):
                raise ValueError(
                    f"the {type(operator).__name__} is for other columns than the schema, which "
                    f"has {', '.join(self.schema.names)}"
                )
        if self.mean_place is not None:
            self.mean_place.check(self.schema)

    @classmethod
    def from_solution(
        cls,
        points: Points,
        operators: list[Operator],
        beta: Array,
        problem: Problem,
        solution: Solution,
        origin: Origin,
        prevalence: float,
        family_gap: float | None = None,
    ) -> FittedDensity:
        """The density of a solution; ``operators`` and ``beta`` are all those of the problem."""
        entropy = problem.entropy
        assert isinstance(entropy, Relative)
        theta = problem.features.scores(solution.w)
        link = DensityLink.from_scores(entropy.entropy, theta, np.asarray(solution.p), entropy.q0)
        used = np.flatnonzero(solution.w)
        return cls.over(
            points,
            theta,
            link,
            operators=tuple(part_of(operators, used)),
            weights=solution.w[used],
            beta=beta[used],
            entropy=entropy.entropy,
            n_features=problem.features.n_features,
            origin=origin,
            certificate=Certificate.from_solution(problem, solution, family_gap),
            prevalence=prevalence,
        )

    @classmethod
    def over(cls, points: Points, theta: Array, link: DensityLink, **known: Any) -> FittedDensity:
        """The density with scores theta at the points, normalised over them; other fields given."""
        return cls.from_sums(
            DensitySums.from_points(theta, link, points.mass, size=max(theta.size, 2)),
            points,
            link,
            n_presences=points.n_presences,
            biased=points.biased,
            merged=points.merged,
            evidence=points.record_weights.evidence(),
            **known,
        )

    @classmethod
    def from_sums(
        cls, sums: DensitySums, place: Place, link: DensityLink, **known: Any
    ) -> FittedDensity:
        """The density with these sums over the points of a place; other fields given.

        Both may be merged from blocks of points: ``DensitySums`` and a ``TableSummary``.
        """
        low, high = place.ranges
        return cls(
            schema=place.schema,
            low=low,
            high=high,
            link=link,
            log_total=sums.log_total,
            raw_entropy=sums.raw_entropy,
            cumulative=sums.cumulative(),
            mean_place=MeanPlace(*place.mean_place()),
            n_points=place.n_points,
            **known,
        )

    # -- what it is ----------------------------------------------------------------------------

    @property
    def coef(self) -> dict[str, float]:
        """Weight of every feature in use, by its name."""
        names = [name for operator in self.operators for name in operator.names()]
        return dict(zip(names, self.weights.tolist(), strict=True))

    @property
    def kinds(self) -> Array:
        """The letter of every feature in use."""
        none = np.array([], dtype="U1")
        return np.concatenate([none, *(operator.kinds() for operator in self.operators)])

    @property
    def log_partition(self) -> float:
        """`log sum exp(theta)` over the points for Shannon, the log of the normalisation else."""
        return self.link.log_partition(self.log_total)

    @cached_property
    def scorer(self) -> Scorer:
        """The weighted sum of the features, compiled to tables."""
        return Scorer.from_operators(self.operators, self.weights, self.low, self.high)

    # -- prediction ----------------------------------------------------------------------------

    def predict(
        self, X: Any, output: str = "raw", *, clamp: bool = True, missing: str = "error"
    ) -> Array:
        """The density at the rows of X.

        ``output``: "raw" sums to 1 over the cells of the fit; "logistic" and "cloglog" are
        `tau v / (1 - tau + tau v)` and `1 - exp(-v)` with ``v = raw * exp(raw_entropy)``;
        "cumulative" is 100 times the mass of the cells whose raw value is at most this one; "log"
        is log raw. ``clamp`` holds variables and features within their ranges at the fit. Rows with
        a missing value give NaN with ``missing="drop"``, else an error.
        """
        return self.output(self.scores(X, clamp=clamp, missing=missing), output)

    def predict_cells(self, cells: Cells, output: str = "log", *, clamp: bool = True) -> Array:
        """The density at cells that were read by its schema; see ``predict``."""
        return self.output(self.scorer.scores(cells, clamp), output)

    def scores(self, X: Any, *, clamp: bool = True, missing: str = "error") -> Array:
        """`theta = sum_j w_j f_j` at the rows of X; see ``predict``."""
        check_missing(missing)
        X = X if is_frame(X) else np.asarray(X)
        count, drop = int(np.shape(X)[0]), missing == "drop"
        theta = np.empty(count)
        for start in range(0, count, _BLOCK):
            rows = slice(start, start + _BLOCK)
            part = take_rows(X, rows)
            theta[rows] = self.scorer.scores(self.schema.read(part, missing=drop), clamp)
            if drop:
                theta[rows][missing_rows(part)] = np.nan
        return theta

    def intervals(
        self,
        X: Any,
        level: float = LEVEL,
        output: str = "raw",
        *,
        clamp: bool = True,
        missing: str = "error",
    ) -> Interval:
        """Between which values an output lies at each row of X, by itself, at a level.

        Of a density fitted with ``intervals``. By "laplace" they are symmetric in the log density,
        or in the exponent of the cloglog output: `value +- z sqrt(g' Sigma g)`, given the features
        in use. By "bootstrap" the deviation is that of refits to resampled records. How often
        either holds the truth is in docs/density.md.

        Parameters
        ----------
        X : table (n_rows, n_variables)
            Cells.
        level : float, default 0.9
            How often the interval at a row should hold the truth.
        output : str, default "raw"
            "raw", "log", "cloglog" or "logistic".
        clamp : bool, default True
            As of ``predict``.
        missing : "error" or "drop", default "error"
            As of ``predict``.

        >>> from maxent import MaxentDensity
        >>> X = np.linspace(0, 1, 50)[:, None]
        >>> model = MaxentDensity("lq", intervals="laplace").fit(X, np.arange(50) > 30)
        >>> low, high = model.density_.intervals(X, output="cloglog")
        >>> middle = model.predict(X, "cloglog")
        >>> bool(((low < middle) & (middle < high)).all())
        True
        """
        self.known_uncertainty()
        check_level(level)
        check_output(output)
        check_missing(missing)
        X, drop = X if is_frame(X) else np.asarray(X), missing == "drop"
        found = ends(self, self.schema.read(X, missing=drop), output, level, clamp)
        if drop:
            lost = missing_rows(X)
            found = Interval(*(np.where(lost, np.nan, end) for end in found))
        return found

    def known_uncertainty(self) -> Laplace | Refits:
        """``uncertainty``, or an error that says how to have it."""
        if self.uncertainty is None:
            raise ValueError(
                "this density was fitted without intervals: fit it with "
                'MaxentDensity(intervals="laplace"), or take DensityTask.with_laplace or '
                "with_refits (`maxent fit --intervals`)"
            )
        return self.uncertainty

    def output(self, theta: Array, output: str, prevalence: float | None = None) -> Array:
        """An output from scores; see ``predict``."""
        if output not in OUTPUTS:
            raise ValueError(f"output must be one of {', '.join(OUTPUTS)}, got {output!r}")
        log_raw = self.link.log(theta) - self.log_total
        if output == "log":
            return log_raw
        if output == "raw":
            return np.exp(log_raw)
        if output == "cumulative":
            return self._cumulative(np.exp(log_raw))
        relative = np.exp(log_raw + self.raw_entropy)
        if output == "cloglog":
            return -np.expm1(-relative)
        tau = self.prevalence if prevalence is None else prevalence
        if not 0 < tau < 1:
            raise ValueError(f"prevalence must be between 0 and 1, got {tau!r}")
        with np.errstate(invalid="ignore"):
            odds = tau * relative / (1 - tau + tau * relative)
        return np.where(np.isinf(relative), 1.0, odds)

    def _cumulative(self, raw: Array) -> Array:
        values, mass = self.cumulative
        if not values.size:
            raise ValueError(
                "the cumulative output needs the distribution of the raw output, which a "
                "lambdas file does not hold: read it with read_lambdas(path, background=...)"
            )
        place = np.searchsorted(values, raw * (1 + 1e-12), side="right")
        below = np.concatenate([[0.0], mass])[place]
        # the sum of all cells may round up
        return np.where(np.isnan(raw), np.nan, np.minimum(100 * below, 100.0))

    # -- what it says --------------------------------------------------------------------------

    def profile(self, variable: str | int, n: int = 200) -> Profile:
        """The feature profile of a variable: its additive part of the exponent (density paper §8).

        Products belong to several variables and are left out; ``Profile.complete`` says whether
        there are any.
        """
        return profile(self, variable, n)

    def explain(self, X: Any, *, clamp: bool = True, place: Any = None) -> Explanation:
        """Each variable's share of the exponent at the rows of X, relative to the mean place.

        Exact Shapley values: shares[i, v] is what the value of variable v adds to `theta(x_i)`, the
        mean over all orders in which variables move from the mean place to `x_i` (docs/density.md).
        They add up to `theta(x_i)` less theta at the mean place. ``place`` is a MeanPlace for
        models whose file does not hold one, or another place to compare with.

        >>> from maxent import MaxentDensity
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> density = MaxentDensity("lqp", verbose=0).fit(X, X.sum(axis=1) > 1).density_
        >>> told = density.explain(X[:3])
        >>> bool(np.allclose(told.exponent, density.scores(X[:3]))), told.shares.shape
        (True, (3, 2))
        """
        place = self.mean_place if place is None else place
        if place is None:
            raise ValueError(
                "this model does not know its mean place (it comes from a lambdas file or from a "
                "model file of version 1): give place=MeanPlace(values, shares)"
            )
        place.check(self.schema)
        cells = self.schema.read(X if is_frame(X) else np.asarray(X))
        if clamp:
            low, high = self.scorer.limits(cells.values.dtype)
            values = np.clip(cells.values, low[:, None], high[:, None])
            cells = Cells(values.astype(cells.values.dtype, copy=False), cells.codes)
        return explain(self, cells, place, clamp)

    def bound(self, delta: float = 0.05) -> LossBound:
        """An upper bound on the log loss on new occurrences, with probability `1 - delta`.

        `L_pi(w) <= L_sample(w) + sum_j beta_j |w_j|` for any fitted w, `beta_j` from ``origin``:
        the inequalities of Dvoretzky-Kiefer-Wolfowitz and Hoeffding over all features the fit could
        choose from, or the complexity of the families that features were grown from. Features that
        were picked beforehand with the same occurrences are not paid for.

        It assumes independent records, several in one row of y counted as several. With a
        ``sample_weight`` L_sample is the weighted loss, and a record counts by its share: the scale
        of the weights has no effect. They must not depend on where the records lie; weights that
        do, such as inverse probabilities, estimate another distribution, and this is no bound for
        it. ``assumes`` of the bound says which. See docs/differences.md.
        """
        if not isinstance(self.entropy, Shannon):
            raise ValueError(
                f"the bound is for the log loss: entropy Shannon, not {self.entropy!r}"
            )
        if np.isnan(self.n_presences):
            raise ValueError(
                "a bound needs the loss on the presences and their number, which a lambdas file "
                "does not hold; fit the model to have one"
            )
        known, assumes = self._records()
        beta = self.origin.deviations(len(self.weights), len(self.schema.continuous), known, delta)
        beta = beta * self._widths()  # of means of values from 0 to 1
        loss = -self.certificate.unregularized_gain
        uniform = float(self.n_points).is_integer() and not self.biased
        if uniform:  # the loss is relative to the default density, which is one over the points
            loss += float(np.log(self.n_points))
        cells = int(self.n_points) if uniform else None
        return bounds.printable_bound(loss, self.weights, beta, delta, cells, assumes)

    def _widths(self) -> Array:
        """How far the values of each feature lie apart."""
        ends = [operator.ranges() for operator in self.operators]
        return np.concatenate([np.empty(0), *(high - low for low, high in ends)])

    def _records(self) -> tuple[Evidence, str]:
        """What is known of the records, and what a bound assumes of them."""
        if self.evidence is not None:
            return self.evidence, self.evidence.assumes()
        if not float(self.n_presences).is_integer():
            raise ValueError(
                f"the records of this model have weights that add up to {self.n_presences:g}, and "
                "its file, of an earlier version, does not say how many there were: a bound needs "
                "their number; fit the model again"
            )
        plain = RecordWeights.alike(self.n_presences).evidence()
        return plain, f"{bounds.INDEPENDENT} and none was given a weight"

    def summary(self) -> str:
        """The fit in a few lines: data, features in use, gain, certificate and guarantee."""
        told = self.certificate
        features = f"{len(self.weights)} of {self.n_features} features in use"
        if told.status is None:
            return (
                f"{self.n_points:g} points, {features}, entropy {self.raw_entropy:.4f}\n"
                f"read from a lambdas file: {told.describe()}"
            )
        gains = f"regularized gain {told.gain:.4f}, unregularized {told.unregularized_gain:.4f}"
        lines = [
            f"{self.n_presences:g} presences, {self.n_points:g} points, {features}",
            f"unregularized gain {told.unregularized_gain:.4f}" if told.parts else gains,
            told.describe(),
        ]
        if isinstance(self.entropy, Shannon):
            lines.append(str(self.bound()))
        return "\n".join(lines)


def fitted_density(model: Any) -> FittedDensity:
    """The density itself, or that of a fitted estimator."""
    density = getattr(model, "density_", model)
    if hasattr(density, "__sklearn_is_fitted__"):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(density)
    if not isinstance(density, FittedDensity):
        raise TypeError(
            "expected a FittedDensity or a fitted estimator such as MaxentDensity, got "
            f"{model!r:.80}"
        )
    return density
