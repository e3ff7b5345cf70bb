"""POT: Sinkhorn in three forms, the smooth dual by L-BFGS, and the network simplex."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np

NAME = "POT"
Plans = dict[str, Callable[[], np.ndarray]]
Potentials = dict[str, Callable[[], tuple[Any, Any]]]


def sinkhorn(a: np.ndarray, b: np.ndarray, cost: np.ndarray, strength: float) -> Plans:
    """Plain, stabilized and log-domain scalings, to POT's own limit of 1e-9."""
    import ot

    def plan(method: str) -> Callable[[], np.ndarray]:
        return lambda: np.asarray(
            ot.sinkhorn(a, b, cost, strength, method, numItermax=100_000, warn=False)
        )

    methods = ("sinkhorn", "sinkhorn_stabilized", "sinkhorn_log")
    return {f"{NAME} {method}": plan(method) for method in methods}


def point_potentials(x: np.ndarray, y: np.ndarray, strength: float) -> Potentials:
    """Log-domain scalings of all costs to 1e-9, or 300 iterations."""
    import ot

    import torch

    def run() -> tuple[torch.Tensor, torch.Tensor]:
        cost = ot.dist(x, y) / 2
        a, b = np.full(len(x), 1 / len(x)), np.full(len(y), 1 / len(y))
        log = ot.sinkhorn(
            a, b, cost, strength, "sinkhorn_log", numItermax=300, warn=False, log=True
        )[1]
        f, g = strength * (log["log_u"] - np.log(a)), strength * (log["log_v"] - np.log(b))
        return torch.from_numpy(f), torch.from_numpy(g)

    return {f"{NAME} sinkhorn_log": run}


def euclidean(a: np.ndarray, b: np.ndarray, cost: np.ndarray, strength: float) -> Plans:
    """smooth_ot_dual, as it comes and with as many iterations as it wants."""
    import ot.smooth

    def plan(limit: int, tolerance: float) -> Callable[[], np.ndarray]:
        def run() -> np.ndarray:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return np.asarray(
                    ot.smooth.smooth_ot_dual(
                        a, b, cost, strength, "l2", numItermax=limit, stopThr=tolerance
                    )
                )

        return run

    return {
        f"{NAME} smooth_ot_dual": plan(500, 1e-9),
        f"{NAME} smooth_ot_dual (20,000 iterations)": plan(20_000, 1e-16),
    }


def exact(a: np.ndarray, b: np.ndarray, cost: np.ndarray) -> Plans:
    """emd."""
    import ot

    return {f"{NAME} emd": lambda: np.asarray(ot.emd(a, b, cost))}


def unbalanced(
    a: np.ndarray, b: np.ndarray, cost: np.ndarray, strength: float, penalty: float
) -> Plans:
    """Scalings for KL and KL in three forms, to 1e-9."""
    import ot

    def plan(method: str) -> Callable[[], np.ndarray]:
        return lambda: np.asarray(
            ot.unbalanced.sinkhorn_unbalanced(
                *(a, b, cost, strength, penalty),
                method=method,
                numItermax=100_000,
                stopThr=1e-9,
            )
        )

    methods = ("sinkhorn", "sinkhorn_stabilized", "sinkhorn_translation_invariant")
    return {f"{NAME} unbalanced {method}": plan(method) for method in methods}


def unbalanced_squared(
    a: np.ndarray,
    b: np.ndarray,
    cost: np.ndarray,
    strength: float,
    penalty: float,
    divergence: str,
) -> Plans:
    """lbfgsb_unbalanced: L-BFGS-B on the entries of the plan, as it comes."""
    import ot

    def plan() -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(
                ot.unbalanced.lbfgsb_unbalanced(
                    *(a, b, cost, strength, penalty),
                    c=np.zeros_like(cost),
                    reg_div="l2",
                    regm_div={"l1": "tv"}.get(divergence, divergence),
                )
            )

    return {f"{NAME} lbfgsb_unbalanced": plan}


def describe() -> str:
    return f"{NAME} {version('pot')}"
