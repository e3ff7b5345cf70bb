"""What several sections use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maxent.species.fitting.results import BlockSize, MapFiles, Replicates, SpeciesResult
from maxent.species.projecting.plan import EXTRAS
from maxent.species.report import figures, maps
from maxent.species.report.figures import Picture
from maxent.species.report.markup import Html, element

# what is kept together from refits: places, conditions, or records wherever they are
_PLACES = ("spatial cross-validation", "places")
HELD_OUT = {
    "blocks": _PLACES,
    "checkerboard": _PLACES,
    "environment": ("environmental cross-validation", "conditions"),
    "random": ("random cross-validation", "records"),
    "bootstrap": ("bootstrap", "records"),
    "subsample": ("subsamples", "records"),
}  # the hardest test first
CROSS_VALIDATED = {
    "blocks": "in spatial blocks",
    "checkerboard": "on a checkerboard",
    "environment": "in groups of like conditions",
    "random": "with random folds",
}
FURTHER = (
    "environment",
    "space",
    "presence",
    "effort",
    "replicates_mean",
    "replicates_sd",
    "cloglog_lower",
    "cloglog_upper",
    "clamping",
    "mess",
    "mod",
    "exdet",
)


@dataclass(frozen=True, eq=False)
class Context:
    """A result, the folder of its files, and what several sections use."""

    result: SpeciesResult
    folder: Path
    region: maps.Raster | None  # the suitability map of the training layers
    dpi: float  # of the smaller maps

    @classmethod
    def from_result(cls, result: SpeciesResult, folder: Path) -> Context:
        """Read the main map, and divide the room for all others among them."""
        written = maps.training_map(result)
        kind = None if written is None else maps.suitability_kind(written)
        region = None
        if written is not None and kind is not None:
            region = maps.read_raster(folder / written.files[kind])
        shown = sum(len(further(m)) + (m is not written) for m in result.maps)
        shown += 0 if result.change is None else len(result.change.files) - 1
        return cls(result, folder, region, maps.shared_dpi(shown))


def further(written: MapFiles) -> list[str]:
    """The maps shown beside that of suitability.

    Those of novelty only where there is any, on the training layers: often there is none.
    """
    kinds = [kind for kind in FURTHER if kind in written.files]
    if written.training and not (written.n_outside or written.n_extrapolated or written.n_novel):
        return [kind for kind in kinds if kind not in EXTRAS]
    return kinds


def figure(picture: Picture, alt: str, caption: Any, class_: str | None = None) -> Html:
    """A picture with the text that stands for it, and how to read it."""
    return element("figure", picture.html(alt, class_), element("figcaption", caption))


def mean_sd(made: Replicates, name: str) -> tuple[float, float]:
    """Mean and standard deviation over the replicates that have the score."""
    values = np.array([row.get(name, np.nan) for row in made.table], dtype=float)
    values = values[np.isfinite(values)]
    mean = float(values.mean()) if values.size else np.nan
    return mean, float(values.std(ddof=1)) if values.size > 1 else np.nan


def block_figure(size: BlockSize | None) -> Html | None:
    """The variograms behind the size of blocks, where there are any."""
    if size is None or not size.variograms:
        return None
    what = "residuals of the fit" if size.rule == "residuals" else "layers"
    median = ", the median" if len(size.variograms) > 1 else ""
    return figure(
        figures.variograms(size),
        f"Variograms of {what}, and a line at {size.km:.4g} km.",
        f"How unlike {what} are by the distance of places, as a share of all variance. Where a "
        f"curve levels off, places know nothing of each other: blocks are so wide (the dashed "
        f"line{median}).",
    )
