"""One intensity from several kinds of records: presences, surveys with absences, counts.

``Source`` holds the records of one kind, ``SourcesTask`` the convex problem of several of them,
``FittedIntensity`` its answer; ``agreement`` tests whether sources tell the same story, and
``held_out_weights`` how much each should count.
"""

from maxent.density.sources.agreement import Agreement, agreement, compared
from maxent.density.sources.intensity import FittedIntensity, SourceFit
from maxent.density.sources.source import Source
from maxent.density.sources.task import SourcesTask
from maxent.density.sources.weights import WeightChoice, held_out_weights

__all__ = [
    "Agreement",
    "FittedIntensity",
    "Source",
    "SourceFit",
    "SourcesTask",
    "WeightChoice",
    "agreement",
    "compared",
    "held_out_weights",
]
