"""SpeciesModel: what a map needs to be drawn anywhere, in one file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from maxent import io
from maxent._support.terminal import CAUTION
from maxent.density import FittedDensity, fitted_density, read_lambdas
from maxent.density.intervals import LEVEL, Interval
from maxent.density.intervals import OUTPUTS as INTERVAL_OUTPUTS
from maxent.species.fitting.record_kinds import INTENSITIES, KindsOfRecords
from maxent.species.fitting.results import Selection
from maxent.species.input.crs import same_crs, short_crs
from maxent.species.input.layers.extrapolation import Extrapolation
from maxent.species.input.layers.grid import Grid
from maxent.species.input.layers.places import looks_at_places
from maxent.species.input.layers.similarity import Reference
from maxent.species.input.layers.units import UnlikeUnits, ranges_of, unlike_units
from maxent.species.input.times.timing import Timing
from maxent.species.study.study_region import StudyRegion


@io.register
@dataclass(frozen=True, eq=False)
class SpeciesModel:
    """A fitted density with the environment it was fitted in.

    Attributes
    ----------
    species : str
        Name of the species.
    density : FittedDensity
        The fitted density; a fitted estimator given is asked for its own.
    reference : Reference or None
        The environment of the fit, for similarity maps; None where it is not known.
    thresholds : dict or None
        rule -> cloglog value.
    crs : str or None
        CRS of the layers of the fit.
    study : StudyRegion or None
        The region that background was drawn from, None for all of the layers.
    selection : Selection or None
        Which of the variables given were used, and why; None where all were.
    extrapolation : Extrapolation or None
        The combinations of variables of the fit, for maps of ExDet; None where they are not known,
        or no variable is a number.
    layers : Reference or None
        What the layers of the fit hold, coarsely, where the study region is a part of them: units
        of other layers are compared with it. None where ``reference`` says as much.
    timing : Timing or None
        How time was treated, None where layers have none.
    kinds : KindsOfRecords or None
        Surveys and counts that the density was fitted to too: with a scale it is an intensity.
    """

    species: str
    density: FittedDensity = field(metadata=io.CONVERTED)
    reference: Reference | None = None
    thresholds: dict[str, float] | None = None
    crs: str | None = None
    study: StudyRegion | None = field(default=None, metadata=io.LATER)
    selection: Selection | None = field(default=None, metadata=io.LATER)
    extrapolation: Extrapolation | None = field(default=None, metadata=io.LATER)
    layers: Reference | None = field(default=None, metadata=io.LATER)
    timing: Timing | None = field(default=None, metadata=io.LATER)
    kinds: KindsOfRecords | None = field(default=None, metadata=io.LATER)

    def __post_init__(self) -> None:
        object.__setattr__(self, "density", fitted_density(self.density))

    def __repr__(self) -> str:
        density = self.density
        return (
            f"<SpeciesModel: {self.species}, {int(density.n_presences)} records, "
            f"{', '.join(density.schema.names)}>"
        )

    def check_outputs(self, outputs: Iterable[str]) -> None:
        """Refuse intensities, probabilities and counts of a model that does not know them."""
        if self.kinds is not None:
            self.kinds.check(outputs)
            return
        wrong = [output for output in outputs if output in INTENSITIES]
        if wrong:
            raise ValueError(
                f"output {wrong[0]} needs a model of surveys or counts (--survey, --counts), and "
                f"that of {self.species} is of presences alone: they tell where there are more, "
                "not how many"
            )

    def predict(self, X: Any, output: str = "cloglog", **how: Any) -> Any:
        """An output at the rows of a table: of the density, or intensity, probability and count.

        ``how`` as of ``FittedIntensity.predict``; ``area`` is that of the fit where not given.
        """
        self.check_outputs([output])
        if self.kinds is None or output not in INTENSITIES:
            return self.density.predict(X, output, **how)
        how = {"area": self.kinds.area} | how
        return self.kinds.intensity(self.density).predict(X, output, **how)

    def has_intervals(self, output: str) -> bool:
        """Whether it was fitted with intervals, and they are known of an output."""
        known = self.density.uncertainty
        if known is None:
            return False
        return known.knows_scale if output in INTENSITIES else output in INTERVAL_OUTPUTS

    def intervals(
        self, X: Any, output: str = "cloglog", level: float = LEVEL, **how: Any
    ) -> Interval:
        """Between which values an output lies at the rows of a table, of a fit with intervals.

        Outputs and ``how`` as of ``predict``; see ``FittedDensity.intervals``.
        """
        self.check_outputs([output])
        if self.kinds is None or output not in INTENSITIES:
            return self.density.intervals(X, level, output, **how)
        how = {"area": self.kinds.area} | how
        return self.kinds.intensity(self.density).intervals(X, level, output, **how)

    def unlike(self, table: Any) -> list[UnlikeUnits]:
        """The variables of a table of other places that seem to be in other units than here."""
        density = self.density
        return unlike_units(
            {name: table[name] for name in density.schema.continuous if name in table},
            ranges_of(density),
            [known for known in (self.layers, self.reference) if known is not None],
        )

    def study_on(self, grid: Grid) -> StudyRegion:
        """The study region on a grid of the same CRS, to cut maps to."""
        if self.study is None:
            raise ValueError(f"{self.species} was fitted without a study region")
        if not same_crs(self.study.crs, grid.crs):
            raise ValueError(
                f"the study region of the fit is in {short_crs(self.study.crs)}, the layers are in "
                f"{short_crs(grid.crs)}: give its polygons as a file (--extent FILE), or all of "
                "the layers"
            )
        return replace(self.study, description=f"the study region ({self.study.description})")

    def check_places(self, grid: Grid) -> list[str]:
        """What to say of a map on another grid, or of other layers, of a model of places.

        Coordinates of another CRS are refused.
        """
        if not looks_at_places(self.density.schema.names):
            return []
        if not same_crs(self.crs, grid.crs):
            raise ValueError(
                f"{self.species} was fitted with the coordinates of cells (--spatial) in "
                f"{short_crs(self.crs)}, and these layers are in {short_crs(grid.crs)}: give "
                "layers in the same CRS, or fit without --spatial"
            )
        return [
            f"{CAUTION}{self.species} was fitted with the coordinates of cells (--spatial), which "
            "say where it was recorded then and there: the map is right for the layers of the fit, "
            "not for other times or places; fit without --spatial to project"
        ]

    def threshold(self, rule: str) -> float:
        """The cloglog value of a rule, by its name or the start of it, or of a number."""
        return self.rule(rule)[1]

    def rule(self, rule: str) -> tuple[str, float]:
        """The whole name of a rule, and its cloglog value; a number is a rule of its own."""
        try:
            return "value given", float(rule)
        except ValueError:
            pass
        known = self.thresholds or {}
        found = [(name, v) for name, v in known.items() if name.lower().startswith(rule.lower())]
        if not found:
            raise ValueError(
                f"no threshold rule {rule!r}; give a number or one of: {'; '.join(known)}"
            )
        return found[0]


def load_model(path: str | os.PathLike[str]) -> SpeciesModel:
    """Read ``model.json``, a saved density or maxent.jar's ``.lambdas``.

    Parameters
    ----------
    path : path
        The file.
    """
    path = Path(path)
    if path.is_dir():
        path = path / "model.json"
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such model; give a model.json or a .lambdas file")
    if path.suffix == ".lambdas":
        return SpeciesModel(path.stem, read_lambdas(path))
    loaded: Any = io.load(path)
    if isinstance(loaded, FittedDensity) or hasattr(loaded, "density_"):
        return SpeciesModel(path.stem, loaded)
    if not isinstance(loaded, SpeciesModel):
        raise ValueError(
            f"{path} holds a {type(loaded).__name__}; expected the model.json of `maxent fit`"
        )
    return loaded
