"""What domains with tied rows share: the entropy of a distribution of which sums are known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy

from maxent.rows.arrays import Array, Ragged, Rows, Tied, flat


def tied_negentropy(softmax: Callable[[Rows], tuple[Array, Rows]], p: Tied) -> float:
    """`max_theta <theta, p> - log Z` of one row, found numerically; 0 for a single structure."""
    if np.isin(p.own.values, (0.0, 1.0)).all():
        return 0.0  # one structure of probability 1
    target, cut = flat(p).astype(np.float64), p.own.values.size

    def negative(theta: Array) -> tuple[float, Array]:
        scores = Tied(Ragged(theta[:cut], p.own.offsets), theta[None, cut:])
        log_partition, mean = softmax(scores)
        return float(log_partition[0] - theta @ target), flat(mean) - target

    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 10_000, "maxfun": 20_000}
    start = np.zeros(target.size)
    best = scipy.optimize.minimize(negative, start, jac=True, method="L-BFGS-B", options=options)
    return -float(best.fun)
