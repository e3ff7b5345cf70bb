"""Chains over attributes that have weights for some of the states alone.

A token is a run of codes, one for each of its attributes. A code c >= 0 is the first of the
attribute's weights, whose states are ``state[c]``, ``state[c + 1]`` ... up to the first negative
one, ~state. A code below 0 is an attribute with weights for many states: row ~c of a table
(attributes, width), which is added as a whole. Most attributes of a corpus were seen with one or
two labels, so that a token costs what was seen, not attributes times states. Values are those of
the attributes, empty where all are 1.

Rows of scores are ``width`` entries, a multiple of 8 that leaves loops no remainder; states beyond
the last score -inf.
"""

import numpy as np

from maxent._support.compiling.copying import copy, copy_block
from maxent._support.compiling.kernels import njit
from maxent.structured.chain.kernels.marginals import (
    TINY,
    best_path,
    exponential_rows,
    exponentials,
    log_pass,
)

_BATCH = 16  # sequences that go through the recursions together
_WINDOW = 256  # neighbours from which they are chosen by length


@njit(cache=True, nogil=True)
def scores_of(values, codes, tokens, state, pairs, table, out, first, last):
    """Write the scores of the tokens from first to last."""
    row = np.empty(table.shape[1])
    for t in range(first, last):
        _token_scores(values, codes, tokens, state, pairs, table, t, row)
        copy(row[: out.shape[1]], out[t])


@njit(cache=True, nogil=True)
def add_moments(values, codes, tokens, state, p, pairs, table, first, last):
    """Add what the marginals of the tokens from first to last expect of each weight."""
    row = np.zeros(table.shape[1])
    for t in range(first, last):
        copy(p[t], row)
        _add_token_moments(values, codes, tokens, state, pairs, table, t, row)


@njit(cache=True, nogil=True)
def conjugate_and_moments(
    values, codes, tokens, state, pairs, table, edge, cuts, weights, cost,
    value, out_pairs, out_table, out_edge, first, last,
):  # fmt: skip
    """Write the log-partitions of the sequences from first to last, and add their moments.

    ``edge`` (1, width, width) holds the transitions, ``cost`` scores to add (tokens, states), empty
    for none. Batches of sequences of about one length go through the recursions together, so that
    each step is a product of matrices; nothing of them is kept. Scores too far apart for them give
    a log-partition NaN and no moments: those sequences are left to ``far_conjugate_and_moments``.
    """
    width, k = table.shape[1], cost.shape[1]
    longest = 1
    for row in range(first, last):
        longest = max(longest, cuts[row + 1] - cuts[row])
    room = longest * _BATCH
    node = np.empty((room, width))
    forward = np.empty((room, width))
    onward = np.empty((room, width))
    mean = np.empty((room, width))
    scale = np.empty(room)
    starts = np.empty(longest + 1, np.int64)
    total = np.empty(_BATCH)
    sound = np.empty(_BATCH, np.bool_)
    own = np.empty(_BATCH)
    by_length = np.empty(_WINDOW, np.int64)
    link = np.empty((width, width))
    top_edge = exponentials(edge.reshape(width * width), link.reshape(width * width))
    turned = np.empty((width, width))
    copy_block(link.T, turned)
    spare = np.empty((width, width))
    for window in range(first, last, _WINDOW):
        end = min(window + _WINDOW, last)
        _sort_by_length(cuts, window, end, by_length)
        for begin in range(0, end - window, _BATCH):
            rows = by_length[begin : min(begin + _BATCH, end - window)]
            longest = _place(cuts, rows, starts)
            used = starts[longest]
            for b in range(rows.size):
                for t in range(cuts[rows[b] + 1] - cuts[rows[b]]):
                    place, token = starts[t] + b, cuts[rows[b]] + t
                    _token_scores(values, codes, tokens, state, pairs, table, token, node[place])
                    _finish(node[place], cost, token, k)
            sound[: rows.size] = exponential_rows(node[:used], node[:used], scale)
            for b in range(rows.size):
                own[b] = weights[rows[b]]
            _forward(longest, starts, node, link, top_edge, forward, scale, total, sound)
            _backward(longest, starts, node, turned, own, forward, scale, mean, onward, sound)
            for b in range(rows.size):
                row = rows[b]
                length = cuts[row + 1] - cuts[row]
                if not sound[b]:
                    value[row] = np.nan
                    for t in range(length):
                        for j in range(width):
                            forward[starts[t] + b, j] = onward[starts[t] + b, j] = 0.0
                    continue
                value[row] = total[b]
                for t in range(length):
                    _add_token_moments(
                        values, codes, tokens, state, out_pairs, out_table, cuts[row] + t,
                        mean[starts[t] + b],
                    )  # fmt: skip
            if longest > 1:
                np.dot(forward[:used].T, onward[:used], spare)
                for i in range(width):
                    for j in range(width):
                        out_edge[i, j] += link[i, j] * spare[i, j]


@njit(cache=True, nogil=True)
def far_conjugate_and_moments(
    values, codes, tokens, state, pairs, table, edge, cuts, weights, cost,
    value, out_pairs, out_table, out_edge, rows,
):  # fmt: skip
    """The same for some sequences, in logarithms: slower, and right for scores however far apart.

    Return -1, or the first sequence without a path.
    """
    width, k = table.shape[1], cost.shape[1]
    single = np.empty((1, width, width))
    spare = np.empty((width, width))
    for row in rows:
        length = cuts[row + 1] - cuts[row]
        scores = np.empty((length, width))
        shares = np.empty((length, width))
        for t in range(length):
            token = cuts[row] + t
            _token_scores(values, codes, tokens, state, pairs, table, token, scores[t])
            _finish(scores[t], cost, token, k)
        value[row] = log_pass(scores, edge, 0, np.empty((length, width)), shares, single, spare)
        if value[row] == -np.inf:
            return row
        for t in range(length):
            for j in range(width):
                shares[t, j] *= weights[row]
            _add_token_moments(
                values, codes, tokens, state, out_pairs, out_table, cuts[row] + t, shares[t]
            )
        if length > 1:
            for i in range(width):
                for j in range(width):
                    out_edge[i, j] += weights[row] * single[0, i, j]
    return -1


