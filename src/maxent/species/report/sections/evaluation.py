"""How good the map is: omission, ROC, thresholds, Boyce curve, calibration and scores."""

from __future__ import annotations

import numpy as np

from maxent.species.fitting.results import SpeciesResult
from maxent.species.report import figures
from maxent.species.report.markup import (
    NONE,
    PERCENT,
    Html,
    count,
    element,
    fixed,
    joined,
    paragraph,
    probability,
    table,
)
from maxent.species.report.sections.base import Context, figure

_SCORES = {
    "n": ("Records", "occurrences that were scored"),
    "auc": (
        "AUC",
        "chance that a record is ranked above a background point; 0.5 is as good as random",
    ),
    "gain": (
        "Gain",
        "of the training records the unregularized gain less the penalty, which the fit makes as "
        "large as it can; of test records there is no penalty",
    ),
    "unregularized_gain": (
        "Unregularized gain",
        "exp of it is how many times likelier the average record is under the model than on an "
        "even map",
    ),
    "log_loss": ("Log loss", "mean of −log of the raw output at the records; lower is better"),
    "boyce": (
        "Continuous Boyce index",
        "−1 to 1: do records become denser as suitability grows? 0 is as good as random",
    ),
    "max_tss": ("Maximum TSS", "largest sensitivity + specificity − 1 over all thresholds"),
    "tss_threshold": ("Threshold of maximum TSS", "on the cloglog scale"),
    "aicc": (
        "AICc",
        "lower is better among models of the same records and background. Every weight in use "
        "counts as a parameter, which is only a rough count for a penalised fit; there is none "
        "where the parameters are as many as the records",
    ),
    "n_parameters": ("Parameters", "weights that are not 0"),
    "entropy": ("Entropy", "of the raw output: how widely the model spreads over the region"),
    "prevalence": ("Prevalence", "mean suitability over the background"),
    "max_auc": ("Achievable AUC", "to expect of records drawn from the model itself"),
}
_WHOLE_SCORES = ("n", "n_parameters")


def omission_and_roc(context: Context) -> Html | None:
    """Both curves side by side, and the AUC that can be reached."""
    evaluation = context.result.evaluation
    shown = []
    if evaluation.omission:
        shown.append(
            figure(
                figures.omission(evaluation.omission),
                "Omission of the records and share of the background predicted suitable, against "
                "the cumulative threshold.",
                "How to read it: the omission of the records should follow the dashed line. Test "
                "omission far below it can mean test records that are not independent of the "
                "training records; far above it, a model too close to the training records.",
            )
        )
    if evaluation.roc:
        shown.append(
            figure(
                figures.roc(evaluation),
                "ROC curves: share of records found against share of background predicted.",
                "How to read it: the further a curve rises above the diagonal, the better the "
                "model tells records from background.",
            )
        )
    if not shown:
        return None
    best = evaluation.scores.get("max_auc")
    says = (
        "The curves count background points as absences, though the species may live at many of "
        "them. So an AUC of 1 is out of reach even for the true distribution"
    )
    if best is not None:
        says += f": records drawn from this very model would have an AUC of {fixed(best)}"
    return joined([element("div", *shown, class_="pair"), paragraph(f"{says}.")])


def thresholds(context: Context) -> Html | None:
    """Rules that turn the map into presence and absence."""
    rules = context.result.evaluation.thresholds
    if not rules:
        return None
    tested = any(rule.get("test_omission") is not None for rule in rules)
    head = [
        *("Cumulative threshold", "Cloglog threshold", "Description"),
        *("Fractional predicted area", "Training omission rate"),
    ]
    head += ["Test omission rate", element("span", "P-value", class_="nowrap")] if tested else []
    rows = []
    for rule in rules:
        raw = f"raw threshold {rule['raw']:.10g}"
        row = [
            fixed(rule["cumulative"]),
            element("span", fixed(rule["value"]), title=raw),
            rule["name"],
            fixed(rule["area"]),
            fixed(rule["training_omission"]),
        ]
        if tested:
            row += [fixed(rule.get("test_omission")), probability(rule.get("p_value"))]
        rows.append(row)
    says = (
        "A threshold turns the map into presence and absence: places at or above it count as "
        "suitable. How to read a row: this rule leaves that share of the records out (omission) "
        "and calls that share of the region suitable (area)."
    )
    if tested:
        says += (
            " The P-value is the chance that a random map of the same area would catch as many "
            "test records or more."
        )
    right = [0, 1, *range(3, len(head))]
    rules_table = table(
        "Threshold rules", head, rows, right=right, row_head=2, class_="wide stacked"
    )
    return joined([paragraph(says), rules_table])


def more_evaluation(context: Context) -> Html | None:
    """Boyce curve, calibration and all scores."""
    evaluation = context.result.evaluation
    shown = []
    if evaluation.boyce_curve:
        shown.append(
            figure(
                figures.boyce(evaluation.boyce_curve),
                "Continuous Boyce curve: records found over records expected, along suitability.",
                "Continuous Boyce curve. How to read it: it should rise from left to right and "
                "cross 1 once; then a higher value of the map means more records.",
            )
        )
    if evaluation.calibration:
        shown.append(
            figure(
                figures.calibration(evaluation.calibration),
                "Calibration: share of records observed against share expected, in bins.",
                f"Calibration, with 90{PERCENT} intervals. How to read it: each dot is a tenth of "
                "the background, from the least to the most suitable; on the dashed line the share "
                "of the records found there is what the model expects.",
            )
        )
    scores = _scores_table(context.result)
    if not shown and scores is None:
        return None
    return joined([element("div", *shown, class_="pair") if shown else None, scores])


def _scores_table(result: SpeciesResult) -> Html | None:
    evaluation = result.evaluation
    sets = [evaluation.scores]
    if evaluation.test_scores is not None:
        sets.append(evaluation.test_scores)
    names = list(_SCORES | dict.fromkeys(k for s in sets for k in s))
    shown = [name for name in names if not name.endswith("_sd") and any(name in s for s in sets)]
    if not shown:
        return None
    rows = []
    for name in shown:
        label, says = _SCORES.get(name, (name.replace("_", " "), ""))
        rows.append([label, *(_score(scores, name) for scores in sets), says])
    head = ["Score", "Training", *(["Test"] if len(sets) > 1 else []), "What it says"]
    right = list(range(1, 1 + len(sets)))
    return table("All scores", head, rows, right=right, class_="scores")


def _score(scores: dict[str, float], name: str) -> str:
    if name not in scores:
        return NONE
    value = count(scores[name]) if name in _WHOLE_SCORES else fixed(scores[name])
    sd = scores.get(f"{name}_sd")
    return value if sd is None or np.isnan(sd) else f"{value} ± {fixed(sd)}"
