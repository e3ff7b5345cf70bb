"""The mean of log densities: where exponents add, it is a density of the same kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxent.core.entropies import Shannon
from maxent.density.link import DensityLink
from maxent.density.model import Certificate, FittedDensity
from maxent.density.origin import Offered, kinds_of
from maxent.density.points import Points
from maxent.features import Operator, bind, with_weights
from maxent.features.letters import ALL
from maxent.features.summing import joint_schema, summed
from maxent.rows.arrays import Array


def log_pool(
    members: Sequence[FittedDensity],
    shares: Any,
    points: Points,
    certificates: Sequence[Certificate],
) -> FittedDensity:
    """p(x) proportional to prod_k p_k(x)^shares_k over the points: a weighted mean of logs.

    Members of the exponential family have the exponents theta_k = sum_j w_kj f_kj, and

        log p = sum_k shares_k theta_k - log Z

    is that of their features with the weights shares_k w_kj: predictions, explanations and files
    are those of any density. Exponents of members are taken as they are at the points, not held
    within the ranges of the members' own fits; elsewhere ``p`` is clamped to the ranges of the
    points. ``points`` must be read with ``joint_schema`` of the members, ``certificates`` are of
    the fits whose mean this is.

    >>> import maxent as mx
    >>> X, y = np.linspace(0, 1, 9)[:, None], np.arange(9) > 5
    >>> one, two = (mx.MaxentDensity(f, verbose=0).fit(X, y).density_ for f in ("l", "q"))
    >>> points = Points.from_table(X, y)
    >>> p = log_pool([one, two], [0.5, 0.5], points, [one.certificate, two.certificate])
    >>> logs = (one.predict(X, "log") + two.predict(X, "log")) / 2
    >>> bool(np.allclose(p.predict(X), np.exp(logs) / np.exp(logs).sum()))
    True
    """
    shares = np.asarray(shares, dtype=np.float64)
    if shares.shape != (len(members),):
        raise ValueError(f"{len(members)} members need as many shares, got shape {shares.shape}")
    _check(members)
    schema = joint_schema([member.schema for member in members])
    if points.schema != schema:
        raise ValueError("the points must be read with the joint schema of the members")
    parts = [
        (operator, share * w)
        for member, share in zip(members, shares, strict=True)
        if share
        for operator, w in with_weights(member.operators, member.weights)
    ]
    operators, weights = summed(parts, schema)
    theta = bind(operators, points.cells).scores(weights)
    return FittedDensity.over(
        points,
        theta,
        DensityLink(0.0, float(theta.max())),
        operators=tuple(operators),
        weights=weights,
        beta=np.full(weights.size, np.nan),
        entropy=Shannon(),
        n_features=sum(member.n_features for member in members),
        origin=Offered.at_most(schema).together(_kernels(operators)),
        certificate=Certificate.of_parts(certificates, _gain(points, theta)),
        prevalence=members[0].prevalence,
    )


def _check(members: Sequence[FittedDensity]) -> None:
    for member in members:
        if not isinstance(member.entropy, Shannon):
            raise ValueError(
                f"exponents add for the entropy Shannon alone, a member has {member.entropy!r}"
            )
        strange = set(kinds_of(member.operators)) - set(ALL)
        if strange:
            raise ValueError(
                f"members need features of the classes {ALL}, one has {', '.join(sorted(strange))}"
            )


def _kernels(operators: Sequence[Operator]) -> Offered:
    """The features of kernels, which no count of columns tells."""
    return Offered(int((kinds_of(operators) == "k").sum()))


def _gain(points: Points, theta: Array) -> float:
    """Mean log of the density against the default at the occurrences."""
    q0, top = points.default / points.default.sum(), theta.max()
    return float(points.observed @ (theta - top) - np.log(q0 @ np.exp(theta - top)))
