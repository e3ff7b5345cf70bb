"""Judging a model of presences: metrics, thresholds and (spatial) splitters.

====================  ========================================================================
``metrics.py``        discrimination (AUC with DeLong's error, COR), calibration (Boyce),
                      information (log loss, gain, AICc)
``cuts.py``           what a threshold does: omission, TSS, ROC and omission curves, the table of
                      threshold rules
``partial.py``        partial ROC: the AUC where few presences are omitted, beside a random one's
``probabilities.py``  calibration of probabilities: Brier score, log loss, slope and curve
``splitters.py``      folds of presences, spatial and environmental blocks, checkerboards,
                      buffered leave-one-out
``variograms.py``     over what distance values are alike, which says how large blocks should be
``alignments.py``     how alike two alignments of sequences are
====================  ========================================================================

Metrics take the predictions at presences and those at the background (or at absences) as two
vectors. A prediction is any number that grows with suitability; where a unit matters the function
says so.
"""

from __future__ import annotations

from maxent.evaluation.alignments import alignment_deviation, alignment_overlap
from maxent.evaluation.cuts import (
    MaxTSS,
    OmissionCurve,
    RocCurve,
    Threshold,
    binomial_p_value,
    cumulative,
    max_tss,
    omission,
    omission_curve,
    roc_curve,
    thresholds,
    tss,
)
from maxent.evaluation.metrics import (
    AUC,
    AUCDifference,
    Boyce,
    aicc,
    auc,
    auc_delong,
    auc_difference,
    boyce,
    correlation,
    gain,
    log_loss,
)
from maxent.evaluation.partial import PartialROC, fewest_presences, partial_roc
from maxent.evaluation.probabilities import Calibration, calibration
from maxent.evaluation.splitters import (
    BufferedLeaveOneOut,
    Checkerboard,
    EnvironmentalBlocks,
    PresenceKFold,
    SpatialBlocks,
)
from maxent.evaluation.variograms import Variogram, variogram

__all__ = [
    "AUC",
    "AUCDifference",
    "Boyce",
    "BufferedLeaveOneOut",
    "Calibration",
    "Checkerboard",
    "EnvironmentalBlocks",
    "MaxTSS",
    "OmissionCurve",
    "PartialROC",
    "PresenceKFold",
    "RocCurve",
    "SpatialBlocks",
    "Threshold",
    "Variogram",
    "aicc",
    "alignment_deviation",
    "alignment_overlap",
    "auc",
    "auc_delong",
    "auc_difference",
    "binomial_p_value",
    "boyce",
    "calibration",
    "correlation",
    "cumulative",
    "fewest_presences",
    "gain",
    "log_loss",
    "max_tss",
    "omission",
    "omission_curve",
    "partial_roc",
    "roc_curve",
    "thresholds",
    "tss",
    "variogram",
]
