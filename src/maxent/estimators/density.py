"""MaxentDensity: generalized maximum-entropy density estimation over cells (density paper)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin, clone
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import check_array, check_is_fitted

from maxent import bounds, io, potentials
from maxent._rows import Array
from maxent._threads import one_blas_thread
from maxent.bounds import LossBound
from maxent.entropies import Entropy, Relative, Shannon
from maxent.estimators import _regularization
from maxent.estimators._density import (
    DensityLink,
    check_counts,
    checked_classes,
    cumulative_table,
    domain_points,
    masses,
    positive,
    spread,
    take_rows,
    warn_constant,
)
from maxent.features import (
    Additive,
    Categorical,
    Cells,
    FeatureClass,
    Hinge,
    Interaction,
    Levels,
    Linear,
    Operator,
    OperatorMap,
    Products,
    Schema,
    Square,
    Threshold,
    bind,
    joined,
    part_of,
)
from maxent.features.cells import UNKNOWN, is_frame, missing_rows
from maxent.features.scoring import Scorer
from maxent.path import multiplier_grid, solution_path
from maxent.potentials import Potential
from maxent.problem import Problem
from maxent.solvers.base import Interrupted, Solution, Status

OUTPUTS = ("raw", "logistic", "cloglog", "cumulative", "log")
_BLOCK = 1 << 16  # rows predicted at once
_DENSE = ("ball", "quadratic", "smooth-box", "laplace", "equality")  # use every feature
_DENSE_KNOTS = 50


class _Preset(NamedTuple):
    """What a program does: knots, levels, regularization, and equal rows as one point."""

    knots: int | None
    occupied: bool
    rule: _regularization.Rule
    merge: bool


_PRESETS = {
    None: _Preset(None, True, _regularization.jar, False),
    "maxent": _Preset(None, True, _regularization.jar, True),
    "maxnet": _Preset(50, False, _regularization.maxnet, True),
}


@dataclass(frozen=True, eq=False)
class _Prepared:
    """All that comes before the first step of a solver."""

    schema: Schema
    cells: Cells
    operators: list[Operator]
    low: Array
    high: Array
    problem: Problem
    beta: Array
    mass: Array  # how often each kept cell counts, without the prior
    n_presences: float
    biased: bool  # whether the default density is not one a cell


@dataclass(frozen=True, eq=False)
class Profile:
    """A variable's additive part of the exponent: ``y`` at the values (or levels) ``x``."""

    variable: str
    x: Array
    y: Array
    complete: bool

    def plot(self, ax: Any = None) -> Any:
        """Draw it, shifted to start at 0; returns the axes."""
        import matplotlib.pyplot as plt

        ax = plt.subplots()[1] if ax is None else ax
        if self.x.dtype.kind in "fiu" and self.x.size > 50:
            ax.plot(self.x, self.y - self.y[0])
        else:
            ax.bar([str(level) for level in self.x], self.y)
        ax.set_xlabel(self.variable)
        ax.set_ylabel("additive contribution" + ("" if self.complete else ", without products"))
        return ax


