"""The sections of the report, each from one part of the result; None where it is missing."""

from maxent.species.report.sections import (
    change,
    collinearity,
    evaluation,
    geography,
    joint,
    kinds,
    model,
    refits,
    summary,
    times,
    variables,
)
from maxent.species.report.sections.base import Context

SECTIONS = (
    ("summary", "Summary", summary.summary),
    ("map", "Map", geography.suitability_map),
    ("times", "Over time", times.over_time),
    ("kinds", "Kinds of records", kinds.kinds),
    ("projections", "Projections", geography.projections),
    ("change", "Range change", change.range_change),
    ("omission", "Omission and ROC", evaluation.omission_and_roc),
    ("thresholds", "Thresholds", evaluation.thresholds),
    ("evaluation", "Further evaluation", evaluation.more_evaluation),
    ("replicates", "Cross-validation and replicates", refits.replicates),
    ("joint", "Fitted with other species", joint.joint),
    ("responses", "Response curves", variables.responses),
    ("contributions", "Variable contributions", variables.contributions),
    ("jackknife", "Jackknife", variables.jackknife),
    ("collinearity", "Collinearity", collinearity.collinearity),
    ("model", "The fitted model", model.model),
)

__all__ = ["SECTIONS", "Context"]
