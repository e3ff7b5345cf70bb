"""A first small fit of every estimator, and of a species from files, on generated data.

``maxent warm`` runs them for the kernels that they compile; the benchmark of start-up times them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import maxent as mx
from maxent.rows.arrays import Array

_TOKENS = [[["the"], ["cat"]], [["a"], ["dog"], ["barks"]], [["the"], ["dog"]]]
_LABELS = [["D", "N"], ["D", "N", "V"], ["D", "N"]]


def _rows(number: int = 500) -> tuple[Array, Array]:
    """Points in three variables and the class of each, of three."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(number, 3))
    return X, (X @ rng.normal(size=(3, 3))).argmax(axis=1)


def _presences(number: int = 500) -> tuple[Array, Array]:
    X, y = _rows(number)
    return X, (y == 0).astype(int)


# by name: estimators, and with them scikit-learn, are imported when a fit begins
def _rows_for(estimator: str, number: int = 500) -> Callable[[], object]:
    return lambda: getattr(mx, estimator)().fit(*_rows(number))


def _tags_for(estimator: str) -> Callable[[], object]:
    return lambda: getattr(mx, estimator)().fit(_TOKENS, _LABELS)


def _multilabel() -> object:
    X, _ = _rows()
    return mx.FenchelYoungMultilabel().fit(X, X > 0)


def _regressor() -> object:
    X, _ = _rows()
    return mx.FenchelYoungRegressor().fit(X, np.exp(X) / np.exp(X).sum(axis=1, keepdims=True))


def _ranker() -> object:
    X, _ = _rows(40)
    return mx.LabelRanker().fit(X, X.argsort(axis=1) + 1)


def _tree() -> object:
    features = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    return mx.TreeClassifier().fit([(features, [-1, 0, 0])], [["page", "name", "name"]])


def _aligner() -> object:
    x, y = np.arange(6.0)[:, None], np.array([0.0, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0])[:, None]
    path = [(0, 0), (1, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6)]
    return mx.Aligner().fit([(x, y)], [path])


def _matcher() -> object:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(20, 5, 3))
    y = np.array([rng.permutation(5) for _ in A])
    B = np.array([a[np.argsort(order)] for a, order in zip(A, y, strict=True)])
    return mx.Matcher().fit(list(zip(A, B, strict=True)), y)


def _many() -> object:
    X, y = _presences(60)
    return mx.MultiDensity().fit(X, np.column_stack([y, 1 - y]))


def _sources() -> object:
    X, y = _presences(60)
    sources = [mx.Source("presences", X[:30], y[:30]), mx.Source("survey", X[30:], y[30:])]
    return mx.IntegratedDensity().fit(sources)


def fit_species(folder: Path, height: int = 40, width: int = 50) -> object:
    """From rasters and a table to maps and a report."""
    from maxent.datasets.landscape import virtual_landscape, write_landscape
    from maxent.species.batch.workflow import fit_files
    from maxent.species.fitting.settings import Settings
    from maxent.species.input.files import LayerFiles, RecordFile

    data = folder / "data"
    data.mkdir()
    write_landscape(virtual_landscape(height, width), data)
    layers, future = (LayerFiles((str(data / name),), ("biome",)) for name in ("layers", "future"))
    records = RecordFile(str(data / "occurrences.csv"))
    settings = Settings(verbose=0)
    return fit_files(records, layers, folder / "results", settings, projections=[future])


def _species() -> object:
    with tempfile.TemporaryDirectory() as folder:
        return fit_species(Path(folder))


# by kind, as the command takes them
FITS: dict[str, dict[str, Callable[[], object]]] = {
    "species": {"maxent fit": _species},
    "densities": {
        "MaxentDensity": lambda: mx.MaxentDensity().fit(*_presences()),
        "MaxentDensityCV": lambda: mx.MaxentDensityCV().fit(*_presences(60)),
        "MultiDensity": _many,
        "IntegratedDensity": _sources,
        "StructMaxent": lambda: mx.StructMaxent().fit(*_presences(60)),
        "StructMaxentCV": lambda: mx.StructMaxentCV().fit(*_presences(60)),
    },
    "classifiers": {
        "FenchelYoungClassifier": _rows_for("FenchelYoungClassifier"),
        "FenchelYoungClassifierCV": _rows_for("FenchelYoungClassifierCV", 60),
        "FenchelYoungMultilabel": _multilabel,
        "FenchelYoungRegressor": _regressor,
        "MED": _rows_for("MED"),
        "StructMaxentClassifier": _rows_for("StructMaxentClassifier", 60),
    },
    "tagging": {
        name: _tags_for(name)
        for name in (
            *("ChainClassifier", "CRF", "L1CRF", "L2CRF", "L2CRFCV"),
            *("M3N", "M3NCV", "L1M3N", "LaplaceMEDN"),
        )
    },
    "structures": {
        "TreeClassifier": _tree,
        "SegmentClassifier": _tags_for("SegmentClassifier"),
        "Aligner": _aligner,
        "Matcher": _matcher,
        "LabelRanker": _ranker,
    },
}


def fit_first(name: str) -> object:
    """The first fit of this name."""
    return {name: run for fits in FITS.values() for name, run in fits.items()}[name]()
