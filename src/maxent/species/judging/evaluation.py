"""One fitted model judged: scores, ROC, omission, thresholds, calibration and the Boyce curve."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from maxent import evaluation as metrics
from maxent.density import FittedDensity, fitted_density
from maxent.rows.arrays import Array
from maxent.species.fitting.results import Evaluation, Sample
from maxent.species.judging.refits import per_record

_POINTS = 500  # of a stored curve at most
_BINS = 10
_Z = 1.6448536269514722  # 90 % of a normal distribution lie within


@dataclass(frozen=True, eq=False)
class _Predicted:
    """Log of the raw output and cloglog output, one entry per occurrence or background row."""

    log: Array
    cloglog: Array

    @classmethod
    def from_sample(cls, model: FittedDensity, sample: Sample, counts: Array) -> _Predicted:
        """Predictions in the rows of a sample, repeated by counts."""
        rows = np.flatnonzero(counts > 0)
        X = sample.X.iloc[rows]
        outputs = (model.predict(X, output) for output in ("log", "cloglog"))
        return cls(*(per_record(values, counts[rows]) for values in outputs))


def evaluate(model: Any, sample: Sample, test: Sample | None = None) -> Evaluation:
    """How well the model tells the presences from the background rows of the sample.

    Scores are

    - n: occurrences; auc, auc_sd: with DeLong's deviation (NaN for one occurrence);
    - gain: of the training records the regularized gain; of the test records
      ln N - log_loss, N the points of the fit; unregularized_gain: without the penalty;
    - log_loss: mean of -ln raw; boyce: the continuous Boyce index of the cloglog output;
    - max_tss, tss_threshold: largest true skill statistic and the cloglog value that attains it;
    - aicc: with n_parameters weights that are not 0, NaN where there are n - 1 or more;
    - entropy: of the raw output; prevalence: mean cloglog output over the background;
    - max_auc: the AUC to expect of occurrences drawn from the model itself. With background in
      place of absences no model can count on 1.

    Calibration compares bins of a tenth of the background each, ordered by prediction: the share
    of the presences that the model expects there (``predicted``, the raw output summed over the
    bin) and the share found (``observed``, with Wilson's 90 % interval ``low`` to ``high``, and
    ``test_observed``, ``test_low``, ``test_high``). Curves hold at most 500 points: ROC curves
    even in the sum of both rates, omission even in the cumulative value.

    Parameters
    ----------
    model : FittedDensity or estimator
        The fitted model.
    sample : Sample
        Records and background with their environment.
    test : Sample, default None
        Records that were kept from the fit (rows with counts > 0); they are compared with the
        background of ``sample``.
    """
    if test is not None and not (test.counts > 0).any():
        raise ValueError(f"the test sample has {len(test.counts)} rows but no occurrence")
    model = fitted_density(model)
    background = _Predicted.from_sample(model, sample, sample.at_background.astype(np.int64))
    train = _Predicted.from_sample(model, sample, sample.counts)
    held_out = None if test is None else _Predicted.from_sample(model, test, test.counts)
    curves = {"train": train} | ({} if held_out is None else {"test": held_out})
    calibration: dict[str, Array] = {}
    boyce_curve: dict[str, Array] = {}
    for name, presence in curves.items():
        prefix = "" if name == "train" else "test_"
        calibration |= _calibration(presence, background, prefix)
        boyce = metrics.boyce(presence.cloglog, background.cloglog)
        boyce_curve |= {f"{prefix}prediction": boyce.suitability, f"{prefix}ratio": boyce.ratio}
    return Evaluation(
        scores=_scores(train, background) | _fit_scores(model, train, background),
        test_scores=None if held_out is None else _test_scores(model, held_out, background),
        roc={name: _roc(presence, background) for name, presence in curves.items()},
        omission=_omission(train, background, held_out),
        thresholds=_thresholds(train, background, held_out),
        calibration=calibration,
        boyce_curve=boyce_curve,
    )


def _scores(presence: _Predicted, background: _Predicted) -> dict[str, float]:
    n = presence.log.size
    if n > 1 and background.log.size > 1:
        auc, sd = metrics.auc_delong(presence.log, background.log)
    else:
        auc, sd = metrics.auc(presence.log, background.log), math.nan
    skill = metrics.max_tss(presence.log, background.log)
    return {
        "n": float(n),
        "auc": auc,
        "auc_sd": sd,
        "log_loss": metrics.log_loss(presence.log),
        "boyce": metrics.boyce(presence.cloglog, background.cloglog).index,
        "max_tss": skill.tss,
        "tss_threshold": float(_cloglog_at(np.array(skill.threshold), presence, background)),
    }


def _fit_scores(
    model: FittedDensity, train: _Predicted, background: _Predicted
) -> dict[str, float]:
    n, k = train.log.size, model.weights.size
    expected = metrics.auc(background.log, background.log, presence_weights=np.exp(background.log))
    return {
        "gain": model.certificate.gain,
        "unregularized_gain": model.certificate.unregularized_gain,
        "n_parameters": float(k),
        "aicc": metrics.aicc(float(train.log.sum()), k, n),
        "entropy": model.raw_entropy,
        "prevalence": float(background.cloglog.mean()),
        "max_auc": expected,
    }


def _test_scores(
    model: FittedDensity, held_out: _Predicted, background: _Predicted
) -> dict[str, float]:
    scores = _scores(held_out, background)
    return scores | {"gain": math.log(model.n_points) - scores["log_loss"]}


def _roc(presence: _Predicted, background: _Predicted) -> dict[str, Array]:
    curve = metrics.roc_curve(presence.log, background.log)
    false, true = curve.false_positive_rate, curve.true_positive_rate
    kept = thinned(false + true, _POINTS)
    return {"false_positive_rate": false[kept], "true_positive_rate": true[kept]}


def _omission(
    train: _Predicted, background: _Predicted, held_out: _Predicted | None
) -> dict[str, Array]:
    test = None if held_out is None else held_out.log
    curve = metrics.omission_curve(train.log, background.log, test, np.exp(background.log))
    kept = thinned(curve.cumulative, _POINTS)
    curves = {
        "threshold": _cloglog_at(curve.threshold, train, background, held_out),
        "raw": np.exp(curve.threshold),
        "cumulative": curve.cumulative,
        "area": curve.area,
        "training_omission": curve.training_omission,
    }
    if curve.test_omission is not None:
        curves["test_omission"] = curve.test_omission
    return {name: values[kept] for name, values in curves.items()}


def _thresholds(
    train: _Predicted, background: _Predicted, held_out: _Predicted | None
) -> list[dict[str, Any]]:
    """The rules on the log scale, where no two densities are rounded to one."""
    test = None if held_out is None else held_out.log
    rules = metrics.thresholds(train.log, background.log, test, np.exp(background.log))
    log = np.array([rule.value for rule in rules])
    cloglog = _cloglog_at(log, train, background, held_out)
    return [
        asdict(rule) | {"value": float(value), "raw": float(raw)}
        for rule, value, raw in zip(rules, cloglog, np.exp(log), strict=True)
    ]


def _cloglog_at(log: Array, *predicted: _Predicted | None) -> Array:
    """The cloglog output at predictions, to the last bit what the map holds there."""
    known = [part for part in predicted if part is not None]
    values, first = np.unique(np.concatenate([part.log for part in known]), return_index=True)
    return np.concatenate([part.cloglog for part in known])[first[np.searchsorted(values, log)]]


def _calibration(presence: _Predicted, background: _Predicted, prefix: str) -> dict[str, Array]:
    order = np.sort(background.log)
    # a bin starts at a value, so that equal predictions share it
    starts = np.unique(order[np.arange(_BINS) * order.size // _BINS])

    def counted(values: Array, weights: Array | None = None) -> Array:
        place = np.maximum(np.searchsorted(starts, values, side="right") - 1, 0)
        return np.bincount(place, weights, minlength=starts.size)

    mass = np.exp(background.log - background.log.max())
    n, inside = presence.log.size, counted(presence.log)
    middle = (inside + _Z**2 / 2) / (n + _Z**2)
    half = _Z / (n + _Z**2) * np.sqrt(inside * (n - inside) / n + _Z**2 / 4)
    shares = {
        "observed": inside / n,
        "low": np.maximum(middle - half, 0.0),
        "high": np.minimum(middle + half, 1.0),
    }
    predicted = {"predicted": counted(background.log, mass) / mass.sum()}
    return predicted | {f"{prefix}{name}": share for name, share in shares.items()}


def thinned(x: Array, points: int) -> Array:
    """Indices of at most ``points`` entries of a growing sequence, even in it, with both ends."""
    if x.size <= points:
        return np.arange(x.size)
    even = np.searchsorted(x, np.linspace(x[0], x[-1], points - 1))
    return np.unique(np.append(np.minimum(even, x.size - 1), x.size - 1))