@io.register
class MaxentDensity(DensityMixin, BaseEstimator):
    """The density over cells closest to the default one whose moments agree with the presences.

    min_p Omega(p || q0) + V(F p - mu), mu the mean features of the presences: for Shannon the Gibbs
    density p(x) = q0(x) exp(<w, f(x)>) / Z that minimises log loss + V*(-w).

    Parameters
    ----------
    features : "auto" (by the number of presences: linear; with 10 quadratic, with 15 hinge, with 80
        product), letters from "lqpthc" (linear, quadratic, product, threshold, hinge,
        categorical), or a list of feature classes (``[Linear(), Hinge(knots=20)]``). All are
        scaled to [0, 1]. Letters mean a knot at every value, or 50 a variable where the potential
        is named and sets no weight to 0, as then every feature is in use.
    potential : "box" (l1), "ball" (l2), "quadratic" (l2 squared), "elastic", "smooth-box",
        "laplace", "equality": scaled by the preset's beta_j; or a Potential, taken as it is.
    entropy : "shannon", or an Entropy (``Tsallis(1.5)`` has exact zeros on the map).
    solver : "auto", the name of a solver or a Solver.
    multiplier : c in V_c(r) = c V(r / c); maxent.jar's betamultiplier.
    preset : None, "maxent" or "maxnet": knots, regularization tables and floors of that program.
        Both merge a presence with a background row of the same values, as those programs do with
        samples and background points; leave it out where every row is a cell of a grid.
    regularization : None for the preset's beta_j; "practical" for beta_j = sd_j / sqrt(m), the
        density paper's with ``multiplier`` as beta_0; or a function (kinds, mean, sd, m) -> beta of
        the letters, means and deviations of all features over the m presences.
    categorical : columns (names or positions) that are categories whatever their type; those of
        type category or string always are.
    tol : duality gap at which to stop.
    missing : "error" or "drop", for rows with a missing value.
    prevalence : tau of the logistic output.
    verbose : 0 silences the progress line of long fits.

    Attributes
    ----------
    coef_ : weight of every feature in use, by its name; n_features_ : how many there were.
    gain_, unregularized_gain_ : gain over the default density, with and without the penalty.
    gap_ : duality gap; guarantees_ : what it says of the distance to the optimum.
    log_partition_ : log sum exp<w, f> over the cells; entropy_ : entropy of the raw output.
    n_presences_, n_points_, n_iter_, status_, optimality_, beta_.

    >>> import numpy as np
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> y = np.where(np.arange(50) > 30, 1, 0)
    >>> model = MaxentDensity(features="lq").fit(X, y)
    >>> bool(model.gap_ < 1e-6), sorted(model.coef_)
    (True, ['x0'])
    >>> bool(abs(model.predict(X).sum() - 1) < 1e-12)
    True
    """

    def __init__(
        self,
        features: Any = "auto",
        potential: Any = "box",
        *,
        entropy: Any = "shannon",
        solver: Any = "auto",
        multiplier: float = 1.0,
        preset: str | None = None,
        regularization: Any = None,
        categorical: Iterable[Any] = (),
        tol: float = 1e-7,
        missing: str = "error",
        prevalence: float = 0.5,
        verbose: int = 1,
    ) -> None:
        self.features = features
        self.potential = potential
        self.entropy = entropy
        self.solver = solver
        self.multiplier = multiplier
        self.preset = preset
        self.regularization = regularization
        self.categorical = categorical
        self.tol = tol
        self.missing = missing
        self.prevalence = prevalence
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = self.missing == "drop"
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_weights_")

    # -- fitting -------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None, prior: Any = None) -> MaxentDensity:
        """Fit to cells X with y occurrences in each (0: background).

        ``sample_weight`` s counts a row s times, its mass and its occurrences; ``prior``
        multiplies the default density alone (sampling bias), and predictions leave it out. After
        Ctrl-C the model is the best point so far, with its gap.
        """
        with one_blas_thread():
            prepared = self._prepare(X, y, sample_weight, prior)
            problem = prepared.problem
            try:
                solution = problem.solve(self.solver, tol=self.tol, verbose=self.verbose)
            except Interrupted as stop:  # the model so far is there, with its gap
                self._finish(prepared, problem, stop.solution)
                raise
            return self._finish(prepared, problem, solution)

    def problem(self, X: Any, y: Any, sample_weight: Any = None, prior: Any = None) -> Problem:
        """The convex problem that ``fit`` solves: entropy, operators, potential and moments."""
        return clone(self)._prepare(X, y, sample_weight, prior).problem

    def path(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        prior: Any = None,
        *,
        multipliers: Sequence[float] | None = None,
        n_multipliers: int = 20,
    ) -> list[MaxentDensity]:
        """A fitted model for every multiplier, largest first, each started from the one before.

        By default equal ratios apart, from where every weight is 0.
        """
        first = clone(self).set_params(multiplier=1.0)
        with one_blas_thread():
            prepared = first._prepare(X, y, sample_weight, prior)
            if multipliers is None:
                multipliers = multiplier_grid(prepared.problem, n_multipliers)
            return list(first._path(prepared, multipliers))

    def _path(self, prepared: _Prepared, multipliers: Sequence[float]) -> Iterator[MaxentDensity]:
        for value in multipliers:
            positive("multiplier", value)
        path = solution_path(
            prepared.problem, multipliers, self.solver, tol=self.tol, verbose=self.verbose
        )
        for multiplier, problem, solution in path:
            model = clone(self).set_params(multiplier=multiplier)
            if hasattr(self, "feature_names_in_"):
                model.feature_names_in_ = self.feature_names_in_
            yield model._finish(prepared, problem, solution)

    def _prepare(self, X: Any, y: Any, sample_weight: Any, prior: Any) -> _Prepared:
        preset = self._preset()
        X, y = self._table(X, y)
        count = len(y)
        weight = masses("sample_weight", sample_weight, count)
        prior_mass = masses("prior", prior, count)
        if self.missing == "drop":
            keep = ~missing_rows(X)
            X, y, weight, prior_mass = take_rows(X, keep), y[keep], weight[keep], prior_mass[keep]
        check_counts(y, weight, prior_mass)
        schema = Schema.of(X, self.categorical)
        cells, counts, mass, prior_mass = domain_points(
            schema.read(X), y * weight, weight, prior_mass, preset.merge
        )
        warn_constant(cells, schema)
        presences = np.flatnonzero(counts > 0)
        m = float(counts.sum())
        operators = self._operators(cells, schema, presences, m, preset)
        features = bind(operators, cells)
        observed = counts / m
        DensityLink.power_of(self._entropy())  # refuses what could not be predicted, before the fit
        entropy = Relative(self._entropy(), mass * prior_mass)
        beta, off = self._beta(operators, features, observed, m)
        if off.any():
            index = np.flatnonzero(~off)
            if not index.size:
                raise ValueError(
                    f"no feature of {self.features!r} varies over the {m:g} presences: add linear "
                    'features ("l")'
                )
            operators = part_of(operators, index)
            features, beta = features.restrict(index), beta[index]
        problem = self._posed(entropy, features, beta, observed)
        biased = bool((prior_mass != prior_mass[0]).any())
        low = cells.values.min(axis=1, initial=np.inf).astype(np.float64)
        high = cells.values.max(axis=1, initial=-np.inf).astype(np.float64)
        return _Prepared(schema, cells, operators, low, high, problem, beta, mass, m, biased)

    def _beta(
        self, operators: Sequence[Operator], features: OperatorMap, observed: Array, m: float
    ) -> tuple[Array, Array]:
        """beta_j of every feature by the rule in force, and which features it leaves out."""
        kinds = np.concatenate([np.array([], dtype="U1"), *(o.kinds() for o in operators)])
        return self._rule(self._preset())(kinds, *spread(features, observed, m), m)

    def _posed(
        self, entropy: Relative, features: OperatorMap, beta: Array, observed: Array
    ) -> Problem:
        """The convex problem of these features."""
        potential = potentials.scaled(self._potential(beta), self._multiplier())
        return Problem(entropy, features, potential, observed=observed)

    def _finish(self, prepared: _Prepared, problem: Problem, solution: Solution) -> MaxentDensity:
        self.schema_ = prepared.schema
        self.n_features_in_ = len(prepared.schema.names)
        index = np.flatnonzero(solution.w)
        self._operators_ = part_of(prepared.operators, index)
        self._weights_ = solution.w[index]
        self.beta_ = prepared.beta[index] * self._multiplier()
        kinds = np.concatenate([o.kinds() for o in prepared.operators])
        self._kinds = kinds[index]
        self._n_not_monotone = int((~np.isin(kinds, ["l", "h", "t"])).sum())
        self._biased = prepared.biased
        self.n_features_ = problem.features.n_features
        self._low, self._high = prepared.low, prepared.high
        self.gap_, self.optimality_ = solution.gap, solution.optimality
        self.guarantees_ = solution.guarantees
        self.n_iter_ = solution.n_iter
        self.status_: Status | None = solution.status  # None where no fit is known
        self.history_ = solution.history
        self.n_presences_ = prepared.n_presences
        self.n_points_ = float(prepared.mass.sum())
        zero = np.zeros(problem.features.n_features)
        self.gain_ = problem.dual(zero) - solution.objective
        self.unregularized_gain_ = self.gain_ + problem.penalty(solution.w)
        self._set_density(prepared, problem, solution)
        return self

    def _set_density(self, prepared: _Prepared, problem: Problem, solution: Solution) -> None:
        """The link from scores to density, and the distribution of the raw output."""
        state = problem.state(solution.w)
        mass = prepared.mass
        entropy = problem.entropy
        assert isinstance(entropy, Relative)
        ratio = solution.p / entropy.q0  # density against the biased default
        self._link = DensityLink.of(entropy.entropy, state.theta, ratio)
        log_density = self._link.log(state.theta)
        density = np.exp(log_density)
        total = float(mass @ density)
        self._log_total = float(np.log(total))  # over the cells, without the prior
        self.log_partition_ = self._link.log_partition(self._log_total)
        raw = density / total
        log_raw = np.where(raw > 0, log_density - self._log_total, 0.0)
        self.entropy_ = float(-(mass * raw) @ log_raw)
        self._table_raw, self._table_mass = cumulative_table(raw, mass)

    @property
    def coef_(self) -> dict[str, float]:
        """Weight of every feature in use, by its name."""
        check_is_fitted(self)
        names = [name for operator in self._operators_ for name in operator.names()]
        return dict(zip(names, self._weights_.tolist(), strict=True))

    # -- parameters ----------------------------------------------------------------------------

    def _preset(self) -> _Preset:
        if self.preset not in _PRESETS:
            raise ValueError(f'preset must be None, "maxent" or "maxnet", got {self.preset!r}')
        return _PRESETS[self.preset]

    def _rule(self, preset: _Preset) -> _regularization.Rule:
        if self.regularization is None:
            return preset.rule
        if callable(self.regularization):
            return _regularization.own(self.regularization)
        if self.regularization == "practical":
            return _regularization.practical
        raise ValueError(
            'regularization must be None, "practical" or a function (kinds, mean, sd, m) -> beta, '
            f"got {self.regularization!r}"
        )

    def _multiplier(self) -> float:
        return positive("multiplier", self.multiplier)

    def _entropy(self) -> Entropy:
        if isinstance(self.entropy, Entropy):
            return self.entropy
        if self.entropy == "shannon":
            return Shannon()
        raise ValueError(f'entropy must be "shannon" or an Entropy, got {self.entropy!r}')

    def _potential(self, beta: Array) -> Potential:
        """The named potential, in units of the deviations beta_j expected of the moments."""
        if isinstance(self.potential, Potential):
            return self.potential
        made = {
            "box": lambda: potentials.Box(beta),
            "quadratic": lambda: potentials.Quadratic(beta**2),
            "elastic": lambda: potentials.ElasticNet(beta / 2, beta**2 / 2),
            "ball": lambda: potentials.Ball(float(np.linalg.norm(beta))),
            "smooth-box": lambda: potentials.SmoothBox(beta, 0.1),
            "laplace": lambda: potentials.LaplacePrior(beta**2),
            "equality": potentials.Equality,
        }
        if self.potential not in made:
            raise ValueError(
                f"potential must be a Potential or one of {', '.join(made)}, got {self.potential!r}"
            )
        return made[self.potential]()

    def _operators(
        self, cells: Cells, schema: Schema, presences: Array, m: float, preset: _Preset
    ) -> list[Operator]:
        classes = self._classes(schema, m, preset)
        operators = joined([o for kind in classes for o in kind.fit(cells, schema, presences)])
        if not operators:
            raise ValueError(
                f"no feature of {self.features!r} varies over the {cells.n_cells} cells: every "
                "column is constant"
            )
        return operators

    def _classes(self, schema: Schema, m: float, preset: _Preset) -> list[FeatureClass]:
        features = self.features
        if not isinstance(features, str):
            return checked_classes(features)
        if features == "auto":
            features = "l" + "q" * (m >= 10) + "h" * (m >= 15) + "p" * (m >= 80) + "c"
        if not features or set(features) - set("lqpthc"):
            raise ValueError(
                f'features must be "auto", letters from "lqpthc" or a list of feature classes, got '
                f"{self.features!r}"
            )
        if schema.categorical and "c" not in features:
            if self.preset is None:
                warnings.warn(
                    f"categorical columns {', '.join(schema.categorical)} are not used; add c to "
                    f"features={features!r}",
                    stacklevel=5,
                )
            else:  # both programs always use them
                features += "c"
        knots = preset.knots
        if knots is None and isinstance(self.potential, str) and self.potential in _DENSE:
            knots = _DENSE_KNOTS
        classes: dict[str, FeatureClass] = {
            "l": Linear(),
            "q": Square(),
            "p": Interaction(),
            "t": Threshold(knots),
            "h": Hinge(knots),
            "c": Categorical(occupied=preset.occupied),
        }
        return [classes[letter] for letter in dict.fromkeys(features)]

    def _table(self, X: Any, y: Any) -> tuple[Any, Array]:
        X = self._checked(X, reset=True)
        if y is None:
            raise ValueError(
                "MaxentDensity requires y to be passed, but the target y is None: the number of "
                "occurrences in each row of X, 0 for background"
            )
        y = check_array(y, ensure_2d=False, dtype="numeric", input_name="y")
        if y.ndim == 2 and y.shape[1] == 1:
            warnings.warn(
                "A column-vector y was passed when a 1d array was expected",
                DataConversionWarning,
                stacklevel=4,
            )
            y = y[:, 0]
        if y.shape != (len(X),):
            raise ValueError(
                f"y must have one count a row of X, shape ({len(X)},), got {y.shape}: inconsistent "
                "numbers of samples"
            )
        return X, y.astype(np.float64)

    def _checked(self, X: Any, reset: bool) -> Any:
        """A table of the right shape: frames stay frames, the rest becomes an array."""
        from sklearn.utils.validation import _check_feature_names, _check_n_features

        if self.missing not in ("error", "drop"):
            raise ValueError(f'missing must be "error" or "drop", got {self.missing!r}')
        _check_feature_names(self, X, reset=reset)
        if not is_frame(X):
            text = np.asarray(X).dtype.kind in "UO" if not hasattr(X, "tocsr") else False
            X = check_array(
                X,
                dtype=object if text and self._has_text(X) else "numeric",
                ensure_all_finite=False,
                ensure_min_samples=1,
                estimator=self,
                input_name="X",
            )
        elif not len(X) or not len(X.columns):
            raise ValueError(f"X is empty: {len(X)} rows, {len(X.columns)} columns")
        _check_n_features(self, X, reset=reset)
        return X

    def _has_text(self, X: Any) -> bool:
        array = np.asarray(X)
        return array.ndim == 2 and any(isinstance(v, str) for v in array.ravel()[:1000])

    # -- prediction ----------------------------------------------------------------------------

    def predict(self, X: Any, output: str = "raw", *, clamp: bool = True) -> Array:
        """The density at the rows of X.

        ``output``: "raw" sums to 1 over the cells of the fit; "logistic" and "cloglog" are
        tau v / (1 - tau + tau v) and 1 - exp(-v) with v = raw exp(entropy_); "cumulative" is 100
        times the mass of the cells whose raw value is at most this one; "log" is log raw.
        ``clamp`` holds variables and features within their ranges at the fit. Rows with a missing
        value give NaN with ``missing="drop"``, else an error.
        """
        if output not in OUTPUTS:
            raise ValueError(f"output must be one of {', '.join(OUTPUTS)}, got {output!r}")
        return self._scaled(self._scores(X, clamp), output)

    def _scaled(self, theta: Array, output: str) -> Array:
        """An output from scores."""
        log_raw = self._link.log(theta) - self._log_total
        if output == "log":
            return log_raw
        if output == "raw":
            return np.exp(log_raw)
        if output == "cumulative":
            if not self._table_raw.size:
                raise ValueError(
                    "the cumulative output needs the distribution of the raw output, which a "
                    "lambdas file does not hold: read it with read_lambdas(path, background=...)"
                )
            raw = np.exp(log_raw)
            place = np.searchsorted(self._table_raw, raw * (1 + 1e-12), side="right")
            below = np.concatenate([[0.0], self._table_mass])[place]
            return np.where(np.isnan(raw), np.nan, 100 * below)
        relative = np.exp(log_raw + self.entropy_)
        if output == "cloglog":
            return -np.expm1(-relative)
        tau = self.prevalence
        if not 0 < tau < 1:
            raise ValueError(f"prevalence must be between 0 and 1, got {tau!r}")
        with np.errstate(invalid="ignore"):
            odds = tau * relative / (1 - tau + tau * relative)
        return np.where(np.isinf(relative), 1.0, odds)

    def score_samples(self, X: Any) -> Array:
        """Log density at each row."""
        return self.predict(X, output="log")

    def log_loss(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """-sum y log p(x) / sum y, p normalised over the cells of the fit."""
        y = np.asarray(y, dtype=np.float64)
        counts = y * masses("sample_weight", sample_weight, len(y))
        if counts.shape != (len(X),) or (counts < 0).any() or not counts.sum() > 0:
            raise ValueError(
                f"y must hold one count a row of X ({len(X)} rows), none negative and one positive"
            )
        present = counts > 0
        log_density = self.score_samples(take_rows(X if is_frame(X) else np.asarray(X), present))
        return float(-(counts[present] @ log_density) / counts.sum())

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log density of the occurrences y in the rows of X; of all rows without y."""
        check_is_fitted(self)
        return -self.log_loss(X, np.ones(len(X)) if y is None else y, sample_weight)

    # -- what the model says -------------------------------------------------------------------

    def profile(self, variable: str | int, n: int = 200) -> Profile:
        """The feature profile of a variable: its additive part of the exponent (density paper §8).

        Products belong to two variables and are left out; ``Profile.complete`` says whether there
        are any.
        """
        check_is_fitted(self)
        names = self.schema_.names
        name = names[variable] if isinstance(variable, int | np.integer) else variable
        if name not in names:
            raise ValueError(f"no variable {variable!r}; the model has {', '.join(names)}")
        pieces = list(self._pieces())
        complete = not any(isinstance(o, Products) and _uses(o, name) for o, _ in pieces)
        if name in self.schema_.categorical:
            v = self.schema_.categorical.index(name)
            x = np.array(self.schema_.levels[v])
            codes = np.full((len(self.schema_.categorical), x.size), UNKNOWN, dtype=np.int32)
            codes[v] = np.arange(x.size)
            cells = Cells(np.tile(self._low[:, None], (1, x.size)), codes)
            wanted: type[Operator] = Levels
        else:
            v = self.schema_.continuous.index(name)
            x = np.linspace(self._low[v], self._high[v], n)
            cells = Cells(np.tile(self._low[:, None], (1, n)), np.empty((0, n), dtype=np.int32))
            cells.values[v] = x
            wanted = Additive
        y = np.zeros(x.size)
        for operator, weights in pieces:
            if isinstance(operator, wanted):
                mine = np.flatnonzero(operator.variable == v)  # type: ignore[attr-defined]
                if mine.size:
                    operator.restrict(mine).bind(cells).add_scores(weights[mine], y)
        return Profile(name, x, y, complete)

    def bound(self, delta: float = 0.05) -> LossBound:
        """An upper bound on the log loss on new occurrences, with probability 1 - delta.

        L_pi(w) <= L_sample(w) + sum_j beta_j |w_j| for any fitted w, beta_j from the inequalities
        of Dvoretzky-Kiefer-Wolfowitz and Hoeffding over all features the fit could choose from.
        """
        check_is_fitted(self)
        if not isinstance(self._entropy(), Shannon):
            raise ValueError(
                f"the bound is for the log loss: entropy Shannon, not {self._entropy()!r}"
            )
        if np.isnan(self.n_presences_):
            raise ValueError(
                "a bound needs the loss on the presences and their number, which a lambdas file "
                "does not hold; fit the model to have one"
            )
        monotone = np.isin(self._kinds, ["l", "h", "t"])
        others = self._n_not_monotone - int((~monotone).sum())
        flags = np.concatenate([monotone, np.zeros(others, dtype=bool)])
        m = max(int(self.n_presences_), 1)
        if not flags.size:
            beta = np.zeros(0)
        else:
            variables = len(self.schema_.continuous)
            beta = bounds.mixed_beta(flags, variables, m, delta)[: self._weights_.size]
        points = round(self.n_points_)
        loss = float(np.log(self.n_points_)) - self.unregularized_gain_
        cells = points if points == self.n_points_ and not self._biased else None
        loss -= 0.0 if cells else float(np.log(self.n_points_))
        return bounds.printable_bound(loss, self._weights_, beta, delta, cells)

    def summary(self) -> str:
        """The fit in a few lines: data, features in use, gain, certificate and guarantee."""
        check_is_fitted(self)
        if self.status_ is None:
            return (
                f"{self.n_points_:g} points, {len(self._weights_)} of {self.n_features_} features "
                f"in use, entropy {self.entropy_:.4f}\nread from a lambdas file: gain and "
                "certificate are not known"
            )
        lines = [
            f"{self.n_presences_:g} presences, {self.n_points_:g} points, "
            f"{len(self._weights_)} of {self.n_features_} features in use",
            f"regularized gain {self.gain_:.4f}, unregularized {self.unregularized_gain_:.4f}",
            f"{self.status_.value} after {self.n_iter_} iterations, duality gap {self.gap_:.1e}",
        ]
        if isinstance(self._entropy(), Shannon):
            lines.append(str(self.bound()))
        return "\n".join(lines)

    def _pieces(self) -> Iterator[tuple[Operator, Array]]:
        start = 0
        for operator in self._operators_:
            yield operator, self._weights_[start : start + operator.n_features]
            start += operator.n_features

    def _scores(self, X: Any, clamp: bool) -> Array:
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        count = int(np.shape(X)[0])
        theta = np.empty(count)
        drop = self.missing == "drop"
        scorer = self._compiled()
        for start in range(0, count, _BLOCK):
            rows = slice(start, start + _BLOCK)
            cells = self.schema_.read(take_rows(X, rows), missing=drop)
            theta[rows] = scorer.scores(cells, clamp)
            if drop:
                theta[rows][missing_rows(take_rows(X, rows))] = np.nan
        return theta

    def _compiled(self) -> Scorer:
        return Scorer.of(self._operators_, self._weights_, self._low, self._high)

    # -- saving --------------------------------------------------------------------------------

    def __getmodel__(self) -> dict[str, Any]:
        state = dict(vars(self))
        if "feature_names_in_" in state:
            state["feature_names_in_"] = [str(name) for name in state["feature_names_in_"]]
        return state

    def __setmodel__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "feature_names_in_" in state:
            self.feature_names_in_ = np.array(state["feature_names_in_"], dtype=object)


def _uses(products: Products, name: str) -> bool:
    v = products.variables.index(name) if name in products.variables else -1
    return bool(((products.first == v) | (products.second == v)).any())
