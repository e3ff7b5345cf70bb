"""Model files of version 1, which held every attribute of an estimator: read, never written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from maxent.density.model import Certificate, FittedDensity
from maxent.density.origin import Offered, Origin
from maxent.density.recipe import PRESETS, named_entropy


def is_version_1(state: Mapping[str, Any]) -> bool:
    """Whether the state of an estimator was written by version 1 after a fit."""
    return "_operators_" in state


def density_of_version_1(state: Mapping[str, Any], origin: Origin | None = None) -> FittedDensity:
    """The density that the attributes of an estimator describe."""
    chosen = state.get("best_params_", {})  # of a search
    preset = state.get("preset")
    return FittedDensity(
        schema=state["schema_"],
        operators=tuple(state["_operators_"]),
        weights=state["_weights_"],
        beta=state["beta_"],
        low=state["_low"],
        high=state["_high"],
        entropy=named_entropy(chosen.get("entropy", state.get("entropy", "shannon"))),
        link=state["_link"],
        log_total=float(state["_log_total"]),
        raw_entropy=float(state["entropy_"]),
        cumulative=np.array([state["_table_raw"], state["_table_mass"]]),
        mean_place=None,
        n_points=float(state["n_points_"]),
        n_presences=float(state["n_presences_"]),
        n_features=int(state["n_features_"]),
        biased=bool(state["_biased"]),
        merged=PRESETS[preset].merge,
        # what it was chosen from was not written down whole
        origin=Offered.at_most(state["schema_"]) if origin is None else origin,
        certificate=Certificate(
            status=state["status_"],
            gap=float(state["gap_"]),
            optimality=float(state["optimality_"]),
            gain=float(state["gain_"]),
            unregularized_gain=float(state["unregularized_gain_"]),
            n_iter=int(state["n_iter_"]),
            guarantees=state["guarantees_"],
            history=state["history_"],
        ),
        prevalence=float(state["prevalence"]),
    )
