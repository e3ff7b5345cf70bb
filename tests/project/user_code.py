"""What users write, for type checkers: never run. A line that must be refused says so."""

from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import maxent as mx
from maxent import species

X, y = np.zeros((4, 2)), np.array([0, 1, 0, 1])

problem = mx.Problem(mx.Tsallis(1.5), mx.SampleMap(X, 2), mx.Quadratic(0.1), observed=y)
assert_type(problem, mx.Problem)
solution = problem.solve("auto", tol=1e-6)
assert_type(solution, mx.Solution)
assert_type(solution.gap, float)
assert_type(solution.status, mx.Status)

model = mx.FenchelYoungClassifier("tsallis", 1.5, mx.Quadratic(0.1)).fit(X, y)
assert_type(model, mx.FenchelYoungClassifier)
labels: NDArray[np.int64] = model.predict(X)

density = mx.MaxentDensity(features="lq").fit(X, y)
assert_type(density, mx.MaxentDensity)

settings = species.Settings(features="lq", multiplier=2.0)
result = species.fit("records.csv", "layers", settings)
assert_type(result, species.SpeciesResult)

bound: float = mx.bounds.margin_bound  # refused: a function is no number
mx.Shanon()  # refused: no such name
