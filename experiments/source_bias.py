"""Scale and slope of an intensity by the kinds of records, where truth and effort are known.

True intensity `lambda(x) = exp(b + 1.5 x_1 - x_2^2)` per unit of area over 2,000 places. Effort of
presences falls with a distance `d = x_1 + x_3 / 2`, `exp(-g d)`, so that it is taken for the
species where nobody says otherwise. Sources: about 400 presences (of their effort the fit is told
nothing, the "column" d whose weight it finds, or all of it, "known"), a survey of 200 visits,
counts at 200 places. Each mix is fitted with linear and quadratic features, and `log lambda` along
x_1 is compared with the truth:

- ``slope_bias``, ``slope_sd``: error of the slope of `log lambda` along x_1 (truth: 1.5);
- ``scale_bias``, ``scale_sd``: error of the log of the total intensity, where the scale is known;
- ``coverage``: how often the interval of 90 % of the intensity (laplace) holds the truth;
- ``failures``: fits with an error, a missed tolerance, or numbers that are not finite.

The mix "few absences" is the pattern of a report on another program: 12 sites of which most were
occupied, 2,000 presences, g = 3. A survey that found the species everywhere, or nowhere, tells no
scale: it is left out with a warning, and counted in ``without_scale``, not as a failure.

python -m experiments.source_bias [--repeats 125]
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import maxent as mx
from experiments.run import RESULTS, write_rows

PLACES, REPEATS = 2_000, 112
SLOPE, LEVEL = 1.5, 0.9


@dataclass(frozen=True)
class Mix:
    """Which sources there are, and what the fit knows of the presences' effort."""

    name: str
    presences: float = 0  # expected
    effort: str = ""
    gradient: float = 1.0
    sites: int = 0
    counts: int = 0
    b: float = -0.5


MIXES = (
    Mix("presences", presences=400),
    Mix("presences, effort column", presences=400, effort="column"),
    Mix("presences, effort known", presences=400, effort="known"),
    Mix("survey", sites=200),
    Mix("counts", counts=200),
    Mix("presences + survey", presences=400, sites=200),
    Mix("presences, effort column + survey", presences=400, effort="column", sites=200),
    Mix("all, effort column", presences=400, effort="column", sites=200, counts=200),
    Mix("few absences", presences=2_000, effort="column", gradient=3.0, sites=12, b=1.0),
)


def log_intensity(X: np.ndarray, b: float) -> np.ndarray:
    """The truth."""
    return b + SLOPE * X[:, 0] - X[:, 1] ** 2


def sources(mix: Mix, X: np.ndarray, rng: np.random.Generator) -> list[mx.Source]:
    """Records of a mix."""
    rate = np.exp(log_intensity(X, mix.b))
    made = []
    if mix.presences:
        distance = X[:, 0] + 0.5 * X[:, 2]
        effort = np.exp(-mix.gradient * distance)
        y = rng.poisson(mix.presences * rate * effort / (rate * effort).sum())
        told: dict[str, Any] = {
            "": {},
            "column": {"effort": {"distance": distance}},
            "known": {"area": effort},
        }[mix.effort]
        made.append(mx.Source("presences", X[:, :2], y, **told))
    for kind, number in (("survey", mix.sites), ("counts", mix.counts)):
        if number:
            rows = rng.choice(len(X), number, replace=False)
            mean = rate[rows]
            y = rng.poisson(mean) if kind == "counts" else rng.random(number) < -np.expm1(-mean)
            made.append(mx.Source(kind, X[rows, :2], y))
    return made


def one_fit(mix: Mix, seed: int) -> dict[str, float]:
    """Errors of one fit; ``failed`` is 1 where there is none."""
    rng = np.random.default_rng([seed, len(mix.name)])
    X = rng.uniform(-1, 1, (PLACES, 3))
    truth = log_intensity(X, mix.b)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of surveys that tell nothing
            model = mx.IntegratedDensity("lq", intervals="laplace").fit(sources(mix, X, rng))
            log = np.log(model.predict(X[:, :2]))
            low, high = (np.log(end) for end in model.intensity_.intervals(X[:, :2], LEVEL))
    except (ValueError, ArithmeticError, np.linalg.LinAlgError):
        return {"failed": 1.0}
    status = model.density_.certificate.status
    if not (np.isfinite([log, low, high]).all() and status is not None and status.reached):
        return {"failed": 1.0}
    absolute = bool(model.is_absolute_)
    design = np.column_stack([np.ones(PLACES), X[:, 0], X[:, 1] ** 2])
    slope = np.linalg.lstsq(design, log, rcond=None)[0][1]
    goal = truth if absolute else truth - np.logaddexp.reduce(truth)
    return {
        "failed": 0.0,
        "absolute": float(absolute),
        "slope": slope - SLOPE,
        "scale": np.logaddexp.reduce(log) - np.logaddexp.reduce(truth) if absolute else np.nan,
        "coverage": float(((low <= goal) & (goal <= high)).mean()),
    }


def rows(repeats: int = REPEATS) -> Iterator[dict[str, Any]]:
    """A row for each mix."""
    for mix in MIXES:
        fits = [one_fit(mix, seed) for seed in range(repeats)]
        fine = [fit for fit in fits if not fit["failed"]]
        known = [fit for fit in fine if fit["absolute"]]

        def told(name: str, fits: list[dict[str, float]]) -> list[float]:
            values = np.array([fit[name] for fit in fits])
            if not values.size:
                return [float("nan")] * 2
            return [round(float(values.mean()), 3), round(float(values.std()), 3)]

        slope, scale = told("slope", fine), told("scale", known)
        row = {
            "mix": mix.name,
            "fits": repeats,
            "failures": repeats - len(fine),
            "without_scale": len(fine) - len(known),
            "slope_bias": slope[0],
            "slope_sd": slope[1],
            "scale_bias": scale[0],
            "scale_sd": scale[1],
            "coverage": told("coverage", fine)[0],
        }
        print(row, flush=True)
        yield row


def run(out: Path, repeats: int = REPEATS) -> list[Path]:
    """Write the table."""
    return [write_rows(out / "source_bias.csv", rows(repeats))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=REPEATS)
    run(RESULTS, parser.parse_args().repeats)


if __name__ == "__main__":
    main()
