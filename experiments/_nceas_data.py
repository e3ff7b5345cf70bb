"""The NCEAS presence-only benchmark (Elith et al. 2020): the tables of a region, group by group.

Presence-absence tables are opened by :meth:`Region.score` and :meth:`Region.visited` alone; no
model sees them but for the sites that ``visited`` hands out, which are then left out of the score.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from maxent import evaluation

Array = NDArray[Any]

REGIONS = ("AWT", "CAN", "NSW", "NZ", "SA", "SWI")
FOLDS = 4
BLOCKS = 10  # along the longer side of a region
FEWEST = 5  # sites that are handed out at least
# the surveys of New South Wales, merged to biological groups as in Phillips et al. 2009
_MERGED = {
    "ba": "bats",
    "db": "birds",
    "nb": "birds",
    "ot": "plants",
    "ou": "plants",
    "rt": "plants",
    "ru": "plants",
    "sr": "reptiles",
}


def default_folder() -> Path:
    """$MAXENT_DATA/nceas; by default ../shared/data/nceas beside the checkout."""
    shared = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("MAXENT_DATA", shared)) / "nceas"


@dataclass(frozen=True, eq=False)
class Table:
    """Rows to fit: predictors, coordinates and occurrences (0: background)."""

    X: pd.DataFrame
    xy: Array
    y: Array


@dataclass(frozen=True, eq=False)
class Region:
    """One region: records, random background and the evaluation sites."""

    name: str
    folder: Path
    predictors: tuple[str, ...]
    categorical: tuple[str, ...]

    @cached_property
    def records(self) -> pd.DataFrame:
        """All occurrence records, with the biological group of the species and a fold."""
        table = self._read("po")
        table["group"] = table["group"].replace(_MERGED)
        return table.assign(fold=self._folds[0])

    @cached_property
    def background(self) -> pd.DataFrame:
        """The 10,000 random sites, with a fold."""
        return self._read("bg").assign(fold=self._folds[1])

    @cached_property
    def _folds(self) -> tuple[Array, Array]:
        """The fold of every record and background site: blocks of a grid, dealt at random."""
        places = [self._read(part)[["x", "y"]].to_numpy() for part in ("po", "bg")]
        xy = np.concatenate(places)
        y = np.repeat([1, 0], [len(p) for p in places])
        size = float(np.ptp(xy, axis=0).max()) / BLOCKS
        fold = evaluation.SpatialBlocks(xy, FOLDS, size=size).folds(y)
        return fold[: len(places[0])], fold[len(places[0]) :]

    @cached_property
    def sites(self) -> pd.DataFrame:
        """The predictors of the evaluation sites."""
        return self.variables(self._read("env"))

    @cached_property
    def site_places(self) -> Array:
        """The coordinates of the evaluation sites."""
        return self._read("env")[["x", "y"]].to_numpy()

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """The biological groups."""
        return tuple(sorted(map(str, self.records["group"].unique())))

    @property
    def scored(self) -> bool:
        """Whether the evaluation table is here."""
        return (self.folder / f"{self.name}_pa.parquet").exists()

    def group(self, name: str) -> Group:
        """The training data of one group of species."""
        return Group(self, name, self.records[self.records["group"] == name], self.background)

    def variables(self, table: pd.DataFrame) -> pd.DataFrame:
        """The predictors, continuous ones as numbers."""
        kept = table[list(self.predictors)].reset_index(drop=True)
        numbers = [c for c in self.predictors if c not in self.categorical]
        return kept.astype(dict.fromkeys(numbers, np.float64))

    @cached_property
    def site_blocks(self) -> Array:
        """The block of every evaluation site: cells of a grid, as many as the records have."""
        xy = self.site_places - self.site_places.min(axis=0)
        cell = np.floor(xy * BLOCKS / float(xy.max())).astype(np.int64)
        return np.unique(cell, axis=0, return_inverse=True)[1].ravel()

    def visited(
        self, species: Sequence[str], share: float, seed: int, blocked: bool = False
    ) -> tuple[Array, Array]:
        """A random share of the sites surveyed for species, and who was found there.

        ``blocked``: whole blocks of sites, each that does not go beyond the share, in random order;
        the smallest block where none is small enough.
        """
        seen = _survey(self.folder, self.name)[list(species)]
        inside = np.flatnonzero(seen.notna().all(axis=1))
        size = max(round(share * inside.size), FEWEST)
        rng = np.random.default_rng(seed)
        if blocked:
            rows = inside[_whole_blocks(self.site_blocks[inside], size, rng)]
        else:
            rows = np.sort(rng.choice(inside, size, replace=False))
        return rows, seen.iloc[rows].to_numpy(dtype=np.float64)

    def score(
        self, species: str, score: Array, prediction: Array, without: Array | None = None
    ) -> tuple[float, float]:
        """AUC of ``score`` and correlation of ``prediction`` with the survey at ``sites``.

        ``without`` are rows of sites that a model has seen, which are left out.
        """
        if not self.scored:
            return float("nan"), float("nan")
        seen = _survey(self.folder, self.name)[species]
        inside = seen.notna().to_numpy(copy=True)
        if without is not None:
            inside[without] = False
        found, value = seen[inside].to_numpy(dtype=bool), prediction[inside]
        score = score[inside]
        flat = np.ptp(value) == 0
        correlation = float("nan") if flat else float(np.corrcoef(value, found)[0, 1])
        return evaluation.auc(score[found], score[~found]), correlation

    def _read(self, part: str) -> pd.DataFrame:
        return pd.read_parquet(self.folder / f"{self.name}_{part}.parquet")


@dataclass(frozen=True, eq=False)
class Group:
    """The training data of one group of species, all of it or without the blocks of a fold."""

    region: Region
    name: str
    records: pd.DataFrame
    background: pd.DataFrame
    fold: int | None = None
    made: dict[Any, Any] = field(default_factory=dict)  # what several species share

    @cached_property
    def species(self) -> list[str]:
        return sorted(map(str, self.records["spid"].unique()))

    def without(self, fold: int) -> Group:
        """The training part of a split."""
        kept = (t[t["fold"] != fold] for t in (self.records, self.background))
        return replace(self, records=next(kept), background=next(kept), fold=fold, made={})

    @cached_property
    def places(self) -> pd.DataFrame:
        """The distinct sites with a record of any species: the target-group background."""
        return self.records.drop_duplicates(["x", "y"]).reset_index(drop=True)

    def counts(self, species: str) -> Array:
        """The records of a species at each of ``places``."""
        rows = self.records[self.records["spid"] == species]
        found = rows.groupby(["x", "y"]).size()
        at = pd.MultiIndex.from_frame(self.places[["x", "y"]])
        return found.reindex(at, fill_value=0).to_numpy(dtype=np.float64)

    @cached_property
    def X_places(self) -> pd.DataFrame:
        return self.region.variables(self.places)

    @cached_property
    def X_records(self) -> pd.DataFrame:
        return self.region.variables(self.records)

    @cached_property
    def X_random(self) -> pd.DataFrame:
        return self.region.variables(self.background)

    def random(self, species: str) -> Table:
        """The records of a species, then the random background."""
        return self._stacked(self.records[self.records["spid"] == species])

    def target(self, species: str) -> Table:
        """The target-group background, with the species' records at each site."""
        xy = self.places[["x", "y"]].to_numpy()
        return Table(self.X_places, xy, self.counts(species))

    def pooled(self) -> Table:
        """Every distinct site of the group as one occurrence, then the random background."""
        return self._stacked(self.places)

    def _stacked(self, rows: pd.DataFrame) -> Table:
        both = pd.concat([rows, self.background], ignore_index=True)
        y = np.repeat([1.0, 0.0], [len(rows), len(self.background)])
        return Table(self.region.variables(both), both[["x", "y"]].to_numpy(), y)


