"""What each variable does for a fit: shares of the gain, permutations, and refits without it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maxent import evaluation as metrics
from maxent._rows import Array
from maxent.entropies import Relative
from maxent.estimators import MaxentDensity
from maxent.estimators._density import domain_points, masses
from maxent.features import Cells, bind, part_of
from maxent.potentials import Equality
from maxent.problem import Problem
from maxent.species.diagnostics.refits import (
    Refit,
    Refits,
    check_whole,
    deviation,
    per_record,
    refitting,
    run_all,
    variables_of,
)
from maxent.species.results import Importance, Jackknife, Sample

_SHUFFLED = 50_000  # background cells that are shuffled at most
_NODES = tuple(2**k for k in range(4, 13))  # of the quadrature, until it adds up
_ADDS_UP = 1e-6  # nats


def importance(
    model: MaxentDensity, sample: Sample, *, repeats: int = 10, seed: int = 0
) -> Importance:
    """Contribution of each variable to the gain, and the drop of AUC when it is shuffled.

    ``contribution`` is :func:`gain_shares` in percent, negative shares set to 0. It depends on the
    fitted weights alone and not on the steps of a solver. Correlated variables share their credit
    as the weights do: a variable with a small share may be one that others stand in for.

    ``permutation``: the values of one variable are shuffled among the presences and the background
    rows (50,000 of them at most) together, ``repeats`` times; the drops of training AUC, negative
    ones set to 0, are made percent within each repeat. ``auc_drop`` is the mean drop as it is.
    """
    check_whole("repeats", repeats, 1)
    drops = _auc_drops(model, sample, repeats, seed)
    percent = _percent(drops)
    return Importance(
        variables=model.schema_.names,
        contribution=_percent(gain_shares(model, sample)),
        permutation=percent.mean(axis=0),
        permutation_sd=deviation(percent),
        auc_drop=drops.mean(axis=0),
        auc_drop_sd=deviation(drops),
    )


def _percent(values: Array) -> Array:
    """Positive parts as percent of their sum over the last axis; 0 where all are 0."""
    positive = np.maximum(values, 0.0)
    total = positive.sum(axis=-1, keepdims=True)
    return 100 * positive / np.where(total > 0, total, 1.0)


# -- shares of the gain ------------------------------------------------------------------------


def gain_shares(model: MaxentDensity, sample: Sample) -> Array:
    """The Aumann-Shapley share of each variable in the unregularized gain, in nats.

    With L(w) = Omega*(F'w) - <w, mu> the gain is L(0) - L(w), and along the ray t w

        d L(tw) / dt = <w, F p_tw - mu>,    so    gain = sum_j w_j int_0^1 (mu - F p_tw)_j dt:

    one term a feature, for every entropy, its map giving p_tw. A term goes to the variable of its
    feature, that of a product half to each. Shares add up to the gain to 1e-6 (Gauss-Legendre
    with 16 nodes or as many as it takes); a share is negative where a variable's weights only make
    up for those of others.

    >>> import pandas as pd
    >>> X = pd.DataFrame({"wet": np.linspace(0, 1, 50), "other": np.tile([0.0, 1.0], 25)})
    >>> sample = Sample(X, np.where(np.arange(50) > 30, 1, 0))
    >>> model = MaxentDensity("l").fit(X, sample.counts)
    >>> shares = gain_shares(model, sample)
    >>> bool(abs(shares.sum() - model.unregularized_gain_) < 1e-6), float(shares[1])
    (True, 0.0)
    """
    w, shares = model._weights_, np.zeros(len(model.schema_.names))
    if not w.size:
        return shares
    problem = _problem_in_use(model, sample)
    theta = problem.features.scores(w)
    gain = problem.state(0 * w, 0 * theta).smooth - problem.state(w, theta).smooth
    for nodes in _NODES:
        points, weights = np.polynomial.legendre.leggauss(nodes)
        rays = zip((points + 1) / 2, weights / 2, strict=True)
        term = -w * sum(a * problem.state(t * w, t * theta).gradient for t, a in rays)
        if abs(term.sum() - gain) <= _ADDS_UP:
            break
    for variable in variables_of(model._operators_, model.schema_):
        np.add.at(shares, variable, term / 2)
    return shares


def _problem_in_use(model: MaxentDensity, sample: Sample) -> Problem:
    """The problem of the fit, with the features in use alone and no potential."""
    counts = np.asarray(sample.counts, dtype=np.float64)
    prior = masses("prior", sample.prior, counts.size)
    cells, counts, mass, prior = domain_points(
        model.schema_.read(sample.X), counts, np.ones(counts.size), prior, model._preset().merge
    )
    entropy = Relative(model._entropy(), mass * prior)
    features = bind(model._operators_, cells)
    return Problem(entropy, features, Equality(), observed=counts / counts.sum())


# -- permutation -------------------------------------------------------------------------------


def _auc_drops(model: MaxentDensity, sample: Sample, repeats: int, seed: int) -> Array:
    """(repeats, variables): AUC less AUC with the variable shuffled."""
    rows = np.arange(len(sample.counts))
    presences = per_record(rows, sample.counts)
    background, rng = rows[sample.at_background], np.random.default_rng(seed)
    if background.size > _SHUFFLED:
        background = rng.choice(background, _SHUFFLED, replace=False)
    pool = np.concatenate([presences, background])
    cells = model.schema_.read(sample.X).take(pool)
    variables, w = variables_of(model._operators_, model.schema_), model._weights_
    theta = bind(model._operators_, cells, clamp=True).scores(w)

    def auc(scores: Array) -> float:
        density = model._link.log(scores)
        return metrics.auc(density[: presences.size], density[presences.size :])

    drops = np.zeros((repeats, len(model.schema_.names)))
    orders = [[rng.permutation(pool.size) for _ in drops.T] for _ in drops]
    before = auc(theta)
    for v, name in enumerate(model.schema_.names):
        mine = np.flatnonzero((variables == v).any(axis=0))
        if not mine.size:
            continue
        operators = part_of(model._operators_, mine)
        others = theta - bind(operators, cells, clamp=True).scores(w[mine])
        for repeat in range(repeats):
            shuffled = _shuffled(model, cells, name, orders[repeat][v])
            moved = bind(operators, shuffled, clamp=True).scores(w[mine])
            drops[repeat, v] = before - auc(others + moved)
    return drops


def _shuffled(model: MaxentDensity, cells: Cells, name: str, order: Array) -> Cells:
    """The cells with one variable in another order."""
    values, codes = cells.values, cells.codes
    if name in model.schema_.categorical:
        v, codes = model.schema_.categorical.index(name), codes.copy()
        codes[v] = codes[v, order]
    else:
        v, values = model.schema_.continuous.index(name), values.copy()
        values[v] = values[v, order]
    return Cells(values, codes)


# -- jackknife ---------------------------------------------------------------------------------


def jackknife(
    estimator: MaxentDensity,
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
    """
    refits = Refits.of(estimator, sample)
    names = refits.prepared.schema.names
    with refitting():
        everything = refits.fit()
        whole = _jackknife_scores(everything, sample, test)
    start = None if everything is None else everything.w

    def run(job: tuple[str, int]) -> dict[str, float]:
        which, v = job
        if which == "only":
            return _jackknife_scores(refits.only(v).fit(), sample, test)
        rest, index = refits.without(v)
        fitted = rest.fit(start=None if start is None else start[index])
        return _jackknife_scores(fitted, sample, test)

    jobs = [(which, v) for which in ("only", "without") for v in range(len(names))]
    found = run_all("jackknife", run, jobs, n_jobs, verbose)
    scores: dict[str, dict[str, Any]] = {
        score: {
            "all": value,
            "only": np.array([part[score] for part in found[: len(names)]]),
            "without": np.array([part[score] for part in found[len(names) :]]),
        }
        for score, value in whole.items()
    }
    return Jackknife(names, scores)


def _jackknife_scores(
    fitted: Refit | None, sample: Sample, test: Sample | None
) -> dict[str, float]:
    if fitted is None:
        scores = {"train_gain": 0.0, "auc": 0.5}
        return scores if test is None else scores | {"test_gain": 0.0, "test_auc": 0.5}
    model = fitted.model
    log = model.predict(sample.X, "log")
    background = log[sample.at_background]
    scores = {
        "train_gain": model.gain_,
        "auc": metrics.auc(per_record(log, sample.counts), background),
    }
    if test is not None:
        held_out = per_record(model.predict(test.X, "log"), test.counts)
        scores["test_gain"] = math.log(model.n_points_) - metrics.log_loss(held_out)
        scores["test_auc"] = metrics.auc(held_out, background)
    return scores
