"""The NCEAS presence-only benchmark (Elith et al. 2020): tables of a region, species by species.

Presence-absence tables are opened by :meth:`Region.score` alone; nothing else here sees them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from maxent import evaluation

Array = NDArray[np.float64]

REGIONS = ("AWT", "CAN", "NSW", "NZ", "SA", "SWI")
# the evaluation surveys of New South Wales, merged to the biological groups of Phillips et al. 2009
_MERGED = {
    "NSW": {
        "ba": "bats",
        "db": "birds",
        "nb": "birds",
        "ot": "plants",
        "ou": "plants",
        "rt": "plants",
        "ru": "plants",
        "sr": "reptiles",
    }
}


def default_folder() -> Path:
    """$MAXENT_DATA/nceas, or ../shared/data/nceas beside the checkout."""
    shared = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("MAXENT_DATA", shared)) / "nceas"


@dataclass(frozen=True)
class Table:
    """Rows to fit: predictors, coordinates and occurrences (0: background)."""

    X: pd.DataFrame
    xy: Array
    y: Array

    def take(self, rows: NDArray[np.int64]) -> Table:
        return Table(self.X.iloc[rows].reset_index(drop=True), self.xy[rows], self.y[rows])


@dataclass(frozen=True)
class Region:
    """One region: training tables, environment of the evaluation sites, groups of species."""

    name: str
    folder: Path
    predictors: tuple[str, ...]
    categorical: tuple[str, ...]

    @cached_property
    def records(self) -> pd.DataFrame:
        """All occurrence records, with the biological group of the species."""
        table = pd.read_parquet(self.folder / f"{self.name}_po.parquet")
        table["group"] = table["group"].replace(_MERGED.get(self.name, {}))
        return table

    @cached_property
    def background(self) -> pd.DataFrame:
        """The 10,000 random sites."""
        return pd.read_parquet(self.folder / f"{self.name}_bg.parquet")

    @cached_property
    def sites(self) -> pd.DataFrame:
        """The predictors of the evaluation sites."""
        return self.variables(pd.read_parquet(self.folder / f"{self.name}_env.parquet"))

    @cached_property
    def groups(self) -> dict[str, list[str]]:
        """The species of each group."""
        found = self.records.groupby("group")["spid"].unique()
        return {str(group): sorted(map(str, species)) for group, species in found.items()}

    @property
    def scored(self) -> bool:
        """Whether the evaluation table is here."""
        return (self.folder / f"{self.name}_pa.parquet").exists()

    def variables(self, table: pd.DataFrame) -> pd.DataFrame:
        """The predictors, continuous ones as numbers."""
        kept = table[list(self.predictors)].reset_index(drop=True)
        numbers = [c for c in self.predictors if c not in self.categorical]
        return kept.astype(dict.fromkeys(numbers, np.float64))

    def presences(self, species: str) -> pd.DataFrame:
        return self.records[self.records["spid"] == species]

    def random(self, species: str) -> Table:
        """The records of a species, then the random background."""
        rows = self.presences(species)
        return self._stacked(rows, self.background, np.ones(len(rows)))

    def target_sites(self, group: str) -> pd.DataFrame:
        """The distinct sites with a record of any species of the group."""
        records = self.records[self.records["group"] == group]
        return records.drop_duplicates(["x", "y"]).reset_index(drop=True)

    def target_group(self, species: str) -> Table:
        """The distinct sites of the species' group, with the species' records at each."""
        rows = self.presences(species)
        sites = self.target_sites(str(rows["group"].iloc[0]))
        counts = rows.groupby(["x", "y"]).size()
        places = pd.MultiIndex.from_frame(sites[["x", "y"]])
        y = counts.reindex(places, fill_value=0).to_numpy(dtype=np.float64)
        return Table(self.variables(sites), sites[["x", "y"]].to_numpy(), y)

    def pooled(self, group: str) -> Table:
        """Every distinct site of the group as an occurrence, then the random background."""
        sites = self.target_sites(group)
        return self._stacked(sites, self.background, np.ones(len(sites)))

    def _stacked(self, rows: pd.DataFrame, background: pd.DataFrame, counts: Array) -> Table:
        both = pd.concat([rows, background], ignore_index=True)
        y = np.concatenate([counts, np.zeros(len(background))])
        return Table(self.variables(both), both[["x", "y"]].to_numpy(), y)

    def score(self, species: str, prediction: Array) -> tuple[float, float]:
        """AUC and correlation of predictions at ``sites`` with the survey; NaN without one."""
        if not self.scored:
            return float("nan"), float("nan")
        seen = _survey(self.folder, self.name)[species]
        inside = seen.notna().to_numpy()
        found, value = seen[inside].to_numpy(dtype=bool), prediction[inside]
        flat = np.ptp(value) == 0
        correlation = float("nan") if flat else float(np.corrcoef(value, found)[0, 1])
        return evaluation.auc(value[found], value[~found]), correlation


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


def published(folder: Path, species: Sequence[str]) -> pd.DataFrame:
    """AUC and correlation of published maxnet (Maitner et al.), NaN where there is none."""
    table = pd.read_csv(folder / "published" / "maitner_per_species.csv")
    maxnet = table[table["method"] == "maxnet"].set_index("species")
    return maxnet.reindex(species)[["pa_AUC", "pa_correlation"]]
