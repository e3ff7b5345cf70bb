"""The page of a comparison of settings: what was chosen, how, and all that was tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maxent.io import write_atomically
from maxent.rows.arrays import Array
from maxent.species.fitting.results import BlockSize
from maxent.species.fitting.tuning_settings import TuningSettings
from maxent.species.report import figures, maps
from maxent.species.report.markup import (
    Html,
    count,
    document,
    element,
    fixed,
    heading,
    joined,
    key,
    link,
    listed,
    paragraph,
    probability,
    table,
    tiles,
)
from maxent.species.report.page import POLICY, section
from maxent.species.report.sections.base import block_figure, figure
from maxent.species.study.study_region import StudyRegion

# column of the table: its heading, what it says, and how it is written
COLUMNS: dict[str, tuple[str, str, Callable[[Any], str]]] = {
    "rank": ("Rank", "", count),
    "features": ("Features", "", str),
    "potential": ("Potential", "", str),
    "multiplier": ("Multiplier", "", count),
    "n_weights": ("Weights", "that are not 0, of the fit to all records", count),
    "train_auc": ("AUC, training", "of the fit to all records", fixed),
    "test_auc": ("AUC, test", "of held-out records", fixed),
    "auc_difference": (
        "AUC difference",
        "absolute, of training and test records of a fold: how much the fit depends on its records",
        fixed,
    ),
    "test_log_density": (
        "Log density, test",
        "mean log of the density at held-out records, normalised over all points",
        fixed,
    ),
    "train_boyce": ("Boyce, training", "continuous Boyce index of the fit to all records", fixed),
    "test_boyce": ("Boyce, test", "of held-out records", fixed),
    "omission_minimum": (
        "Omission, minimum",
        "held-out records below the least training record; 0 is expected",
        fixed,
    ),
    "omission_10_percentile": (
        "Omission, 10 %",
        "held-out records below the tenth of the training records that is lowest; 0.1 is expected",
        fixed,
    ),
    "partial_roc": (
        "Partial ROC",
        "partial AUC over that of a random map, where omission is low; above 1 beats it",
        fixed,
    ),
    "partial_roc_p": (
        "Partial ROC, p",
        "share of resamples with a ratio of 1 or less, counting the map itself as one",
        probability,
    ),
    "aicc": ("AICc", "of the fit to all records, over all cells of the study area", fixed),
    "delta_aicc": ("ΔAICc", "above the least one", fixed),
    "aicc_weight": ("AICc weight", "evidence for each, of all with an AICc", fixed),
    "weighted_score": ("Weighted score", "what chose", fixed),
}
PLOTTED = (
    *("test_log_density", "test_auc", "auc_difference", "test_boyce", "omission_minimum"),
    *("omission_10_percentile", "partial_roc", "delta_aicc", "n_weights"),
)
_TILES = ("test_auc", "omission_10_percentile", "test_boyce", "delta_aicc", "n_weights")
_KINDS = {
    "blocks": "Blocks of equal numbers of records; the background of a block is held out with it.",
    "checkerboard": "Squares of a checkerboard; their background is held out with them.",
    "checkerboard2": "Squares of two checkerboards, one within the other; their background is held "
    "out with them.",
    "environment": "Groups of records in like conditions, by k-means of the variables; the "
    "background in conditions like those of a group is held out with it.",
    "random": "Records dealt to folds at random; all background is in every fit.",
    "jackknife": "Every record held out alone; all background is in every fit.",
    "column": "Folds by a column of the records; all background is in every fit.",
}
_SIZED = (
    "Blocks of one size, dealt to the folds at random so that each has about as many records; the "
    "background of a block is held out with it."
)
_FOLD_COLOURS = 16  # folds that a legend can tell apart


@dataclass(frozen=True, eq=False)
class TuningPage:
    """What the page shows; ``rows`` are best first, ``coordinates`` and ``fold`` of the records."""

    species: str
    rows: list[dict[str, Any]]
    settings: TuningSettings
    folds: list[str]
    coordinates: Array
    crs: str | None
    fold: Array
    study: StudyRegion | None
    blocks: BlockSize | None
    null_rows: list[dict[str, float]]
    null_table: list[dict[str, Any]]
    notes: list[str]
    advice: str
    command: str
    created: str
    version: str

    @property
    def columns(self) -> list[str]:
        """The columns of the table that are in use."""
        best = self.rows[0]
        known = [name for name in COLUMNS if name in best]
        if {row["potential"] for row in self.rows} == {"box"}:
            known.remove("potential")
        return known


def write_tuning_report(page: TuningPage, path: Path, files: Sequence[str]) -> Path:
    """Write the page; ``files`` are the tables beside it. It needs no network and no other file."""
    with figures.drawing():
        made = [
            ("chosen", "Chosen settings", _chosen(page)),
            ("statistics", "Statistics along the multiplier", _plots(page)),
            ("candidates", "All candidates", _table(page)),
            ("folds", "Folds", _folds(page)),
            ("nulls", "Null models", _nulls(page)),
            ("files", "Files and command", _foot(page, files)),
        ]
    shown = [(id_, title, content) for id_, title, content in made if content is not None]
    kind = "Settings of a species distribution model"
    head = heading(kind, page.species, page.created, page.version)
    body = joined([head, element("main", *(section(*part) for part in shown))], "\n")
    write_atomically(path, document(f"{page.species}: tuning", body, POLICY))
    return path


def _chosen(page: TuningPage) -> Html:
    best = page.rows[0]
    candidates, folds = len(page.rows), len(page.folds)
    shown = [
        ("Features", best["features"], "linear, quadratic, product, threshold, hinge, categories"),
        ("Multiplier", f"{best['multiplier']:g}", f"best of {candidates} candidates"),
    ]
    for name in _TILES:
        title, says, written = COLUMNS[name]
        value = written(best[name])
        sd = best.get(f"{name}_sd")
        if sd is not None and np.isfinite(sd):
            says = f"± {fixed(sd)} over {folds} folds; {says}"
        shown.append((title, value, says))
    notes = element("div", element("h3", "Notes"), listed(page.notes), class_="notes")
    return joined(
        [
            tiles(shown),
            paragraph(_rule(page.settings)),
            notes if page.notes else None,
            element("h3", "To fit it"),
            element("pre", element("code", page.advice, id="advice")),
            Html('<button type="button" data-copy="advice" hidden>Copy</button>'),
        ]
    )


def _rule(settings: TuningSettings) -> str:
    how, parts = settings.rule()
    if how == "weighted":
        words = ", ".join(f"{weight:g} × {_title(name)}" for name, _, weight in parts)
        return (
            f"Chosen by the weighted mean of {words}; each statistic is scaled to 1 for its best "
            "and 0 for its worst candidate."
        )
    words = ", then ".join(
        f"the {'highest' if sign > 0 else 'lowest'} {_title(name)}" for name, sign, _ in parts
    )
    return f"Chosen by {words}; of equal candidates the one with fewer weights."


def _title(name: str) -> str:
    title = COLUMNS[name][0]
    return title if title.split(",")[0].isupper() else title[0].lower() + title[1:]


def _plots(page: TuningPage) -> Html:
    shown = []
    for name in PLOTTED:
        if name not in page.columns or not any(np.isfinite(row[name]) for row in page.rows):
            continue
        title, says, _ = COLUMNS[name]
        picture = figures.along_multipliers(page.rows, name, title)
        alt = f"{title} of every candidate against its multiplier, one line per set of features."
        shown.append(figure(picture, alt, joined([element("strong", f"{title}: "), f"{says}."])))
    bars = "Bars are standard errors over the folds; the circle is the chosen candidate."
    return joined([paragraph(bars), element("div", *shown, class_="pair")])


def _table(page: TuningPage) -> Html:
    rows = []
    for row in page.rows:
        cells = []
        for name in page.columns:
            value = COLUMNS[name][2](row[name])
            sd = row.get(f"{name}_sd")
            title = None if sd is None or not np.isfinite(sd) else f"± {sd:.4g} over folds"
            cells.append(value if title is None else element("span", value, title=title))
        rows.append(cells)
    words = ("features", "potential")
    right = [i for i, name in enumerate(page.columns) if name not in words]
    head = [element("span", COLUMNS[n][0], title=COLUMNS[n][1] or None) for n in page.columns]
    caption = "Candidates, best first; click on a heading to sort"
    return table(caption, head, rows, right=right, class_="sortable wide")


def _folds(page: TuningPage) -> Html:
    kind = "column" if page.settings.column is not None else page.settings.partition
    against = "all background"
    if page.settings.validation == "partition":
        against = "the background of its own part of the map"
    names = dict(enumerate(page.folds))
    lines = [] if page.blocks is None else page.blocks.edges
    picture, colours = maps.fold_picture(
        page.coordinates, page.fold, names, None, 115, page.study, lines, page.crs
    )
    legend = key(colours) if len(colours) <= _FOLD_COLOURS else None
    sizes = np.bincount(page.fold, minlength=len(page.folds))
    caption = joined(
        [
            f"{len(page.fold)} cells with records in {len(page.folds)} folds of {sizes.min()} to "
            f"{sizes.max()}.",
            legend,
        ]
    )
    alt = f"The records in the colours of {len(page.folds)} folds."
    how = _KINDS[kind] if page.blocks is None else _SIZED
    says = f"{how} A held-out record is compared with {against}."
    shown = figure(picture, alt, caption, "map")
    curves = block_figure(page.blocks)
    if curves is not None:
        shown = element("div", shown, curves, class_="pair")
    return joined([paragraph(says), shown])


def _nulls(page: TuningPage) -> Html | None:
    if not page.null_table:
        return None
    head = ["Statistic", "Chosen model", "Null mean", "Null SD", "z", "p", "Share as good"]
    rows = [
        [
            COLUMNS[row["statistic"]][0],
            *(fixed(row[name]) for name in ("value", "null_mean", "null_sd")),
            fixed(row["z"], 2),
            probability(row["p_value"]),
            probability(row["share_as_good"]),
        ]
        for row in page.null_table
    ]
    n = len(page.null_rows)
    says = (
        f"The chosen settings fitted {n} times to as many places drawn at random from the "
        "background, and tested with the real records. z is the distance of the model from their "
        "mean in standard deviations, p its one-sided probability under a normal distribution; the "
        "share as good counts the model itself."
    )
    shown = []
    for row in page.null_table:
        name, values = row["statistic"], [one[row["statistic"]] for one in page.null_rows]
        known = [value for value in values if np.isfinite(value)]
        if known and np.isfinite(row["value"]):
            title = COLUMNS[name][0]
            picture = figures.null_histogram(known, row["value"], title)
            alt = f"Histogram of {title} of the null models, and a line at that of the model."
            shown.append(figure(picture, alt, element("strong", title)))
    numbers = table("The model beside null models", head, rows, right=range(1, 7), class_="wide")
    return joined([paragraph(says), numbers, element("div", *shown, class_="pair")])


def _foot(page: TuningPage, files: Sequence[str]) -> Html:
    parts = [listed(link(name) for name in files)]
    if page.command:
        parts += [
            element("h3", "To repeat this comparison"),
            element("pre", element("code", page.command, id="command")),
            Html('<button type="button" data-copy="command" hidden>Copy</button>'),
        ]
    return joined(parts)
