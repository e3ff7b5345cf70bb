"""Linear systems of weighted graphs, solved without a subtraction: every entry to full precision.

The Jacobian of a projection on couplings is the Laplacian of a graph with non-negative weights,
often a nearly disconnected one. Eliminating nodes from the graph (as Grassmann, Taksar and Heyman
do for Markov chains) only adds positive numbers, so that weak links keep all their digits and a
component that is exhausted shows as a pivot of exactly 0.
"""

import numpy as np

from maxent._support.compiling.kernels import njit

ADD = {"reassoc", "contract", "arcp"}  # sums in any order; infinities keep their meaning


@njit(cache=True, helper=True, nogil=True, error_model="numpy", fastmath=ADD)
def solve(weights, ground, rhs, out):
    """(L + diag(ground)) out = rhs, L the Laplacian of ``weights``, whose lower triangle is used.

    A component without ground has one free constant: its first node gets 0, and what its part of
    the right-hand side does not sum to 0 by is left over. Overwrites everything it is given.
    """
    size = rhs.size
    for j in range(size - 1, -1, -1):
        links = weights[j, :j]
        pivot = ground[j] + np.sum(links)
        weights[j, j] = pivot
        if pivot == 0.0:
            continue
        for k in range(j):
            share = links[k] / pivot
            if share == 0.0:
                continue
            rhs[k] += share * rhs[j]
            ground[k] += share * ground[j]
            row = weights[k]
            for i in range(k):
                row[i] += share * links[i]
    for j in range(size):
        pivot = weights[j, j]
        total = rhs[j]
        for k in range(j):
            total += weights[j, k] * out[k]
        out[j] = total / pivot if pivot > 0.0 else 0.0
