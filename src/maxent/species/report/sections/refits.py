"""Cross-validation and other replicates."""

from __future__ import annotations

from typing import Any

from maxent.species.fitting.results import Replicates
from maxent.species.report import figures, maps
from maxent.species.report.markup import (
    Html,
    count,
    element,
    fixed,
    joined,
    key,
    listed,
    paragraph,
    small,
    table,
)
from maxent.species.report.sections.base import Context, block_figure, figure, mean_sd

_FOLD_COLOURS = 16  # folds that a legend can tell apart
_FOLD_DPI = 115
_KINDS = {
    "blocks": "Spatial cross-validation in blocks",
    "checkerboard": "Spatial cross-validation on a checkerboard",
    "environment": "Cross-validation in groups of like conditions",
    "random": "Cross-validation with random folds",
    "bootstrap": "Bootstrap replicates",
    "subsample": "Subsample replicates",
}
_HOW = {
    "blocks": "The region is cut into blocks of neighbouring records. Each block in turn is kept "
    "from the fit, with its background, and then used to test it: how well does the model do where "
    "it has no data?",
    "checkerboard": "The region is laid out in squares; the records of one set of squares at a "
    "time are kept from the fit, with their background, and then used to test it.",
    "environment": "The records are parted into groups of like conditions (k-means of the "
    "variables). Each group in turn is kept from the fit, with the background in such conditions, "
    "and then used to test it: how well does the model do where conditions are new to it?",
    "random": "The records are dealt to folds at random; each fold in turn is kept from the fit "
    "and then used to test it. Neighbours of a test record may be in the training set, which "
    "flatters the scores.",
    "bootstrap": "The model is fitted again to records drawn with replacement, and tested with the "
    "records that were not drawn.",
    "subsample": "The model is fitted again to a random part of the records and tested with the "
    "others.",
}
_SIZED = (
    "The region is cut into blocks of one size, which are dealt to the folds at random so that "
    "each has about as many records. The blocks of one fold at a time are kept from the fit, with "
    "their background, and then used to test it."
)
_BACKGROUND = (
    "Every AUC and Boyce index here compares records with the whole background, that of the places "
    "left out included, so that training and test scores compare. Their difference is absolute."
)
_REPLICATE = {
    "name": "Replicate",
    "n_train": "Training records",
    "n_test": "Test records",
    "train_auc": "Training AUC",
    "test_auc": "Test AUC",
    "auc_difference": "AUC difference",
    "test_gain": "Test gain",
    "boyce": "Boyce index",
    "omission_minimum": "Omission at minimum training presence",
    "omission_10_percentile": "Omission at 10 percentile",
    "gain": "Gain",
    "gap": "Duality gap",
}


def replicates(context: Context) -> Html | None:
    """Every set of replicates: table, ROC, omission and a map of the folds."""
    parts = [_replicate(context, made) for made in context.result.replicates]
    return joined(parts) if parts else None


def _replicate(context: Context, made: Replicates) -> Html:
    shown = []
    if made.roc:
        shown.append(
            figure(
                figures.replicate_roc(made),
                "Mean ROC curve of the test records, with a band of one standard deviation.",
                "How to read it: the band shows how much the curve depends on which records were "
                "kept for testing.",
            )
        )
    if made.omission:
        shown.append(
            figure(
                figures.replicate_omission(made),
                "Mean omission of the test records against the cumulative threshold, with a band.",
                "How to read it: above the dashed line, more test records are missed than the "
                "model expects: it does not carry over well to the places left out.",
            )
        )
    if made.coordinates is not None and made.fold is not None and len(made.fold):
        shown.append(_fold_map(context, made))
    curves = block_figure(made.blocks)
    if curves is not None:
        shown.append(curves)
    return joined(
        [
            element("h3", _KINDS.get(made.kind, made.kind)),
            paragraph(_HOW.get(made.kind, "") if made.blocks is None else _SIZED),
            _replicate_table(made),
            paragraph(_BACKGROUND, class_="says"),
            element("div", *shown, class_="pair") if shown else None,
        ]
    )


def _replicate_table(made: Replicates) -> Html:
    columns = [name for name in _REPLICATE if any(name in row for row in made.table)]

    def shown(name: str, value: Any) -> str:
        if name == "name":
            return str(value)
        if name in ("n_train", "n_test"):
            return count(value)
        return small(value) if name == "gap" else fixed(value)

    rows = [[shown(name, row.get(name)) for name in columns] for row in made.table]
    statistics = [mean_sd(made, name) for name in columns[1:]]
    foot = []
    if len(made.table) > 1:
        for i, word in enumerate(("mean", "SD")):
            cells = zip(columns[1:], statistics, strict=True)
            foot.append([word, *(_statistic(name, pair[i]) for name, pair in cells)])
    failed = [f"{row['name']}: {row['error']}" for row in made.table if row.get("error")]
    return joined(
        [
            table(
                "Scores of each replicate",
                [_REPLICATE[name] for name in columns],
                rows,
                right=range(1, len(columns)),
                foot=foot,
                class_="wide",
            ),
            element("div", listed(failed), class_="notes") if failed else None,
        ]
    )


def _statistic(name: str, value: float) -> str:
    if name == "gap":
        return small(value)
    return fixed(value, 1 if name in ("n_train", "n_test") else 3)


def _fold_map(context: Context, made: Replicates) -> Html:
    assert made.coordinates is not None
    assert made.fold is not None
    names = {i: str(row["name"]) for i, row in enumerate(made.table)}
    lines = [] if made.blocks is None else made.blocks.edges
    picture, colours = maps.fold_picture(
        made.coordinates, made.fold, names, context.region, _FOLD_DPI, None, lines
    )
    legend = key(colours) if len(colours) <= _FOLD_COLOURS else None
    return figure(
        picture,
        f"Map of the records, coloured by the {len(colours)} folds they belong to.",
        joined(["Which records were tested together.", legend]),
        "map",
    )
