"""SpeciesModel: what a map needs to be drawn anywhere, in one file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maxent import io
from maxent.estimators import MaxentDensity, read_lambdas
from maxent.species.similarity import Reference

RULES = (  # of the table of thresholds
    "Fixed cumulative value 1",
    "Fixed cumulative value 5",
    "Fixed cumulative value 10",
    "Minimum training presence",
    "10 percentile training presence",
    "Equal training sensitivity and specificity",
    "Maximum training sensitivity plus specificity",
    "Equal test sensitivity and specificity",
    "Maximum test sensitivity plus specificity",
    "Balance training omission, predicted area and threshold value",
    "Equate entropy of thresholded and original distributions",
)


def check_rule(rule: str | None) -> None:
    """Refuse a threshold that is no number and no rule's name or start of a name."""
    if rule is None or any(name.lower().startswith(rule.lower()) for name in RULES):
        return
    try:
        float(rule)
    except ValueError:
        raise ValueError(
            f"threshold must be a number or one of: {'; '.join(RULES)}; got {rule!r}"
        ) from None


@io.register
@dataclass(frozen=True, eq=False)
class SpeciesModel:
    """A fitted density with the environment it was fitted in.

    Attributes
    ----------
    species : its name.
    density : the fitted MaxentDensity.
    reference : the environment of the fit, for similarity maps; None where it is not known.
    thresholds : rule -> cloglog value.
    crs : of the layers of the fit.
    """

    species: str
    density: MaxentDensity
    reference: Reference | None = None
    thresholds: dict[str, float] | None = None
    crs: str | None = None

    def threshold(self, rule: str) -> float:
        """The cloglog value of a rule, by its name or the start of it, or of a number."""
        try:
            return float(rule)
        except ValueError:
            pass
        known = self.thresholds or {}
        found = [v for name, v in known.items() if name.lower().startswith(rule.lower())]
        if not found:
            raise ValueError(
                f"no threshold rule {rule!r}; give a number or one of: {'; '.join(known)}"
            )
        return found[0]


def load_model(path: str | os.PathLike[str]) -> SpeciesModel:
    """Read ``model.json``, a saved MaxentDensity or maxent.jar's ``.lambdas``."""
    path = Path(path)
    if path.is_dir():
        path = path / "model.json"
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such model; give a model.json or a .lambdas file")
    if path.suffix == ".lambdas":
        return SpeciesModel(path.stem, read_lambdas(path))
    found: Any = io.load(path)
    if isinstance(found, MaxentDensity):
        return SpeciesModel(path.stem, found)
    if not isinstance(found, SpeciesModel):
        raise ValueError(
            f"{path} holds a {type(found).__name__}; expected the model.json of `maxent fit`"
        )
    return found
