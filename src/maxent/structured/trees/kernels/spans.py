"""Sums and maxima over trees that are put together from spans, one tree per row.

A chart lists items, each after those it is made of. An item is a sum over ways; way t joins the
item at the address ``left + t`` with that at ``right + t pitch``, and what all ways share is the
score of one cell (head, dependent), if the item has any. Address 0 is nothing: a sum of 1. Items
are ordered by the end of their span, so the chart of a short sentence is the beginning of that of a
longer one: n nodes take the first ``goals[n]`` items, and the last of them is the whole tree.

A row holds n n ``labels`` scores [head, dependent, label]; a tree picks one label for every cell it
uses. All kernels take the flat values of a batch, where its rows are cut (offsets) and their
numbers of nodes, and work on the rows start, ..., stop - 1. Kernels that need a tree return -1, or
the first row without one.

Inside sums are plain numbers where these stay in range, logarithms elsewhere. Either way what goes
down is the chance of each way given its item, a quotient of positive numbers: nothing is
subtracted, and no probability leaves [0, 1].
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from maxent._support.compiling.kernels import njit
from maxent.core.kernels.exponential import exponential

# Plain sums are trusted while none exceeds 1 / _TINY and none below _TINY has a chance that could
# be seen: what underflows (below 1e-300) then moves no probability by more than 1e-100.
_TINY = 1e-100
# Trees of one more node are up to 6.75 times as many; half of that keeps flat and peaked scores
# equally far from either end.
_GROWTH = 1.0


class Chart(NamedTuple):
    """The items of sentences of up to some length."""

    target: Any  # address of the sum of each item
    left: Any
    right: Any
    ways: Any
    head: Any  # cell whose score the item earns; -1 for none
    dependent: Any
    goals: Any  # items of n nodes
    cells: Any  # cells in a tree of n nodes
    item: Any  # item at each address
    pitch: Any


@njit(cache=True, nogil=True)
def _longest(nodes, start, stop):
    longest = 1
    for row in range(start, stop):
        longest = max(longest, nodes[row])
    return longest


@njit(cache=True, nogil=True)
def _read(score, n, labels, chart, best, earned):
    """Write what each cell earns: the best of its labels, or log of the sum over them."""
    for v in range(chart.goals[n]):
        head = chart.head[v]
        if head < 0:
            continue
        cell = head * n + chart.dependent[v]
        if labels == 1:
            earned[cell] = score[cell]
            continue
        top, mass = -np.inf, 0.0
        for c in range(cell * labels, (cell + 1) * labels):
            top = max(top, np.float64(score[c]))
        if not best and top > -np.inf:
            for c in range(cell * labels, (cell + 1) * labels):
                mass += exponential(np.float64(score[c]) - top)
            top += math.log(mass)
        earned[cell] = top


@njit(cache=True, nogil=True)
def _best_pass(earned, n, chart, top):
    """Write the best score of each item; return that of the whole tree."""
    last, pitch = chart.target[chart.goals[n] - 1], chart.pitch
    top[0] = 0.0
    for v in range(chart.goals[n]):
        left, right, ways = chart.left[v], chart.right[v], chart.ways[v]
        best = top[left] + top[right]
        if ways > 1:
            lefts, rights = top[left : left + ways], top[right : right + ways * pitch : pitch]
            for t in range(ways):
                best = max(best, lefts[t] + rights[t])
        if chart.head[v] >= 0:
            best += earned[chart.head[v] * n + chart.dependent[v]]
        top[chart.target[v]] = best
    return top[last]


@njit(cache=True, helper=True, nogil=True)
def best_scores(score, n, labels, chart, earned, top):
    """Write what each cell earns and the best score of each item; return that of the tree."""
    _read(score, n, labels, chart, True, earned)
    return _best_pass(earned, n, chart, top)


@njit(cache=True, nogil=True)
def _log_pass(earned, n, chart, inside):
    """Write log of the sum over trees of each item; return that of the whole tree."""
    last, pitch = chart.target[chart.goals[n] - 1], chart.pitch
    inside[0] = 0.0
    for v in range(chart.goals[n]):
        left, right, ways = chart.left[v], chart.right[v], chart.ways[v]
        top, mass = inside[left] + inside[right], 0.0
        if ways > 1:
            lefts, rights = inside[left : left + ways], inside[right : right + ways * pitch : pitch]
            for t in range(ways):
                top = max(top, lefts[t] + rights[t])
            if top > -np.inf:
                for t in range(ways):
                    mass += math.exp(lefts[t] + rights[t] - top)
                top += math.log(mass)
        if chart.head[v] >= 0:
            top += earned[chart.head[v] * n + chart.dependent[v]]
        inside[chart.target[v]] = top
    return inside[last]


@njit(cache=True, nogil=True)
def log_inside(score, n, labels, chart, earned, inside):
    """Write log of the sum over trees of each item; return that of the whole tree."""
    _read(score, n, labels, chart, False, earned)
    return _log_pass(earned, n, chart, inside)


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"})
def _plain_pass(weight, n, chart, inside):
    """``_log_pass`` on plain numbers; return NaN where one is too large."""
    last, pitch = chart.target[chart.goals[n] - 1], chart.pitch
    inside[0] = 1.0
    largest = 0.0
    for v in range(chart.goals[n]):
        left, right, ways = chart.left[v], chart.right[v], chart.ways[v]
        if ways == 1:
            total = inside[left] * inside[right]
        else:
            total = 0.0
            lefts, rights = inside[left : left + ways], inside[right : right + ways * pitch : pitch]
            for t in range(ways):
                total += lefts[t] * rights[t]
        if chart.head[v] >= 0:
            total *= weight[chart.head[v] * n + chart.dependent[v]]
        inside[chart.target[v]] = total
        largest = max(largest, total)
    return inside[last] if largest < 1 / _TINY else np.nan


@njit(cache=True, nogil=True)
def _law(left, right, pitch, ways, inside, plain, law):
    """Write the chances of the ways of an item; return the sum of a plain one, -inf for no way."""
    if ways == 1:
        law[0] = 1.0
        return inside[left] * inside[right] if plain else inside[left] + inside[right]
    lefts, rights = inside[left : left + ways], inside[right : right + ways * pitch : pitch]
    mass = 0.0
    if plain:
        for t in range(ways):
            law[t] = lefts[t] * rights[t]
            mass += law[t]
        if not mass > 0.0:
            return -np.inf
        value = mass
    else:
        value = -np.inf
        for t in range(ways):
            law[t] = lefts[t] + rights[t]
            value = max(value, law[t])
        if value == -np.inf:
            return value
        for t in range(ways):
            law[t] = math.exp(law[t] - value)
            mass += law[t]
    inverse = 1.0 / mass
    for t in range(ways):
        law[t] *= inverse
    return value


@njit(cache=True, nogil=True)
def _sums(earned, n, chart, inside, weight):
    """Write inside sums; return log of that of the tree, and whether they are plain numbers.

    All trees of n nodes use as many cells, so a constant is taken off each: what remains is near 1
    for the best tree.
    """
    best = _best_pass(earned, n, chart, inside)
    if best == -np.inf:
        return best, False
    cells = chart.cells[n]
    share = best / cells + _GROWTH if cells else 0.0
    for i in range(n * n):
        weight[i] = exponential(min(earned[i] - share, 700.0))
    total = _plain_pass(weight, n, chart, inside)
    if _TINY < total < 1 / _TINY:
        return math.log(total) + share * cells, True
    return _log_sums(earned, n, chart, inside)


@njit(cache=True, nogil=True)
def _log_sums(earned, n, chart, inside):
    return _log_pass(earned, n, chart, inside), False


@njit(cache=True, nogil=True, fastmath={"contract"})
def _flow_down(n, chart, inside, weight, plain, flow, law):
    """Write the chance of each item; False where plain sums are too small to tell it."""
    pitch = chart.pitch
    flow[0] = 0.0
    for v in range(chart.goals[n]):
        flow[chart.target[v]] = 0.0
    flow[chart.target[chart.goals[n] - 1]] = 1.0
    for v in range(chart.goals[n] - 1, -1, -1):
        chance = flow[chart.target[v]]
        if not chance > 0.0:
            continue
        if chance > 1.0 or (chart.left[v] == 0 and chart.head[v] >= 0):  # leaves are in every tree
            chance = flow[chart.target[v]] = 1.0
        left, right, ways = chart.left[v], chart.right[v], chart.ways[v]
        if left == 0:
            continue
        if ways == 1:
            flow[left] += chance
            flow[right] += chance
            continue
        lefts, rights = flow[left : left + ways], flow[right : right + ways * pitch : pitch]
        if plain:
            total = inside[chart.target[v]]
            if chart.head[v] >= 0:
                total /= weight[chart.head[v] * n + chart.dependent[v]]
            if not total > _TINY:
                if chance > _TINY:
                    return False
                continue
            rate = chance / total
            here, there = inside[left : left + ways], inside[right : right + ways * pitch : pitch]
            for t in range(ways):
                part = rate * here[t] * there[t]
                lefts[t] += part
                rights[t] += part
            continue
        _law(left, right, pitch, ways, inside, plain, law)
        for t in range(ways):
            part = chance * law[t]
            lefts[t] += part
            rights[t] += part
    return True


@njit(cache=True, nogil=True)
def _chances(earned, n, chart, inside, weight, flow, law):
    """Inside sums and the chances of all items; the log-partition and whether sums are plain."""
    value, plain = _sums(earned, n, chart, inside, weight)
    if value > -np.inf and not _flow_down(n, chart, inside, weight, plain, flow, law):
        value, plain = _log_sums(earned, n, chart, inside)
        _flow_down(n, chart, inside, weight, plain, flow, law)
    return value, plain


@njit(cache=True, nogil=True)
def _label_law(score, cell, labels, law):
    """Write the chances of the labels of a cell that has any."""
    top, mass = -np.inf, 0.0
    for c in range(labels):
        top = max(top, np.float64(score[cell * labels + c]))
    for c in range(labels):
        law[c] = exponential(np.float64(score[cell * labels + c]) - top)
        mass += law[c]
    for c in range(labels):
        law[c] /= mass


@njit(cache=True, nogil=True)
def argmax_rows(theta, offsets, nodes, chart, labels, out, start, stop):
    """Write the best tree of each row."""
    longest = _longest(nodes, start, stop)
    earned, top = np.empty(longest * longest), np.empty(chart.item.size)
    waiting, pitch = np.empty(4 * longest + 2, np.int64), chart.pitch
    for row in range(start, stop):
        n = nodes[row]
        score, vertex = theta[offsets[row] : offsets[row + 1]], out[offsets[row] : offsets[row + 1]]
        for i in range(vertex.size):
            vertex[i] = 0.0
        _read(score, n, labels, chart, True, earned)
        if _best_pass(earned, n, chart, top) == -np.inf:
            return row
        waiting[0], count = chart.target[chart.goals[n] - 1], 1
        while count:
            count -= 1
            if waiting[count] == 0:
                continue
            v = chart.item[waiting[count]]
            if chart.head[v] >= 0:
                cell = chart.head[v] * n + chart.dependent[v]
                best = cell * labels
                for c in range(cell * labels, (cell + 1) * labels):
                    if score[c] > score[best]:
                        best = c
                vertex[best] = 1.0
            left, right, way = chart.left[v], chart.right[v], 0
            for t in range(1, chart.ways[v]):
                best, value = top[left + way] + top[right + way * pitch], top[left + t]
                if value + top[right + t * pitch] > best:
                    way = t
            waiting[count], waiting[count + 1] = left + way, right + way * pitch
            count += 2
    return -1


@njit(cache=True, nogil=True)
def softmax_rows(theta, offsets, nodes, chart, labels, log_partition, out, start, stop):
    """Write marginals and log-partitions."""
    longest = _longest(nodes, start, stop)
    earned, weight = np.empty(longest * longest), np.empty(longest * longest)
    inside, flow = np.empty(chart.item.size), np.empty(chart.item.size)
    law = np.empty(max(longest, labels))
    for row in range(start, stop):
        n = nodes[row]
        score, mean = theta[offsets[row] : offsets[row + 1]], out[offsets[row] : offsets[row + 1]]
        for i in range(n * n):
            earned[i] = -np.inf
        _read(score, n, labels, chart, False, earned)
        value, _ = _chances(earned, n, chart, inside, weight, flow, law)
        if value == -np.inf:
            return row
        log_partition[row] = value
        for i in range(mean.size):
            mean[i] = 0.0
        for v in range(chart.goals[n]):
            chance = flow[chart.target[v]]
            if chart.head[v] < 0 or not chance > 0.0:
                continue
            cell = chart.head[v] * n + chart.dependent[v]
            if labels == 1:
                mean[cell] = chance
                continue
            _label_law(score, cell, labels, law)
            for c in range(labels):
                mean[cell * labels + c] = chance * law[c]
    return -1


@njit(cache=True, nogil=True)
def covariance_rows(theta, offsets, nodes, chart, labels, along, out, start, stop):
    """Write the derivative of the marginals along a direction: the tree's covariance times it.

    ``gain`` is the expected sum of the direction over an item, ``slope`` the change of its chance.
    """
    longest = _longest(nodes, start, stop)
    earned, weight = np.empty(longest * longest), np.empty(longest * longest)
    inside, flow = np.empty(chart.item.size), np.empty(chart.item.size)
    gain, slope, pitch = np.empty(chart.item.size), np.empty(chart.item.size), chart.pitch
    law = np.empty(max(longest, labels))
    for row in range(start, stop):
        n = nodes[row]
        score, v_row = (
            theta[offsets[row] : offsets[row + 1]],
            along[offsets[row] : offsets[row + 1]],
        )
        change = out[offsets[row] : offsets[row + 1]]
        for i in range(n * n):
            earned[i] = -np.inf
        _read(score, n, labels, chart, False, earned)
        value, plain = _chances(earned, n, chart, inside, weight, flow, law)
        if value == -np.inf:
            return row
        for i in range(change.size):
            change[i] = 0.0
        gain[0] = slope[0] = 0.0
        for v in range(chart.goals[n]):
            target = chart.target[v]
            gain[target] = slope[target] = 0.0
            if not flow[target] > 0.0:
                continue
            if chart.head[v] >= 0:
                cell = chart.head[v] * n + chart.dependent[v]
                gain[target] = _expected_label(score, v_row, cell, labels, law)
            left, right, ways = chart.left[v], chart.right[v], chart.ways[v]
            gain[target] += _expected(left, right, pitch, ways, inside, plain, gain, law)
        for v in range(chart.goals[n] - 1, -1, -1):
            target = chart.target[v]
            chance, moved = flow[target], slope[target]
            if not chance > 0.0:
                continue
            if chart.head[v] >= 0:
                cell = chart.head[v] * n + chart.dependent[v]
                own = _expected_label(score, v_row, cell, labels, law)
                for c in range(labels):
                    here = cell * labels + c
                    change[here] = law[c] * moved
                    if law[c] > 0.0:
                        change[here] += law[c] * chance * (v_row[here] - own)
            left, right, ways = chart.left[v], chart.right[v], chart.ways[v]
            if left == 0:
                continue
            average = _expected(left, right, pitch, ways, inside, plain, gain, law)
            left_gain, right_gain = (
                gain[left : left + ways],
                gain[right : right + ways * pitch : pitch],
            )
            lefts, rights = slope[left : left + ways], slope[right : right + ways * pitch : pitch]
            for t in range(ways):
                part = law[t] * (moved + chance * (left_gain[t] + right_gain[t] - average))
                lefts[t] += part
                rights[t] += part
    return -1


@njit(cache=True, nogil=True)
def _expected(left, right, pitch, ways, inside, plain, gain, law):
    """The expected gain of what an item is made of, and the chances of its ways."""
    _law(left, right, pitch, ways, inside, plain, law)
    lefts, rights = gain[left : left + ways], gain[right : right + ways * pitch : pitch]
    total = 0.0
    for t in range(ways):
        if law[t] > 0.0:
            total += law[t] * (lefts[t] + rights[t])
    return total


@njit(cache=True, nogil=True)
def _expected_label(score, along, cell, labels, law):
    """The expected direction over the labels of a cell, and their chances."""
    if labels == 1:
        law[0] = 1.0
        return np.float64(along[cell])
    _label_law(score, cell, labels, law)
    total = 0.0
    for c in range(labels):
        if law[c] > 0.0:
            total += law[c] * along[cell * labels + c]
    return total


@njit(cache=True, nogil=True)
def _draw(law, count, uniform):
    """An index with the chances of the law."""
    rest, last = uniform, 0
    for i in range(count):
        if law[i] > 0.0:
            last = i
            rest -= law[i]
            if rest < 0.0:
                break
    return last


@njit(cache=True, nogil=True)
def sample_rows(theta, offsets, nodes, chart, labels, uniform, out, start, stop):
    """Draw one tree per row of ``uniform`` (samples, 4 total nodes), from the whole tree down."""
    longest = _longest(nodes, start, stop)
    earned, weight = np.empty(longest * longest), np.empty(longest * longest)
    inside, flow = np.empty(chart.item.size), np.empty(chart.item.size)
    law = np.empty(max(longest, labels))
    waiting, pitch = np.empty(4 * longest + 2, np.int64), chart.pitch
    first = 0
    for row in range(start):
        first += 4 * nodes[row]
    for row in range(start, stop):
        n = nodes[row]
        score = theta[offsets[row] : offsets[row + 1]]
        for i in range(n * n):
            earned[i] = -np.inf
        _read(score, n, labels, chart, False, earned)
        value, plain = _chances(earned, n, chart, inside, weight, flow, law)
        if value == -np.inf:
            return row
        for sample in range(len(uniform)):
            vertex = out[sample, offsets[row] : offsets[row + 1]]
            for i in range(vertex.size):
                vertex[i] = 0.0
            waiting[0], count, used = chart.target[chart.goals[n] - 1], 1, first
            while count:
                count -= 1
                if waiting[count] == 0:
                    continue
                v = chart.item[waiting[count]]
                if chart.head[v] >= 0:
                    cell, label = chart.head[v] * n + chart.dependent[v], 0
                    if labels > 1:
                        _label_law(score, cell, labels, law)
                        label = _draw(law, labels, uniform[sample, used])
                        used += 1
                    vertex[cell * labels + label] = 1.0
                left, right, ways, way = chart.left[v], chart.right[v], chart.ways[v], 0
                if ways > 1:
                    _law(left, right, pitch, ways, inside, plain, law)
                    way = _draw(law, ways, uniform[sample, used])
                    used += 1
                waiting[count], waiting[count + 1] = left + way, right + way * pitch
                count += 2
        first += 4 * n
    return -1


@njit(cache=True, nogil=True)
def entropy_rows(theta, offsets, nodes, chart, labels, other, relative, out, start, stop):
    """Write the entropy of the trees of theta, or their divergence from those of ``other``.

    A sum over items of chance times the entropy (divergence) of its ways and labels, each of them
    positive: nothing cancels. The divergence is inf where ``other`` forbids a tree that has a
    chance.
    """
    longest = _longest(nodes, start, stop)
    earned, weight = np.empty(longest * longest), np.empty(longest * longest)
    inside, flow = np.empty(chart.item.size), np.empty(chart.item.size)
    law, law_other = np.empty(max(longest, labels)), np.empty(max(longest, labels))
    inside_other, pitch = np.empty(chart.item.size), chart.pitch
    for row in range(start, stop):
        n = nodes[row]
        score = theta[offsets[row] : offsets[row + 1]]
        score_other = other[offsets[row] : offsets[row + 1]]
        for i in range(n * n):
            earned[i] = -np.inf
        _read(score, n, labels, chart, False, earned)
        value, plain = _chances(earned, n, chart, inside, weight, flow, law)
        if value == -np.inf:
            return row
        if relative:
            _read(score_other, n, labels, chart, False, earned)
            if _log_pass(earned, n, chart, inside_other) == -np.inf:
                return row
        total = 0.0
        for v in range(chart.goals[n]):
            chance = flow[chart.target[v]]
            if not chance > 0.0:
                continue
            if chart.head[v] >= 0:
                cell = chart.head[v] * n + chart.dependent[v]
                if labels > 1:
                    _label_law(score, cell, labels, law)
                if relative and inside_other[chart.target[v]] == -np.inf:
                    total = np.inf
                    break
                if relative and labels > 1:
                    _label_law(score_other, cell, labels, law_other)
                if labels > 1:
                    total += chance * _disorder(law, law_other, labels, relative)
            left, right, ways = chart.left[v], chart.right[v], chart.ways[v]
            if ways > 1:
                _law(left, right, pitch, ways, inside, plain, law)
                if relative:
                    known = _law(left, right, pitch, ways, inside_other, False, law_other)
                    if known == -np.inf:
                        total = np.inf
                        break
                total += chance * _disorder(law, law_other, ways, relative)
        out[row] = total
    return -1


@njit(cache=True, nogil=True)
def _disorder(law, other, count, relative):
    """The entropy of a law, or its divergence from another."""
    total = 0.0
    for t in range(count):
        p = law[t]
        if not p > 0.0:
            continue
        if not relative:
            total -= p * math.log(p)
        elif other[t] > 0.0:
            # p log(p / q) - p + q >= 0, whose last terms sum to nothing
            total += max(p * math.log(p / other[t]) - p + other[t], 0.0)
        else:
            return np.inf
    if relative:
        for t in range(count):
            if not law[t] > 0.0:
                total += other[t]
    return total
