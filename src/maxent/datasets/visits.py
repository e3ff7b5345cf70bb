"""Visits to a virtual landscape: a survey with absences and counts of a species that is known."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maxent.datasets.landscape import SPECIES, VirtualLandscape
from maxent.rows.arrays import Array

_PLOTS = (5.0, 10.0, 20.0)  # hectares of a visit of the survey
_TRANSECTS = (0.2, 0.5)  # km2 of a count


@dataclass(frozen=True, eq=False)
class VirtualVisits:
    """What visits to a landscape found.

    Attributes
    ----------
    intensity : array (height, width)
        True individuals per km2, NaN at sea.
    survey : dict of array (n_survey,)
        x, y, area in hectares, and presence (1 or 0) of each visit.
    counts : dict of array (n_counts,)
        x, y, area in km2, and count of each transect.
    """

    intensity: Array
    survey: dict[str, Array]
    counts: dict[str, Array]

    def write(self, folder: Path | str) -> tuple[Path, Path]:
        """Write ``sites.csv`` and ``transects.csv``, as a user would have them."""
        folder = Path(folder)
        sites, transects = folder / "sites.csv", folder / "transects.csv"
        place = ("decimalLongitude", "decimalLatitude")
        _write(sites, ("species", *place, "area_ha", "presence"), self.survey)
        _write(transects, ("species", *place, "area_km2", "count"), self.counts)
        return sites, transects


def virtual_visits(
    landscape: VirtualLandscape,
    n_survey: int = 300,
    n_counts: int = 60,
    per_km2: float = 2.0,
    seed: int = 0,
) -> VirtualVisits:
    """Visit places anywhere on land, and find what is there.

    The species has ``per_km2`` individuals per square kilometre of land on average, in proportion
    to its truth; a visit to a plot of 5 to 20 hectares finds it with the chance that at least one
    individual is there, a transect of 0.2 or 0.5 square kilometres counts all of them.

    Parameters
    ----------
    landscape : VirtualLandscape
        The landscape.
    n_survey : int, default 300
        Visits of the survey.
    n_counts : int, default 60
        Transects.
    per_km2 : float, default 2.0
        Individuals per square kilometre of land.
    seed : int, default 0
        Seed of everything random.

    Examples
    --------
    >>> from maxent.datasets import virtual_landscape
    >>> visits = virtual_visits(virtual_landscape(30, 40), n_survey=100)
    >>> visits.survey["presence"].size, round(float(np.nanmean(visits.intensity)), 6)
    (100, 2.0)
    """
    surveying, counting = np.random.default_rng(seed).spawn(2)
    intensity = per_km2 * landscape.truth / np.nanmean(landscape.truth)
    places = _places(surveying, landscape, intensity, n_survey)
    hectares = surveying.choice(_PLOTS, n_survey)
    chance = -np.expm1(-places.pop("intensity") * hectares / 100)
    found = (surveying.random(n_survey) < chance).astype(np.int64)
    survey = places | {"area": hectares, "presence": found}
    places = _places(counting, landscape, intensity, n_counts)
    km2 = counting.choice(_TRANSECTS, n_counts)
    counts = counting.poisson(places.pop("intensity") * km2)
    return VirtualVisits(intensity, survey, places | {"area": km2, "count": counts})


def _places(
    rng: np.random.Generator, landscape: VirtualLandscape, intensity: Array, n: int
) -> dict[str, Array]:
    """The middles of cells on land, and the intensity there."""
    cell = rng.choice(np.flatnonzero(landscape.land), n)
    x, y = landscape.grid.centres(cell)
    return {"x": np.round(x, 6), "y": np.round(y, 6), "intensity": intensity.ravel()[cell]}


def _write(path: Path, header: Sequence[str], columns: dict[str, Any]) -> None:
    rows: Iterable[Any] = zip(*(column.tolist() for column in columns.values()), strict=True)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([SPECIES, *row] for row in rows)
