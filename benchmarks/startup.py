"""The first minute: imports, the first small fit of every estimator, the commands; fresh processes.

``cold`` has an empty cache of kernels, ``warm`` that of the process before it. Seconds are those of
the processors, children included, so that busy neighbours do not lengthen them. The overhead of a
second process is what it takes beside the imports of scikit-learn, scipy and numba.
"""

from __future__ import annotations

ROWS = """
import numpy as np
import maxent as mx
rng = np.random.default_rng(0)
X = rng.normal(size=(500, 3))
y = (X @ rng.normal(size=(3, 3))).argmax(axis=1)
"""
TAGS = """
import maxent as mx
X = [[["the"], ["cat"]], [["a"], ["dog"], ["barks"]], [["the"], ["dog"]]]
y = [["D", "N"], ["D", "N", "V"], ["D", "N"]]
"""
PAIRS = """
import numpy as np
import maxent as mx
rng = np.random.default_rng(0)
A = rng.normal(size=(20, 5, 3))
y = np.array([rng.permutation(5) for _ in A])
B = np.array([a[np.argsort(order)] for a, order in zip(A, y)])
x = np.column_stack([np.arange(6.0), rng.normal(size=6)])
z = np.column_stack([[0.0, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0], rng.normal(size=7)])
path = [(0, 0), (1, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6)]
"""

# what each needs, and its first fit
ESTIMATORS = {
    "FenchelYoungClassifier": (ROWS, "mx.FenchelYoungClassifier().fit(X, y)"),
    "FenchelYoungClassifierCV": (ROWS, "mx.FenchelYoungClassifierCV().fit(X, y)"),
    "FenchelYoungMultilabel": (ROWS, "mx.FenchelYoungMultilabel().fit(X, X > 0)"),
    "FenchelYoungRegressor": (
        ROWS,
        "mx.FenchelYoungRegressor().fit(X, np.exp(X) / np.exp(X).sum(axis=1, keepdims=True))",
    ),
    "MED": (ROWS, "mx.MED().fit(X, y)"),
    "LabelRanker": (ROWS, "mx.LabelRanker().fit(X[:40], X[:40].argsort(axis=1) + 1)"),
    "MaxentDensity": (ROWS, "mx.MaxentDensity().fit(X, y == 0)"),
    "MaxentDensityCV": (ROWS, "mx.MaxentDensityCV().fit(X, y == 0)"),
    "StructMaxent": (ROWS, "mx.StructMaxent().fit(X, (y == 0).astype(int))"),
    "StructMaxentCV": (ROWS, "mx.StructMaxentCV().fit(X, (y == 0).astype(int))"),
    "StructMaxentClassifier": (ROWS, "mx.StructMaxentClassifier().fit(X, y)"),
    "ChainClassifier": (TAGS, "mx.ChainClassifier().fit(X, y)"),
    "CRF": (TAGS, "mx.CRF().fit(X, y)"),
    "L1CRF": (TAGS, "mx.L1CRF().fit(X, y)"),
    "L2CRF": (TAGS, "mx.L2CRF().fit(X, y)"),
    "M3N": (TAGS, "mx.M3N().fit(X, y)"),
    "L1M3N": (TAGS, "mx.L1M3N().fit(X, y)"),
    "LaplaceMEDN": (TAGS, "mx.LaplaceMEDN().fit(X, y)"),
    "TreeClassifier": (PAIRS, 'mx.TreeClassifier().fit([(x[:3], [-1, 0, 0])], [["p", "n", "n"]])'),
    "Aligner": (PAIRS, "mx.Aligner().fit([(x, z)], [path])"),
    "Matcher": (PAIRS, "mx.Matcher().fit(list(zip(A, B)), y)"),
}
