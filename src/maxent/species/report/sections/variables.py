"""What the variables do: response curves, contributions and jackknife."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxent.species.fitting.results import Response, SpeciesResult
from maxent.species.report import figures
from maxent.species.report.markup import (
    PERCENT,
    Html,
    bar,
    element,
    fixed,
    joined,
    key,
    paragraph,
    plain,
    table,
)
from maxent.species.report.sections.base import Context, figure

_METHODS = {
    "laplace": "from the curvature of the fitted problem, given the features in use.",
    "bootstrap": "from the spread of refits to blocks of records drawn with replacement.",
}
_JACKKNIFE = {
    "train_gain": "Regularized training gain",
    "test_gain": "Test gain",
    "auc": "Training AUC",
    "test_auc": "Test AUC",
}


def responses(context: Context) -> Html | None:
    """Marginal and single-variable curves of each variable."""
    by_variable: dict[str, dict[str, Response]] = {}
    for response in context.result.responses:
        by_variable.setdefault(response.variable, {})[response.kind] = response
    if not by_variable:
        return None
    sheet = figures.ResponseFigure()
    curves, bars = [], []
    for variable, kinds in by_variable.items():
        if any(response.categorical for response in kinds.values()):
            bars.append(_level_bars(variable, kinds))
        else:
            alt = f"Response of suitability to {variable}: {' and '.join(kinds)} curve."
            picture = sheet.draw(kinds)
            curves.append(figure(picture, alt, element("strong", variable), "curve"))
    told = context.result.model.uncertainty
    banded = any(r.low is not None for r in context.result.responses)
    band = (
        f" The bands hold 90{PERCENT} of the curves of refits to resampled "
        "records; where few records decide, the curve itself may lie outside."
        if banded
        else ""
    )
    if told is not None:
        band = (
            f" The bands of the left curves are intervals of 90{PERCENT} " + _METHODS[told.method]
        )
        single = any(r.low is not None for r in context.result.responses if r.kind == "single")
        band += (
            f" Those on the right hold 90{PERCENT} of the curves of refits to resampled records."
            if single
            else ""
        )
    return joined(
        [
            paragraph(
                "How suitability changes along each variable. Left: all other variables stay at "
                "their mean over the records (categories at the commonest). Right: a model of this "
                "variable alone." + band
            ),
            paragraph(
                "How to read them: where variables are correlated, the left curves can mislead, as "
                "they move one variable while its companions stand still, which may happen nowhere "
                "on the map. The right curves show what the variable says together with all that "
                "goes along with it.",
                class_="says",
            ),
            element("div", *curves, class_="pair curves") if curves else None,
            *bars,
        ]
    )


def _level_bars(variable: str, kinds: dict[str, Response]) -> Html:
    order = [kind for kind in ("marginal", "single") if kind in kinds]
    levels = kinds[order[0]].x
    head = [variable]
    rows: list[list[Any]] = [[plain(level)] for level in levels]
    for kind, colour in zip(order, ("main", "second"), strict=False):
        response = kinds[kind]
        head += [{"marginal": "Others at their mean", "single": "This variable alone"}[kind], ""]
        for i, row in enumerate(rows):
            band = None
            said = fixed(response.y[i])
            if response.low is not None and response.high is not None:
                band = float(response.low[i]), float(response.high[i])
                said = f"{said} ({fixed(band[0])} to {fixed(band[1])})"
            row += [bar(float(response.y[i]), (0, 1), colour, band), said]
    caption = f"Suitability by category of {variable}"
    right = range(2, len(head), 2)
    return table(caption, head, rows, right=right, class_="bars wide")


def contributions(context: Context) -> Html | None:
    """Percent contribution and permutation importance."""
    importance = context.result.importance
    if importance is None:
        return None
    order = np.argsort(-importance.contribution, kind="stable")
    least = float(importance.contribution.min(initial=0.0))
    most = float(importance.contribution.max(initial=0.0)) or 1.0
    spread = importance.permutation + importance.permutation_sd
    widest = float(np.nanmax(np.append(spread, importance.permutation), initial=0.0)) or 1.0
    rows = []
    for i in order:
        mean, sd = float(importance.permutation[i]), float(importance.permutation_sd[i])
        rows.append(
            [
                importance.variables[i],
                bar(float(importance.contribution[i]), (least, most), "main"),
                fixed(importance.contribution[i], 1),
                bar(mean, (0, widest), "second", (max(mean - sd, 0), mean + sd)),
                f"{fixed(mean, 1)} ± {fixed(sd, 1)}",
                f"{fixed(importance.auc_drop[i], 4)} ± {fixed(importance.auc_drop_sd[i], 4)}",
            ]
        )
    head = ["Variable", "Percent contribution", "", "Permutation importance", "", "Drop of AUC"]
    contribution = (
        "Percent contribution is the variable's share of the gain of the fitted model, followed "
        "from no effect to the full weights; it depends on the fitted weights only, not on the "
        "steps of a solver (and so differs from the numbers of other programs). The numbers add up "
        f"to 100{PERCENT} of the unregularized gain."
    )
    if least < 0:
        contribution += (
            " A negative one belongs to a variable whose weights only make up for those of others; "
            "it makes the others' larger."
        )
    permutation = (
        "Permutation importance shuffles the values of one variable among records and background "
        "and looks at the drop of the training AUC, as percent of all drops, ± SD over repeated "
        "shuffles."
    )
    caveat = (
        "Caution: where variables are correlated, either number can credit one and leave the other "
        "with little. A small number means that the model does not need the variable, not that "
        "the species does not."
    )
    return joined(
        [
            paragraph(contribution),
            paragraph(permutation),
            table("Variables by contribution", head, rows, right=[2, 4, 5], class_="bars wide"),
            paragraph(caveat, class_="says"),
        ]
    )


def jackknife(context: Context) -> Html | None:
    """Every variable alone and left out."""
    refits = context.result.jackknife
    if refits is None or not refits.variables:
        return None
    shown = [name for name in _JACKKNIFE if name in refits.scores]
    return joined(
        [
            paragraph(
                "The model fitted with one variable alone, and with all but one. How to read it: a "
                "long dark bar means that the variable is useful on its own; a pale bar that falls "
                "short of the dashed line (all variables) means that it knows something the others "
                "do not."
            ),
            _best_variables(context.result),
            key(
                [
                    ("var(--accent)", "with only this variable"),
                    ("var(--pale)", "without it"),
                    ("#475569", "with all variables"),
                ]
            ),
            element(
                "div",
                *(_jackknife_chart(refits.variables, name, refits.scores[name]) for name in shown),
                class_="pair",
            ),
        ]
    )


def _best_variables(result: SpeciesResult) -> Html | None:
    refits = result.jackknife
    assert refits is not None
    scores = refits.scores.get("train_gain")
    if scores is None:
        return None
    only, without = (np.asarray(scores[name], dtype=float) for name in ("only", "without"))
    best, missed = int(np.nanargmax(only)), int(np.nanargmin(without))
    return paragraph(
        "The variable with the highest training gain on its own is ",
        element("strong", refits.variables[best]),
        f" ({fixed(only[best])}): it has the most useful information by itself. The one whose "
        "absence lowers the gain most is ",
        element("strong", refits.variables[missed]),
        f" (from {fixed(scores['all'])} to {fixed(without[missed])}): it has the most information "
        "that the others do not have.",
    )


def _jackknife_chart(variables: Sequence[str], name: str, scores: dict[str, Any]) -> Html:
    only, without = (np.asarray(scores[part], dtype=float) for part in ("only", "without"))
    whole = float(scores["all"])
    values = np.concatenate([only, without, [whole]])
    values = values[np.isfinite(values)]
    start = 0.5 if name.endswith("auc") else 0.0
    low = min(start, float(values.min(initial=start)))
    scale = (low, max(float(values.max(initial=start)), low + 1e-9))
    rows = [
        [
            variable,
            joined(
                [
                    bar(float(only[i]), scale, "main", mark=whole),
                    bar(float(without[i]), scale, "pale", mark=whole),
                ]
            ),
            fixed(only[i]),
            fixed(without[i]),
        ]
        for i, variable in enumerate(variables)
    ]
    foot = [["all", bar(whole, scale, "all"), fixed(whole), ""]]
    caption = _JACKKNIFE[name] + (f" (bars start at {fixed(low, 2)})" if low else "")
    head = ["Variable", "", "Only", "Without"]
    return table(caption, head, rows, right=[2, 3], foot=foot, class_="bars")
