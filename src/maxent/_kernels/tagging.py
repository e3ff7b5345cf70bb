"""Scores and moments of attributes that have weights for some of the states alone.

Attribute a has the weights ``start[a]`` to ``start[a + 1]``, for the states ``state`` of each: most
attributes of a corpus were seen with one or two labels, so that a token costs what was seen, not
attributes times states.
"""

from maxent._kernels.compiling import njit


@njit(cache=True, nogil=True)
def scores_of(values, attributes, tokens, start, state, w, out, first, last):
    """Write the unary scores of the tokens from first to last."""
    for t in range(first, last):
        row = out[t]
        row[:] = 0.0
        for i in range(tokens[t], tokens[t + 1]):
            a = attributes[i]
            value = values[i]
            for j in range(start[a], start[a + 1]):
                row[state[j]] += value * w[j]


@njit(cache=True, nogil=True)
def add_moments(values, attributes, tokens, start, state, p, out, first, last):
    """Add what the marginals of the tokens from first to last expect of each weight."""
    for t in range(first, last):
        row = p[t]
        for i in range(tokens[t], tokens[t + 1]):
            a = attributes[i]
            value = values[i]
            for j in range(start[a], start[a + 1]):
                out[j] += value * row[state[j]]
