"""What each variable does for a fit: shares of the gain, permutations, and refits without it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxent import evaluation as metrics
from maxent._support.jobs import in_threads
from maxent._support.threads import one_blas_thread
from maxent.core.entropies import Relative
from maxent.core.potentials import Equality
from maxent.core.problem import Problem
from maxent.density import Fit, FittedDensity, Points, Table, fitted_density
from maxent.features import (
    Bound,
    Cells,
    OperatorMap,
    Schema,
    bind,
    part_of,
    variables_used,
    with_weights,
)
from maxent.features.base import FeatureRows
from maxent.rows.arrays import Array
from maxent.species.fitting.results import Importance, Jackknife, Sample
from maxent.species.judging.refits import (
    check_whole,
    coarse,
    deviation,
    fit_if_any,
    per_record,
    sample_task,
)

_SHUFFLED = 50_000  # background cells that are shuffled at most
_NODES = tuple(2**k for k in range(4, 13))  # of the quadrature, until it adds up
_ADDS_UP = 1e-6  # nats


def importance(model: Any, sample: Sample, *, repeats: int = 10, seed: int = 0) -> Importance:
    """Contribution of each variable to the gain, and the drop of AUC when it is shuffled.

    ``contribution`` is :func:`gain_shares` in percent of the gain. It adds up to 100 and depends
    on the fitted weights alone, not on the steps of a solver. A share is negative, and others then
    are larger, where a variable's weights only make up for those of others. Correlated variables
    share their credit as the weights do: one with a small share may be one that others stand in
    for.

    ``permutation``: the values of one variable are shuffled among the presences and the background
    rows (50,000 of them at most) together, ``repeats`` times; the drops of training AUC, negative
    ones set to 0, are made percent within each repeat. ``auc_drop`` is the mean drop as it is.

    Parameters
    ----------
    model : FittedDensity or estimator
        The fitted model.
    sample : Sample
        Records and background with their environment.
    repeats : int, default 10
        Shuffles of each variable.
    seed : int, default 0
        Seed of the shuffles.
    """
    check_whole("repeats", repeats, 1)
    density = fitted_density(model)
    drops = _auc_drops(density, sample, repeats, seed)
    percent = _percent(drops)
    return Importance(
        variables=density.schema.names,
        contribution=_percent_of_gain(gain_shares(density, sample)),
        permutation=percent.mean(axis=0),
        permutation_sd=deviation(percent),
        auc_drop=drops.mean(axis=0),
        auc_drop_sd=deviation(drops),
    )


def _percent_of_gain(shares: Array) -> Array:
    """Percent of their sum, which the quadrature knows to 1e-6; 0 where there is no gain."""
    gain = shares.sum()
    return 100 * shares / gain if gain > _ADDS_UP else np.zeros_like(shares)


def _percent(values: Array) -> Array:
    """Positive parts as percent of their sum over the last axis; 0 where all are 0."""
    positive = np.maximum(values, 0.0)
    total = positive.sum(axis=-1, keepdims=True)
    return 100 * (positive / np.where(total > 0, total, 1.0))  # a share of 1 is 100, no more


# -- shares of the gain ------------------------------------------------------------------------


def gain_shares(model: Any, sample: Sample) -> Array:
    """The Aumann-Shapley share of each variable in the unregularized gain, in nats.

    With L(w) = Omega*(F'w) - <w, mu> the gain is L(0) - L(w), and along the ray t w

        d L(tw) / dt = <w, F p_tw - mu>,    so    gain = sum_j w_j int_0^1 (mu - F p_tw)_j dt:

    one term per feature, for every entropy, its map giving p_tw. A term goes to the variable of its
    feature, in equal parts where there are several. Shares add up to the gain to 1e-6
    (Gauss-Legendre with 16 nodes or as many as it takes); a share is negative where a variable's
    weights only make up for those of others.

    >>> import pandas as pd
    >>> from maxent import MaxentDensity
    >>> X = pd.DataFrame({"wet": np.linspace(0, 1, 50), "other": np.tile([0.0, 1.0], 25)})
    >>> sample = Sample(X, np.where(np.arange(50) > 30, 1, 0))
    >>> model = MaxentDensity("l").fit(X, sample.counts)
    >>> shares = gain_shares(model, sample)
    >>> bool(abs(shares.sum() - model.unregularized_gain_) < 1e-6), float(shares[1])
    (True, 0.0)
    """
    density = fitted_density(model)
    names = density.schema.names
    if not density.weights.size:
        return np.zeros(len(names))
    problem, w, uses = _problem_in_use(density, sample)
    theta = problem.features.scores(w)
    gain = problem.state(0 * w, 0 * theta).smooth - problem.state(w, theta).smooth
    for nodes in _NODES:
        points, weights = np.polynomial.legendre.leggauss(nodes)
        rays = zip((points + 1) / 2, weights / 2, strict=True)
        term = -w * sum(a * problem.state(t * w, t * theta).gradient for t, a in rays)
        if abs(term.sum() - gain) <= _ADDS_UP:
            break
    return np.asarray(uses @ (term / uses.sum(axis=0)))


def _problem_in_use(density: FittedDensity, sample: Sample) -> tuple[Problem, Array, Array]:
    """The problem of the fit, with the features in use alone and no potential.

    Its weights, and which variables each feature uses. The terms of a kernel are a feature each.
    """
    table = Table.from_rows(sample.X, sample.counts, prior=sample.prior)
    points = Points.of_table(table, merge=density.merged, schema=density.schema)
    names = density.schema.names
    parts: list[Bound] = []
    weights: list[Array] = [np.empty(0)]
    uses: list[Array] = [np.empty((len(names), 0), dtype=bool)]
    for operator, w in with_weights(density.operators, density.weights):
        terms = operator.parts()
        if len(terms) > 1:
            parts.append(FeatureRows(np.array([bind([t], points.cells).scores(w) for t in terms])))
            weights.append(np.ones(len(terms)))
            uses += [term.uses_columns(names)[:, :1] for term in terms]
        else:
            parts.append(operator.bind(points.cells))
            weights.append(w)
            uses.append(operator.uses_columns(names))
    problem = Problem(
        Relative(density.entropy, points.default),
        OperatorMap(parts, points.cells.n_cells),
        Equality(),
        observed=points.observed,
    )
    return problem, np.concatenate(weights), np.concatenate(uses, axis=1)


# -- permutation -------------------------------------------------------------------------------


def _auc_drops(density: FittedDensity, sample: Sample, repeats: int, seed: int) -> Array:
    """(repeats, variables): AUC less AUC with the variable shuffled."""
    rows = np.arange(len(sample.counts))
    presences = per_record(rows, sample.counts)
    background, rng = rows[sample.at_background], np.random.default_rng(seed)
    if background.size > _SHUFFLED:
        background = rng.choice(background, _SHUFFLED, replace=False)
    pool = np.concatenate([presences, background])
    schema, w = density.schema, density.weights
    cells = schema.read(sample.X).take(pool)
    uses = variables_used(density.operators, schema.names)
    theta = bind(density.operators, cells, clamp=True).scores(w)

    def auc(scores: Array) -> float:
        log = density.link.log(scores)
        return metrics.auc(log[: presences.size], log[presences.size :])

    drops = np.zeros((repeats, len(schema.names)))
    orders = [[rng.permutation(pool.size) for _ in drops.T] for _ in drops]
    before = auc(theta)
    for v, name in enumerate(schema.names):
        mine = np.flatnonzero(uses[v])
        if not mine.size:
            continue
        operators = part_of(density.operators, mine)
        others = theta - bind(operators, cells, clamp=True).scores(w[mine])
        for repeat in range(repeats):
            shuffled = _shuffled(schema, cells, name, orders[repeat][v])
            moved = bind(operators, shuffled, clamp=True).scores(w[mine])
            drops[repeat, v] = before - auc(others + moved)
    return drops


def _shuffled(schema: Schema, cells: Cells, name: str, order: Array) -> Cells:
    """The cells with one variable in another order."""
    values, codes = cells.values, cells.codes
    if name in schema.categorical:
        v, codes = schema.categorical.index(name), codes.copy()
        codes[v] = codes[v, order]
    else:
        v, values = schema.continuous.index(name), values.copy()
        values[v] = values[v, order]
    return Cells(values, codes)


# -- jackknife ---------------------------------------------------------------------------------


def jackknife(
    recipe: Any,
    sample: Sample,
    test: Sample | None = None,
    *,
    n_jobs: int | None = None,
    verbose: int = 1,
) -> Jackknife:
    """Refits with all variables, with each one alone and without each one.

    Regularized training gain and training AUC; with ``test`` also test gain, ln N less the log
    loss of the test records, and test AUC against the same background. All fits are over the same
    points, so that their gains compare. Variables that give no feature (a constant one alone, none
    at all) give the uniform density: gain 0, AUC 1/2.

    Parameters
    ----------
    recipe : Recipe
        Features, potential, entropy and solver of a density.
    sample : Sample
        Records and background with their environment.
    test : Sample, default None
        Records that were kept from the fit.
    n_jobs : int, default None
        Threads.
    verbose : int, default 1
        0 silences progress.
    """
    with one_blas_thread():  # for all threads below
        task = coarse(sample_task(recipe, sample))
        schema = task.points.schema
        scored = _JackknifeScores(
            sample, schema.read(sample.X), test, None if test is None else schema.read(test.X)
        )
        everything = fit_if_any(task)
        whole = scored.scores_of(everything)

        def run(job: tuple[str, str]) -> dict[str, float]:
            which, name = job
            if which == "only":
                return scored.scores_of(fit_if_any(task.only(name)))
            rest, index = task.without(name)
            return scored.scores_of(
                fit_if_any(rest, None if everything is None else everything.start(index))
            )

        names = schema.names
        jobs = [(which, name) for which in ("only", "without") for name in names]
        parts = in_threads("jackknife", run, jobs, n_jobs, verbose)
    scores: dict[str, dict[str, Any]] = {
        score: {
            "all": value,
            "only": np.array([part[score] for part in parts[: len(names)]]),
            "without": np.array([part[score] for part in parts[len(names) :]]),
        }
        for score, value in whole.items()
    }
    return Jackknife(names, scores)


@dataclass(frozen=True, eq=False)
class _JackknifeScores:
    """What refits are scored on: the cells of the sample and of the test records."""

    sample: Sample
    cells: Cells
    test: Sample | None
    test_cells: Cells | None

    def scores_of(self, fit: Fit | None) -> dict[str, float]:
        """Gains and AUC of a refit, None for the uniform density."""
        if fit is None:
            scores = {"train_gain": 0.0, "auc": 0.5}
            return scores if self.test is None else scores | {"test_gain": 0.0, "test_auc": 0.5}
        density = fit.density
        log = density.predict_cells(self.cells)
        background = log[self.sample.at_background]
        scores = {
            "train_gain": density.certificate.gain,
            "auc": metrics.auc(per_record(log, self.sample.counts), background),
        }
        if self.test is not None and self.test_cells is not None:
            held_out = per_record(density.predict_cells(self.test_cells), self.test.counts)
            scores["test_gain"] = math.log(density.n_points) - metrics.log_loss(held_out)
            scores["test_auc"] = metrics.auc(held_out, background)
        return scores
