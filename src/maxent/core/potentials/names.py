"""Potentials by name, in units of the deviations expected of the moments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from maxent.core.potentials.base import Potential
from maxent.core.potentials.elastic import Box, ElasticNet, Equality, Quadratic
from maxent.core.potentials.norms import Ball
from maxent.core.potentials.separable import LaplacePrior, SmoothBox
from maxent.rows.arrays import Array

_SMOOTHING = 0.1


class Named(NamedTuple):
    """A potential as a function of beta, the deviations that are expected of the moments.

    ``dense`` : whether its penalty leaves every weight in use, having no absolute values.
    """

    make: Callable[[Array], Potential]
    dense: bool


BY_NAME = {
    "box": Named(Box, dense=False),
    "quadratic": Named(lambda beta: Quadratic(beta**2), dense=True),
    "elastic": Named(lambda beta: ElasticNet(beta / 2, beta**2 / 2), dense=False),
    "ball": Named(lambda beta: Ball(float(np.linalg.norm(beta))), dense=True),
    "smooth-box": Named(lambda beta: SmoothBox(beta, _SMOOTHING), dense=True),
    "laplace": Named(lambda beta: LaplacePrior(beta**2), dense=True),
    "equality": Named(lambda beta: Equality(), dense=True),
}


def make_potential(given: Any, beta: Array) -> Potential:
    """A Potential as it is, or the one that a name stands for where moments deviate by beta.

    >>> make_potential("elastic", np.array([0.2, 0.4]))
    ElasticNet(beta=array([0.1, 0.2]), strength=array([0.02, 0.08]))
    """
    if isinstance(given, Potential):
        return given
    if not (isinstance(given, str) and given in BY_NAME):
        raise ValueError(
            f"potential must be a Potential or one of {', '.join(BY_NAME)}, got {given!r}"
        )
    return BY_NAME[given].make(beta)
