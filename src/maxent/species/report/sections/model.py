"""The fitted model and how to fit it again."""

from __future__ import annotations

from typing import Any

from maxent.features.kernel import KernelFeatures
from maxent.features.letters import LETTERS
from maxent.species.fitting.results import SpeciesResult
from maxent.species.report.markup import (
    Html,
    bar,
    count,
    element,
    fixed,
    joined,
    link,
    paragraph,
    plain,
    small,
    table,
)
from maxent.species.report.sections.base import Context

_TOP_FEATURES = 30


def model(context: Context) -> Html:
    """Weights, certificate, settings, files and the command."""
    result = context.result
    return joined(
        [
            _fit_table(result),
            _feature_table(result),
            _layer_table(result),
            _plain_table("Settings", "Setting", "Value", _settings(result))
            if result.settings
            else None,
            _seconds(result),
            _data_files(result),
            _command(result.command),
        ]
    )


def _settings(result: SpeciesResult) -> dict[str, Any]:
    """The settings, and where the background was drawn from: that is asked for beside them."""
    if result.grid is None:
        return result.settings
    where = "all of the layers" if result.study is None else result.study.in_words()
    return {**result.settings, "study region": where}


def _fit_table(result: SpeciesResult) -> Html:
    fitted, told = result.model, result.model.certificate
    kinds = fitted.kinds.tolist()
    in_use = ", ".join(
        f"{kinds.count(letter)} {known.name}"
        for letter, known in LETTERS.items()
        if letter in kinds
    )
    rows: dict[str, Any] = {
        "Features in use": f"{count(len(kinds))} of {count(fitted.n_features)}"
        + (f" ({in_use})" if in_use else "")
    }
    asked = result.settings
    if "features" in asked:
        rows["Feature classes asked for"] = plain(asked["features"])
    if {"potential", "multiplier"} <= asked.keys():
        rows["Regularization"] = (
            f"{plain(asked['potential'])}, multiplier {plain(asked['multiplier'])}, penalties by "
            f"the tables of {asked.get('preset') or 'maxent'}"
        )
    for operator in fitted.operators:
        if isinstance(operator, KernelFeatures):
            rows[operator.name.capitalize()] = (
                f"{count(operator.n_landmarks)} landmarks stand for all cells; of the variance "
                f"of a cell under the kernel they miss {small(operator.residual_mean, 1)} on "
                f"average and {small(operator.residual_max, 1)} at most"
            )
    if told.parts:
        rows |= {
            "Gain": f"{fixed(told.unregularized_gain, 4)}, unregularized: a mean of two log "
            "densities is the optimum of no problem itself",
            "Its own part": told.parts[0].describe(),
            "The part of the other species": told.parts[1].describe(),
        }
    elif told.status is not None:
        rows |= {
            "Regularized gain": fixed(told.gain, 4),
            "Unregularized gain": fixed(told.unregularized_gain, 4),
            "Solver": f"{told.status.value} after {count(told.n_iter)} iterations",
            "Duality gap": f"{small(max(told.gap, 0.0), 1)}: the objective is at most this far "
            "from the optimum, so another solver could not do better by more",
        }
    if result.bound:
        rows["Guarantee"] = result.bound
    return _plain_table("The fit", "", "", rows)


def _feature_table(result: SpeciesResult) -> Html | None:
    weights = result.model.coef
    if not weights:
        return None
    betas = dict(zip(weights, result.model.beta.tolist(), strict=True))
    order = sorted(weights, key=lambda name: -abs(weights[name]))[:_TOP_FEATURES]
    most = abs(weights[order[0]])
    rows = [
        [
            element("code", name),
            bar(weights[name], (-most, most), "main" if weights[name] > 0 else "second"),
            fixed(weights[name], 4),
            fixed(betas[name], 5),
        ]
        for name in order
    ]
    rest = len(weights) - len(order)
    caption = (
        f"Features by weight, the {len(order)} largest of {len(weights)}"
        if rest
        else "Features by weight"
    )
    says = (
        "A positive weight (right) raises the suitability, a negative one (left) lowers it; "
        "features are scaled to run from 0 to 1. β is the penalty on each unit of weight."
    )
    head = ["Feature", "", "Weight", "β"]
    return joined(
        [
            table(caption, head, rows, right=[2, 3], class_="bars features"),
            paragraph(says, class_="says"),
        ]
    )


def _layer_table(result: SpeciesResult) -> Html | None:
    if not result.layers:
        return None
    rows = [
        [name, file, "categorical" if name in result.categorical else "continuous"]
        for name, file in result.layers.items()
    ]
    place = (
        None
        if result.grid is None
        else paragraph(f"Grid: {result.grid.describe()}.", class_="says")
    )
    return joined([table("Layers", ["Variable", "File", "Kind"], rows, class_="settings"), place])


def _seconds(result: SpeciesResult) -> Html | None:
    if not result.seconds:
        return None
    rows = [[stage, fixed(seconds, 2)] for stage, seconds in result.seconds.items()]
    foot = [["total", fixed(sum(result.seconds.values()), 2)]]
    return table(
        "Seconds by stage", ["Stage", "Seconds"], rows, right=[1], foot=foot, class_="narrow"
    )


def _data_files(result: SpeciesResult) -> Html | None:
    if not result.tables:
        return None
    rows = [[what.replace("_", " "), link(file)] for what, file in result.tables.items()]
    return table("Data behind this report", ["Holds", "File"], rows, class_="settings")


def _command(command: str) -> Html | None:
    if not command:
        return None
    return joined(
        [
            element("h3", "To repeat this run"),
            element("pre", element("code", command, id="command")),
            Html('<button type="button" data-copy="command" hidden>Copy</button>'),
        ]
    )


def _plain_table(caption: str, first: str, second: str, rows: dict[str, Any]) -> Html:
    listing = [[name.replace("_", " "), plain(value)] for name, value in rows.items()]
    return table(caption, [first, second], listing, class_="settings")