def _whole_blocks(block: Array, size: int, rng: np.random.Generator) -> Array:
    """The rows of random blocks that together have ``size`` rows at most."""
    names, sizes = np.unique(block, return_counts=True)
    left, taken = size, []
    for k in rng.permutation(names.size):
        if sizes[k] <= left:
            taken.append(names[k])
            left -= sizes[k]
    return np.flatnonzero(np.isin(block, taken or names[np.argmin(sizes)]))


@lru_cache
def _survey(folder: Path, name: str) -> pd.DataFrame:
    return pd.read_parquet(folder / f"{name}_pa.parquet")


@lru_cache
def region(name: str, folder: Path, reduced: bool = True) -> Region:
    """A region by its name; ``reduced``: the less correlated predictors alone."""
    about = json.loads((folder / "metadata.json").read_text())[name]
    predictors = about["reduced_predictors" if reduced else "predictors"]
    categorical = [c for c in about["categorical"] if c in predictors]
    return Region(name, folder, tuple(predictors), tuple(categorical))


def missing_files(name: str, folder: Path) -> list[str]:
    """What the region needs and lacks; the evaluation table may be absent."""
    needed = ["metadata.json", *(f"{name}_{part}.parquet" for part in ("po", "bg", "env"))]
    return [file for file in needed if not (folder / file).exists()]


def published(folder: Path, species: Sequence[str]) -> Array:
    """AUC of published maxnet (Maitner et al.) on the same surveys, NaN where there is none."""
    path = folder / "published" / "maitner_per_species.csv"
    if not path.exists():
        return np.full(len(species), np.nan)
    table = pd.read_csv(path)
    maxnet = table[table["method"] == "maxnet"].set_index("species")
    return maxnet.reindex(list(species))["pa_AUC"].to_numpy()
