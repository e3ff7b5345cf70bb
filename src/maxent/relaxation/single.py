"""One relaxation value (relaxation paper, §5)."""

from __future__ import annotations

from math import fsum
from typing import Any

import numpy as np

from maxent.relaxation.inputs import Rows, check_nu, read
from maxent.relaxation.kernels import single_path
from maxent.rows.arrays import Array

DIVERGENCES = ("kl", "euclidean")
METHODS = ("sort", "select")


def solve_relaxed(
    prior: Any,
    observed: Any,
    nu: float,
    multiplicity: Any = None,
    *,
    divergence: str = "kl",
    method: str = "select",
    seed: int = 0,
) -> Array:
    """The p closest to the prior within 1/nu of the observation.

    `min_p sum_j m_j p_j log(p_j / u_j)`  with  `sum_j m_j p_j = 1`, `|p_j - q_j| <= 1/nu`   (1)

    Parameters
    ----------
    prior : array (n_rows,)
        u, as for ``RelaxationPath``.
    observed : array (n_rows,)
        q, likewise.
    nu : float
        One over the largest difference; infinity gives the observation.
    multiplicity : array (n_rows,), default None
        m, how many symbols a row stands for; None is 1.
    divergence : "kl" or "euclidean", default "kl"
        "euclidean" is `1/2 sum_j m_j (p_j - u_j)^2`.
    method : "select" or "sort", default "select"
        "select" is expected O(n) by random selection, "sort" O(n log n); the same p.
    seed : int, default 0
        Seed of the selection.

    Examples
    --------
    >>> solve_relaxed([0.5, 0.3, 0.2], [0.1, 0.3, 0.6], nu=10.0)
    array([0.2, 0.3, 0.5])
    """
    rows = read(prior, observed, multiplicity)
    check_choice("divergence", divergence, DIVERGENCES)
    check_choice("method", method, METHODS)
    value = check_nu(nu)
    if value.ndim:
        raise ValueError("nu must be one number here; RelaxationPath gives many at once")
    if divergence == "kl" and value > rows.stop:
        raise ValueError(stop_message(rows, float(value)))
    y = level_at(rows, float(value), divergence, method, seed)
    return probabilities(rows.u, rows.q, y, float(1 / value), divergence)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """One of the choices, or an error that lists them."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")


def stop_message(rows: Rows, nu: float) -> str:
    """Why there is no solution at this nu."""
    first = int(np.flatnonzero(rows.blocked)[np.argmax(rows.observed[rows.blocked])])
    return (
        f"nu={nu:g} is past {rows.stop:g}: row {first} has prior 0 and is observed, so that p "
        "within 1/nu of the observation has infinite relative entropy; give it a positive prior"
    )


def level_at(rows: Rows, nu: float, divergence: str, method: str, seed: int = 0) -> float:
    """mu / nu of (7), or tau of its Euclidean version."""
    u, q, m = rows.u, rows.q, rows.m
    with np.errstate(divide="ignore"):
        t = 1 / nu
    euclidean = divergence == "euclidean"
    c, e = (np.ones_like(u), u) if euclidean else (u, np.zeros_like(u))
    free = c > 0  # the others have p = 0
    bounds = np.maximum(q - t, 0.0 if euclidean else -np.inf)[free], (q + t)[free]
    solve = single_path.by_sorting if method == "sort" else single_path.by_selection
    settings = () if method == "sort" else (int(seed),)
    return float(solve(c[free], e[free], *bounds, m[free], fsum(m * q), *settings))


def probabilities(u: Array, q: Array, level: Any, t: Any, divergence: str) -> Array:
    """p of (6): the prior at a level, held within t of the observation."""
    if divergence == "euclidean":
        return np.clip(u + level, np.maximum(q - t, 0.0), q + t)
    return np.where(u > 0, np.clip(u * level, q - t, q + t), 0.0)