@njit(cache=True, nogil=True)
def _sort_by_length(cuts, first, last, out):
    """Write the sequences from first to last, the longest at the head, else in their order."""
    for row in range(first, last):
        length, place = cuts[row + 1] - cuts[row], row - first
        while place > 0 and cuts[out[place - 1] + 1] - cuts[out[place - 1]] < length:
            out[place] = out[place - 1]
            place -= 1
        out[place] = row


@njit(cache=True, nogil=True)
def _place(cuts, rows, starts):
    """Write where position t of a batch begins, after a row for each longer sequence at t - 1.

    Return the length of the longest, which is the first.
    """
    starts[0] = 0
    active = rows.size
    for t in range(cuts[rows[0] + 1] - cuts[rows[0]]):
        while cuts[rows[active - 1] + 1] - cuts[rows[active - 1]] <= t:
            active -= 1
        starts[t + 1] = starts[t] + active
    return cuts[rows[0] + 1] - cuts[rows[0]]


@njit(cache=True, nogil=True)
def _finish(row, cost, token, k):
    for j in range(k if len(cost) else 0):
        row[j] += cost[token, j]
    row[k:] = -np.inf


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _forward(longest, starts, node, link, top_edge, forward, scale, total, sound):
    """Forward weights that sum to 1, what they summed to (over the tops in ``scale``), log Z."""
    width = link.shape[0]
    total[:] = 0.0
    for t in range(longest):
        here, active = starts[t], starts[t + 1] - starts[t]
        if t:
            last = starts[t - 1]
            np.dot(forward[last : last + active], link, forward[here : here + active])
        else:
            forward[:active] = 1.0
        for b in range(active):
            place = here + b
            mass = 0.0
            for j in range(width):
                weight = forward[place, j] * node[place, j]
                forward[place, j] = weight
                mass += weight
            total[b] += scale[place] + (top_edge if t else 0.0) + np.log(mass)
            if not mass >= TINY:
                sound[b], mass = False, 1.0
            scale[place] = mass
            share = 1.0 / mass
            for j in range(width):
                forward[place, j] *= share


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _backward(longest, starts, node, turned, weights, forward, scale, mean, onward, sound):
    """Marginals times the weights of their sequences; onward[t] leads from t to t + 1."""
    width = turned.shape[0]
    longer = 0
    for t in range(longest - 1, -1, -1):
        here, active = starts[t], starts[t + 1] - starts[t]
        if longer:
            np.dot(onward[here : here + longer], turned, mean[here : here + longer])
        for b in range(longer, active):
            for j in range(width):
                mean[here + b, j] = weights[b]
                onward[here + b, j] = 0.0
        longer = active
        last = starts[t - 1] if t else 0
        for b in range(active):
            place, origin = here + b, last + b
            share, total = 1.0 / scale[place], 0.0
            for j in range(width):
                back = mean[place, j]
                total += back
                mean[place, j] = forward[place, j] * back
                node[place, j] *= back * share
            if not total <= weights[b] / TINY:
                sound[b] = False
            if t:
                for j in range(width):
                    onward[origin, j] = node[place, j]


@njit(cache=True, nogil=True)
def best_paths(values, codes, tokens, state, pairs, table, edge, cuts, k, out, first, last):
    """Write the states of the best path of each sequence, one per token."""
    width = table.shape[1]
    longest = 1
    for row in range(first, last):
        longest = max(longest, cuts[row + 1] - cuts[row])
    unary = np.empty((longest, width))
    best = np.empty((longest, width))
    for row in range(first, last):
        begin, end = cuts[row], cuts[row + 1]
        for t in range(begin, end):
            _token_scores(values, codes, tokens, state, pairs, table, t, unary[t - begin])
            unary[t - begin, k:] = -np.inf
        best_path(unary[: end - begin], edge, 0, best, out[begin:end])


@njit(cache=True, nogil=True)
def _token_scores(values, codes, tokens, state, pairs, table, t, row):
    row[:] = 0.0
    for i in range(tokens[t], tokens[t + 1]):
        code = codes[i]
        value = values[i] if values.size else 1.0
        if code < 0:
            whole = table[~code]
            for j in range(row.size):
                row[j] += value * whole[j]
            continue
        while state[code] >= 0:
            row[state[code]] += value * pairs[code]
            code += 1
        row[~state[code]] += value * pairs[code]


@njit(cache=True, nogil=True)
def _add_token_moments(values, codes, tokens, state, pairs, table, t, row):
    for i in range(tokens[t], tokens[t + 1]):
        code = codes[i]
        value = values[i] if values.size else 1.0
        if code < 0:
            whole = table[~code]
            for j in range(row.size):
                whole[j] += value * row[j]
            continue
        while state[code] >= 0:
            pairs[code] += value * row[state[code]]
            code += 1
        pairs[code] += value * row[~state[code]]


@njit(cache=True, nogil=True)
def mark_pairs(attributes, tokens, labels, marks):
    """Mark the pairs (attribute, label) that occur."""
    for t in range(len(labels)):
        for i in range(tokens[t], tokens[t + 1]):
            marks[attributes[i], labels[t]] = True
