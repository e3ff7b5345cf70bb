"""Variables that say the same: correlations, variance inflation, and which were left out."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxent.species.fitting.results import Collinearity, Selection
from maxent.species.report.markup import Html, bar, element, fixed, joined, paragraph, table
from maxent.species.report.sections.base import Context

_STRONG = 0.7  # a usual limit of correlation
_LARGE = 10.0  # and of variance inflation
_LONGEST = 30.0  # where bars end: beyond it the size says no more
_MATRIX = 20  # variables whose correlations are all shown


def collinearity(context: Context) -> Html | None:
    """Correlations and VIF of all variables given, and the selection among them."""
    found, selection = context.result.collinearity, context.result.selection
    if found is None or len(found.variables) < 2:
        return None if selection is None else _selection(selection)
    return joined(
        [
            paragraph(
                "How much the variables say the same, over the background. How to read it: the "
                "variance inflation factor (VIF) of a variable is 1 where the others know nothing "
                f"of it, and above {_LARGE:g} they could nearly stand in for it: the penalty copes "
                "with that, but response curves and importance then depend on which of them the "
                "fit happens to use, and a projection on their staying together."
            ),
            _vif(found),
            _correlations(found),
            None if selection is None else _selection(selection),
        ]
    )


def _vif(found: Collinearity) -> Html:
    strength = np.abs(found.correlation - np.eye(len(found.variables)))
    order = np.argsort(-found.vif, kind="stable")
    rows = []
    for i in order:
        partner = int(np.argmax(strength[i]))
        rows.append(
            [
                found.variables[i],
                bar(min(float(found.vif[i]), _LONGEST), (1, _LONGEST), "main"),
                "infinite" if np.isinf(found.vif[i]) else fixed(found.vif[i], 1),
                f"{found.variables[partner]} ({fixed(found.correlation[i, partner], 2)})",
            ]
        )
    head = ["Variable", "Variance inflation factor", "", "Most correlated with"]
    return table(
        f"Variance inflation of all variables given (bars end at {_LONGEST:g})",
        head,
        rows,
        right=[2],
        class_="bars",
    )


def _correlations(found: Collinearity) -> Html | None:
    names = found.variables
    if len(names) <= _MATRIX:
        rows: list[list[Any]] = [
            [name, *(_strong(found.correlation[i, j]) if j < i else "" for j in range(len(names)))]
            for i, name in enumerate(names)
        ]
        right = range(1, len(names) + 1)
        return table("Correlations", ["", *names], rows, right=right, class_="wide")
    pairs = [
        (abs(found.correlation[i, j]), names[i], names[j], fixed(found.correlation[i, j], 2))
        for i in range(len(names))
        for j in range(i)
        if abs(found.correlation[i, j]) >= _STRONG
    ]
    if not pairs:
        return paragraph(f"No two variables have a correlation of {_STRONG:g} or more.")
    rows = [list(pair[1:]) for pair in sorted(pairs, reverse=True)]
    head = ["Variable", "And", "Correlation"]
    return table(f"Correlations of {_STRONG:g} or more", head, rows, right=[2])


def _strong(value: float) -> Any:
    shown = fixed(value, 2)
    return element("strong", shown) if abs(value) >= _STRONG else shown


def _selection(selection: Selection) -> Html:
    rows: list[list[Any]] = []
    gains = {step["variable"]: step["test_gain"] for step in selection.steps}
    for name in [*gains, *(n for n in selection.kept if n not in gains)]:
        why = f"held-out gain {fixed(gains[name], 4)} once it was added" if name in gains else ""
        rows.append([name, "used", why])
    rows += [[name, "left out", why] for name, why in selection.dropped.items()]
    says = f"Selected by {selection.rule}: {len(selection.kept)} of {len(rows)} variables are used."
    return joined(
        [
            paragraph(says),
            table("Selection of variables", ["Variable", "", "Why"], rows, class_="settings"),
        ]
    )
