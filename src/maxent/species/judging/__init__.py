"""Judging and explaining the fit of a species: what its report shows.

==================  ==========================================================================
``evaluation.py``   scores, curves, thresholds and calibration of one fitted model
``replicates.py``   the fit repeated on blocks, folds or resamples and scored on the rest
``collinearity.py`` correlations and variance inflation factors
``importance.py``   what each variable does: gain shares, permutation, jackknife
``responses.py``    the prediction along each variable, with bootstrap bands
``refits.py``       fits on other rows or columns, quiet and in threads
==================  ==========================================================================

Refits stop at a duality gap of ``REFIT_TOL`` (or the estimator's own, where that is larger): the
regularized gain is known to that many nats.
"""

from __future__ import annotations

from maxent.species.judging.collinearity import collinearity
from maxent.species.judging.evaluation import evaluate
from maxent.species.judging.importance import gain_shares, importance, jackknife
from maxent.species.judging.refits import REFIT_TOL, fit_sample
from maxent.species.judging.replicates import replicate
from maxent.species.judging.responses import marginal_responses, responses

__all__ = [
    "REFIT_TOL",
    "collinearity",
    "evaluate",
    "fit_sample",
    "gain_shares",
    "importance",
    "jackknife",
    "marginal_responses",
    "replicate",
    "responses",
]
