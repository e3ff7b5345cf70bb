"""Tuning on the page: the words of ``maxent tune``, and what its folders hold."""

from __future__ import annotations

import csv
import shlex
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxent import io
from maxent.app.folders import Folders
from maxent.species.batch.slugs import slugs
from maxent.species.fitting.options import options_of, typed
from maxent.species.fitting.settings import Settings
from maxent.species.fitting.tuning_settings import STATISTICS, TAKEN, TuningSettings

if TYPE_CHECKING:
    from maxent.app.draft import Draft

FILE = "tuning.json"  # in every folder of `maxent tune`
_LETTERS = "lqphtck"
_OF_DATA = ("entropy", "select", "keep_duplicates", "minimum", "test_share")  # of a fit alone
_WORDS = ("features", "potential", "statistic", "fold")
_LISTED = 500  # folders in the list
_NAMES = ("features", "potential", "multiplier")


@dataclass(frozen=True)
class TuningChoices(TuningSettings):
    """What is compared, and how.

    >>> TuningChoices(features=("l", "lqx")).words()
    Traceback (most recent call last):
    ValueError: feature classes are letters of lqphtck, got 'lqx'
    """

    features: tuple[str, ...] = ("l", "lq", "lqh", "lqph")
    multipliers: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0)

    def words(self) -> list[str]:
        """The options of ``maxent tune``; refused where nothing would be compared."""
        if not self.features:
            raise ValueError("choose feature classes to compare")
        for letters in self.features:
            if not letters or not set(letters) <= set(_LETTERS):
                raise ValueError(f"feature classes are letters of {_LETTERS}, got {letters!r}")
        if not self.multipliers:
            raise ValueError("give multipliers to compare, such as 0.5, 1, 2, 4")
        if not all(value > 0 for value in self.multipliers):
            raise ValueError("multipliers are numbers above 0")
        numbers = ",".join(f"{value:.15g}" for value in self.multipliers)
        return ["-f", ",".join(self.features), "-m", numbers, *typed(self)]


def tune_words(draft: Draft, out: str) -> list[str]:
    """The words of ``maxent tune`` for the choices of the page."""
    settings = draft.fit_settings()
    shared = replace(Settings(), **{name: getattr(settings, name) for name in TAKEN})
    words = ["tune", *draft.data_words(), *typed(shared)]
    return [*words, *TuningChoices(**draft.tuning).words(), "-o", out]


def describe_draft(draft: Draft) -> dict[str, Any]:
    """The command of a comparison or what it lacks, and what it will not take into account."""
    said: dict[str, Any] = {"command": "", "lacks": "", "notes": []}
    try:
        said["command"] = shlex.join(["maxent", *tune_words(draft, f"{draft.out}-tuning")])
    except (ValueError, TypeError) as error:
        said["lacks"] = str(error)
        return said
    settings, usual = draft.fit_settings(), Settings()
    alone = [name for name in _OF_DATA if getattr(settings, name) != getattr(usual, name)]
    if alone:
        named = ", ".join(options_of(Settings)[name].flag(name) for name in alone)
        said["notes"] = [f"Settings are compared without {named}, which a fit alone knows."]
    if draft.surveys or draft.counts:
        said["notes"].append(
            "Settings are compared by presences alone, without surveys and counts."
        )
    return said


def chosen_candidate(draft: Draft, species: str, row: dict[str, Any], out: str) -> Draft:
    """The draft of a comparison with the settings of one of its candidates."""
    settings = {**draft.settings, **{name: row[name] for name in _NAMES}}
    return draft.changed({"settings": settings, "species": [species], "out": out})


# -- what its folders hold -------------------------------------------------------------------------


def listed(folders: Folders) -> list[dict[str, Any]]:
    """The folders of comparisons, the latest first."""
    found = []
    for folder in folders.holding(FILE)[:_LISTED]:
        written = (folder / FILE).stat().st_mtime
        names = list(_best(folder, written))
        if names:
            found.append({"tuning": folders.name(folder), "written": written, "species": names})
    return found


@lru_cache(maxsize=_LISTED)
def _best(folder: Path, written: float) -> dict[str, Any]:
    """What was chosen for each species; nothing where the file is not as maxent writes it."""
    try:
        held = io.load(folder / FILE)
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    named = isinstance(held, dict) and all(isinstance(name, str) for name in held)
    return held if named else {}


def find_tuning(folders: Folders, name: str) -> tuple[Path, dict[str, str]]:
    """The folder of a comparison, and the names of its files by species."""
    folder = folders.find(name)
    path = folders.find(str(folder / FILE))
    if not path.is_file():
        raise FileNotFoundError(f"{name!r} holds no comparison of `maxent tune`")
    return folder, slugs(_best(folder, path.stat().st_mtime))


def candidate(folders: Folders, name: str, species: str, rank: int) -> dict[str, Any]:
    """A row of a comparison."""
    folder, files = find_tuning(folders, name)
    rows = _rows(folders, folder / f"{files.get(species, '')}_tuning.csv")
    found = [row for row in rows if row.get("rank") == rank]
    if not found:
        raise FileNotFoundError(f"{name!r} has no candidate {rank} of {species!r}")
    return found[0]


def describe(folders: Folders, name: str) -> list[dict[str, Any]]:
    """Everything of a comparison, species by species."""
    folder, files = find_tuning(folders, name)
    told = []
    for species, slug in files.items():
        start = folder / slug
        rows = _rows(folders, Path(f"{start}_tuning.csv"))
        report = Path(f"{start}_tuning.html")
        places = _rows(folders, Path(f"{start}_partition.csv"))
        told.append(
            {
                "species": species,
                "columns": _columns(rows),
                "rows": rows,
                "folds": _rows(folders, Path(f"{start}_folds.csv")),
                "places": {k: [place[k] for place in places] for k in ("x", "y", "fold")},
                "nulls": _rows(folders, Path(f"{start}_null_models.csv")),
                "null_test": _rows(folders, Path(f"{start}_null_test.csv")),
                "report": folders.name(report) if report.is_file() else None,
            }
        )
    return told


def _columns(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The statistics of a table: their headings, what they say, and which way is better."""
    from maxent.species.report.tuning import COLUMNS, PLOTTED

    better = dict(STATISTICS.values())
    known = [name for name in COLUMNS if rows and name in rows[0]]
    if {row.get("potential") for row in rows} == {"box"}:
        known.remove("potential")
    return [
        {
            "name": name,
            "title": COLUMNS[name][0],
            "says": COLUMNS[name][1],
            "better": better.get(name, 0),
            "plotted": name in PLOTTED,
        }
        for name in known
    ]


def _rows(folders: Folders, path: Path) -> list[dict[str, Any]]:
    """A table with numbers as numbers; none where there is no such file."""
    from maxent.species.report.tables.text import number_or_text

    if not folders.find(str(path)).is_file():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return [
            {k: v if k in _WORDS else number_or_text(v) for k, v in row.items() if k is not None}
            for row in csv.DictReader(file)
        ]
