"""Many virtual species on a landscape: families that respond alike, recorded along the roads."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from maxent.datasets.landscape import VirtualLandscape, drawn_records
from maxent.rows.arrays import Array

_GENERA = {
    "Arbor": "Arboraceae",
    "Frutex": "Fruticaceae",
    "Herba": "Herbaceae",
    "Palma": "Palmaceae",
    "Filix": "Filicaceae",
    "Muscus": "Muscaceae",
    "Vitis": "Vitaceae",
    "Iris": "Iridaceae",
}
_EPITHETS = (
    *("fictus", "socius", "imaginatus", "nusquam", "rarus", "vagus", "dubius", "alter", "novus"),
    *("ultimus", "tacitus", "medius"),
)
_LAYERS = ("temperature", "precipitation", "seasonality", "elevation")


@dataclass(frozen=True, eq=False)
class VirtualCommunity:
    """Species of a landscape whose true distributions are known, and their records.

    Attributes
    ----------
    species : tuple of str
        Names; the first word, of the genus, tells the family.
    truth : array (n_species, height, width)
        Probability of each cell, sums to 1 over land, NaN at sea.
    family : tuple of str
        Of each species.
    name : array (n_records,)
        Species of each record.
    x : array (n_records,)
        x of the records, drawn in proportion to truth x effort.
    y : array (n_records,)
        y of these.
    """

    species: tuple[str, ...]
    truth: Array
    family: tuple[str, ...]
    name: Array
    x: Array
    y: Array

    def write(self, path: Path | str) -> Path:
        """Write the records as a table of species, family and places."""
        family = dict(zip(self.species, self.family, strict=True))
        path = Path(path)
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["scientificName", "family", "decimalLongitude", "decimalLatitude"])
            for name, x, y in zip(self.name, self.x.tolist(), self.y.tolist(), strict=True):
                writer.writerow([name, family[name], x, y])
        return path


def virtual_community(
    landscape: VirtualLandscape,
    n_records: Sequence[int] = (120, 80, 50, 30, 20, 12, 8, 5, 3),
    families: int = 3,
    likeness: float = 0.85,
    seed: int = 0,
) -> VirtualCommunity:
    """Make species that share their families' response to climate, and records of each.

    The log of a niche is a smooth function of four layers; a share ``likeness`` of its variance is
    that of the family.

    Parameters
    ----------
    landscape : VirtualLandscape
        Layers and sampling effort.
    n_records : sequence of int, default (120, 80, 50, 30, 20, 12, 8, 5, 3)
        Records of the species of each family, the same in all of them.
    families : int, default 3
        Number of families, at most 8.
    likeness : float, default 0.85
        Share of the variance that species of a family have in common, from 0 to 1.
    seed : int, default 0
        Seed of everything random.

    Examples
    --------
    >>> from maxent.datasets import virtual_landscape
    >>> community = virtual_community(virtual_landscape(50, 65), (40, 5), families=2)
    >>> community.species, community.x.size
    (('Arbor fictus', 'Arbor socius', 'Frutex fictus', 'Frutex socius'), 90)
    """
    if not 1 <= families <= len(_GENERA) or not 1 <= len(n_records) <= len(_EPITHETS):
        raise ValueError(
            f"a community has 1 to {len(_GENERA)} families of 1 to {len(_EPITHETS)} species, got "
            f"{families} of {len(n_records)}"
        )
    if not 0 <= likeness <= 1:
        raise ValueError(f"likeness must lie in [0, 1], got {likeness!r}")
    rng = np.random.default_rng(seed)
    land = landscape.land
    Z = np.column_stack([landscape.layers[name][land] for name in _LAYERS]).astype(np.float64)
    Z[:, 1] = np.log(Z[:, 1])
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    waves = _waves(rng, Z)
    names, owners, truths, records = [], [], [], []
    for genus in list(_GENERA)[:families]:
        common = rng.normal(size=waves.shape[1])
        for epithet, n in zip(_EPITHETS, n_records, strict=False):
            mine = rng.normal(size=waves.shape[1])
            log = waves @ (np.sqrt(likeness) * common + np.sqrt(1 - likeness) * mine)
            niche = np.full(land.shape, np.nan)
            niche[land] = np.exp(1.5 * (log - log.mean()) / log.std())
            niche /= np.nansum(niche)
            name = f"{genus} {epithet}"
            x, y = drawn_records(rng, landscape.grid, niche * landscape.effort, n)
            names.append(name)
            owners.append(_GENERA[genus])
            truths.append(niche)
            records.append((np.full(n, name, dtype=object), x, y))
    who, east, north = (np.concatenate(part) for part in zip(*records, strict=True))
    return VirtualCommunity(tuple(names), np.array(truths), tuple(owners), who, east, north)


def _waves(rng: np.random.Generator, Z: Array, n: int = 40) -> Array:
    """Random smooth functions of the columns of Z (random Fourier features)."""
    slopes = rng.normal(size=(Z.shape[1], n)) / 2.5
    return np.asarray(np.cos(Z @ slopes + rng.uniform(0, 2 * np.pi, n)))
