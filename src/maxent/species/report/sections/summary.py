"""Key numbers, notes and what was done to the records."""

from __future__ import annotations

import numpy as np

from maxent._support.terminal import CAUTION
from maxent.species.fitting.results import SpeciesResult, counts_in_words
from maxent.species.report.markup import (
    Html,
    count,
    element,
    fixed,
    joined,
    listed,
    small,
    table,
    tiles,
)
from maxent.species.report.sections.base import HELD_OUT, Context, mean_sd


def _background(result: SpeciesResult) -> tuple[str, str, str]:
    """The points that records are compared with: those of the region, or visits in vain."""
    told = result.kinds
    if told is not None and all(file.kind != "presences" for file in told.files):
        return "Visits in vain", count(result.n_background), "records are compared with them"
    return "Background points", count(result.n_background), _points(result)


def _points(result: SpeciesResult) -> str:
    """What the background stands for, and how many points the density is over."""
    if result.n_cells is not None:
        return "a sample of these cells: evaluation, curves and importance use it"
    added = round(result.model.n_points) - result.n_background
    if added <= 0:
        return "stand for the region"
    return f"stand for the region; with {count(added)} cells of records the density's points"


def summary(context: Context) -> Html:
    """Key numbers, notes, and what was done to the records."""
    result = context.result
    return joined(
        [
            tiles(_numbers(result)),
            _notes(result),
            _origins(result),
            _cleaning(result),
        ]
    )


def _notes(result: SpeciesResult) -> Html | None:
    """What was assumed; what nobody should miss comes first."""
    if not result.notes:
        return None
    loud = [note for note in result.notes if note.startswith(CAUTION)]
    rest = [note for note in result.notes if note not in loud]
    shown = [*(element("strong", note) for note in loud), *rest]
    return element("div", element("h3", "Notes"), listed(shown), class_="notes")


def _areas(result: SpeciesResult) -> list[tuple[str, str, str]]:
    """How far the map of the training layers reaches, beside the study region."""
    drawn = next((written for written in result.maps if written.training), None)
    if drawn is None:
        return []
    shown = [_area("Map", drawn.n_cells, drawn.km2, drawn.n_extrapolated)]
    shown[0][2] += f"; it covers {drawn.extent or 'all of the layers'}"
    if drawn.mask is not None and drawn.n_masked:
        shown[0][2] += f", but for {count(drawn.n_masked)} cells that are left out"
    if drawn.region:
        inside = drawn.region
        area = _area("Study region", inside["cells"], inside.get("km2"), inside.get("extrapolated"))
        if result.study is not None:
            area[-1] += f"; {count(round(result.study.area))} km² with its parts without data"
        shown.append(area)
    return [(name, value, says) for name, value, says in shown]


def _area(name: str, cells: int, km2: float | None, extrapolated: int | None) -> list[str]:
    value = f"{count(cells)} cells" if km2 is None else f"{count(round(km2))} km²"
    says = "with data" if km2 is None else f"{count(cells)} cells with data"
    if extrapolated is not None:
        says += f", {count(extrapolated)} of them outside what was fitted (MESS below 0)"
    return [name, value, says]


def _numbers(result: SpeciesResult) -> list[tuple[str, str, str]]:
    model, scores = result.model, result.evaluation.scores
    tests = result.evaluation.test_scores or {}
    n_test = tests.get("n", int(np.sum(result.records["test"])))
    held_out = f"for training, {count(n_test)} more for testing" if n_test else "used for the fit"
    shown = [
        ("Records", count(model.n_presences), held_out),
        _background(result),
        ("AUC, training", fixed(scores.get("auc")), "1 is perfect, 0.5 is random"),
    ]
    shown[2:2] = _areas(result)
    if result.n_cells is not None:
        shown.insert(1, ("Cells", count(result.n_cells), "all with data: the density's points"))
    if "auc" in tests:
        shown.append(("AUC, test records", fixed(tests["auc"]), "records held out of the fit"))
    chosen = min(result.replicates, key=lambda made: list(HELD_OUT).index(made.kind), default=None)
    if chosen is not None:
        mean, sd = mean_sd(chosen, "test_auc")
        word, says = HELD_OUT[chosen.kind]
        shown.append((f"AUC, {word}", fixed(mean), f"± {fixed(sd)} on {says} kept from the fit"))
    gain = scores.get("unregularized_gain", model.certificate.unregularized_gain)
    if np.isfinite(gain):
        says = f"records are exp({fixed(gain)}) = {fixed(np.exp(gain), 1)} times likelier than on "
        says += "an even map"
        less = scores.get("gain", model.certificate.gain)
        says += f"; {fixed(less)} less the penalty" if np.isfinite(less) else ""
        shown.append(("Gain, unregularized", fixed(gain), says))
    if "boyce" in scores:
        says = "1: records grow denser with suitability"
        shown.append(("Boyce index", fixed(scores["boyce"]), says))
    if np.isfinite(model.certificate.gap):
        gap = small(max(model.certificate.gap, 0.0))
        each = "each of its two parts is " if model.certificate.parts else ""
        shown.append(("Duality gap", gap, f"{each}solved to within {gap} of the optimum"))
    return shown


def _origins(result: SpeciesResult) -> Html | None:
    rows = [
        [
            origin.source,
            origin.citation,
            counts_in_words(origin.licences) if origin.licences else origin.licence,
            counts_in_words(origin.flags),
        ]
        for origin in result.origins
        if origin.describe() or origin.flags
    ]
    if not rows:
        return None
    head = ["File", "Cite as", "Licences", "Flagged by the publisher"]
    return table("Where the records come from", head, rows)


def _cleaning(result: SpeciesResult) -> Html | None:
    if not result.cleaning:
        return None
    rows = [[step.what, count(step.records), "; ".join(step.examples)] for step in result.cleaning]
    head = ["Step", "Records", "For example"]
    return table("What was done to the records", head, rows, right=[1])
