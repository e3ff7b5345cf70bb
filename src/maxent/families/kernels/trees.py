"""Trees on cells: sums by bin for their search, and the values of many trees, eight to a byte.

A tree is an array of nodes, parents before children. A node sends a cell to ``left`` where
x <= threshold (or its level is in the node's set) and to ``right`` otherwise; these are numbers of
later nodes, or -1 and -2 for leaves labelled 0 and 1.
"""

import numpy as np

from maxent._support.compiling.kernels import njit, twin


@njit(cache=True, nogil=True)
def sum_bins(codes, order, r, firsts, out):
    """out[firsts[v] + bin] += r_i, for every variable v and the cells i in ``order``."""
    for k in range(order.size):
        i = order[k]
        mass = r[i]
        for v in range(codes.shape[1]):
            out[firsts[v] + codes[i, v]] += mass


@twin(sum_bins)
def sum_bins_at_once(codes, order, r, firsts, out):
    """The same in numpy."""
    mass = r[order]
    for v in range(codes.shape[1]):  # bins of different variables are different ones
        np.add.at(out, firsts[v] + codes[order, v].astype(np.int64), mass)


@njit(cache=True, nogil=True)
def _gain(a, b):
    """[a]_+ + [b]_+ - [a + b]_+, without cancellation."""
    return min(abs(a), abs(b)) if (a > 0.0) != (b > 0.0) else 0.0


def _gains(a, b):
    """``_gain`` in numpy."""
    return np.where((a > 0.0) != (b > 0.0), np.minimum(np.abs(a), np.abs(b)), 0.0)


@njit(cache=True, nogil=True)
def best_split(sums, firsts, n_continuous, total, noise, goes_left):
    """The split of a leaf with the largest gain: that gain, its variable and the sum of its left.

    ``sums`` are those of r by bin, ``total`` that of the leaf. ``goes_left``, zeros at first, gets
    a 1 for every bin of the variable that goes left. Of splits as good up to ``noise`` the first
    is taken.
    """
    best, variable, cut, below = 0.0, -1, 0.0, 0.0
    for v in range(firsts.size - 1):
        here = sums[firsts[v] : firsts[v + 1]]
        if v < n_continuous:
            left = 0.0
            for c in range(here.size - 1):
                left += here[c]
                gain = _gain(left, total - left)
                if gain > best + noise:
                    best, variable, cut, below = gain, v, float(c), left
        else:  # levels of one sign: [R_left]_+ + [R_right]_+ <= the sum of [R_level]_+ for any set
            for sign in (-1.0, 1.0):
                left = 0.0
                for c in range(here.size - 1):  # the last bin, of unknown levels, is in no set
                    if sign * here[c] > noise:
                        left += here[c]
                gain = _gain(left, total - left)
                if gain > best + noise:
                    best, variable, cut, below = gain, v, sign, left
    if variable >= 0:
        here = sums[firsts[variable] : firsts[variable + 1]]
        for c in range(here.size - 1):
            goes_left[c] = c <= cut if variable < n_continuous else cut * here[c] > noise
    return best, variable, below


@twin(best_split)
def best_split_at_once(sums, firsts, n_continuous, total, noise, goes_left):
    """The same in numpy."""
    best, variable, cut, below = 0.0, -1, 0.0, 0.0
    for v in range(firsts.size - 1):
        here = sums[firsts[v] : firsts[v + 1] - 1]
        if v < n_continuous:
            left, cuts = np.cumsum(here), range(here.size)
        else:
            cuts = (-1.0, 1.0)
            chosen = np.where(np.multiply.outer(cuts, here) > noise, here, 0.0)
            left = np.cumsum(chosen, axis=1)[:, -1] if here.size else np.zeros(2)
        gains = _gains(left, total - left)
        more = gains > best + noise
        while more.any():
            c = int(more.argmax())
            best, variable, cut, below = float(gains[c]), v, float(cuts[c]), float(left[c])
            more[: c + 1] = False
            more &= gains > best + noise
    if variable >= 0:
        here = sums[firsts[variable] : firsts[variable + 1] - 1]
        taken = np.arange(here.size) <= cut if variable < n_continuous else cut * here > noise
        goes_left[: here.size] = taken
    return best, variable, below


@njit(cache=True, nogil=True)
def partition(codes, variable, goes_left, order, spare):
    """Put the cells that go left first, each side in the order it had; how many they are."""
    left, right = 0, 0
    for k in range(order.size):
        i = order[k]
        goes = np.int64(goes_left[codes[i, variable]])
        order[left] = i
        spare[right] = i
        left += goes
        right += 1 - goes
    for k in range(right):
        order[left + k] = spare[k]
    return left


@twin(partition)
def partition_at_once(codes, variable, goes_left, order, spare):
    """The same in numpy."""
    goes = goes_left[codes[order, variable]] != 0
    parts = order[goes], order[~goes]
    order[:] = np.concatenate(parts)
    spare[: parts[1].size] = parts[1]
    return parts[0].size


@njit(cache=True, nogil=True)
def mark_trees(
    values, codes, variable, threshold, left, right, offsets, members, sets, first, bit, start, out
):
    """Set the bits from ``bit`` on to the trees from ``first`` on, at the cells from ``start``.

    A node's value at a cell is that of its left or right child, so nodes go from last to first.
    """
    count = min(offsets.size - 1 - first, 8 - bit)
    levels, nodes = 0, 0
    for k in range(members.size):
        levels = max(levels, members[k] + 1)
    for t in range(first, first + count):
        nodes = max(nodes, offsets[t + 1] - offsets[t])
    rows = np.empty((nodes + 2, out.size), np.uint8)  # leaves labelled 0 and 1, then nodes
    for i in range(out.size):
        rows[0, i], rows[1, i] = 0, 1
    for t in range(first, first + count):
        for node in range(offsets[t + 1] - 1, offsets[t] - 1, -1):
            a = rows[left[node] + 2 if left[node] >= 0 else -1 - left[node]]
            b = rows[right[node] + 2 if right[node] >= 0 else -1 - right[node]]
            row = rows[node - offsets[t] + 2]
            v = variable[node]
            if v < values.shape[0]:
                x, cut = values[v, start : start + out.size], threshold[node]
                for i in range(x.size):
                    one, other = a[i], b[i]  # loads without a condition run in vector registers
                    row[i] = one if x[i] <= cut else other
            else:
                level = codes[v - values.shape[0], start : start + out.size]
                table = np.zeros(levels, np.uint8)
                for k in range(sets[node], sets[node + 1]):
                    table[members[k]] = 1
                for i in range(level.size):
                    inside = 0 <= level[i] < levels and table[level[i]] == 1
                    row[i] = a[i] if inside else b[i]
        top = rows[2]
        for i in range(out.size):
            out[i] |= top[i] << np.uint8(bit + t - first)


@njit(cache=True, nogil=True)
def sum_bytes(packed, p, out):
    """out[byte] += p_i."""
    turns = np.zeros((4, 256))  # neighbours are often alike, and a sum waits for its last addition
    whole = packed.size // 4
    for i in range(whole):
        for k in range(4):
            turns[k, packed[4 * i + k]] += p[4 * i + k]
    for i in range(4 * whole, packed.size):
        out[packed[i]] += p[i]
    for k in range(4):
        for byte in range(256):
            out[byte] += turns[k, byte]


@twin(sum_bytes)
def sum_bytes_at_once(packed, p, out):
    """The same in numpy."""
    whole = packed.size - packed.size % 4
    turns = [np.bincount(packed[k:whole:4], p[k:whole:4], 256) for k in range(4)]
    np.add.at(out, packed[whole:], p[whole:])
    for turn in turns:
        out += turn


@njit(cache=True, nogil=True)
def add_bytes(packed, table, theta):
    """theta += table[byte]."""
    for i in range(packed.size):
        theta[i] += table[packed[i]]


@twin(add_bytes)
def add_bytes_at_once(packed, table, theta):
    """The same in numpy."""
    theta += table[packed]


@njit(cache=True, nogil=True)
def write_bits(packed, bits, rows, root, out):
    """out[rows[j], i] = root_i where bit ``bits[j]`` is set, 0 elsewhere."""
    for j in range(bits.size):
        mask, row = np.uint8(1 << bits[j]), out[rows[j]]
        for i in range(packed.size):
            row[i] = root[i] if packed[i] & mask else 0.0


@twin(write_bits)
def write_bits_at_once(packed, bits, rows, root, out):
    """The same in numpy."""
    for bit, row in zip(bits, rows, strict=True):
        out[row] = np.where(packed & np.uint8(1 << bit), root[: packed.size], 0.0)


@njit(cache=True, nogil=True)
def _leaf_of(codes, i, variable, goes_left, left, right, node):
    """The label of the leaf that cell i reaches from a node, or from a leaf itself."""
    while node >= 0:
        node = left[node] if goes_left[node, codes[i, variable[node]]] else right[node]
    return -1 - node


@njit(cache=True, nogil=True)
def sum_leaves(codes, order, r, variable, goes_left, left, right, out):
    """out[node, side] += r_i, for the leaf that each cell i in ``order`` reaches."""
    for k in range(order.size):
        i = order[k]
        node, last, side = 0, 0, 0
        while node >= 0:
            last = node
            side = 0 if goes_left[node, codes[i, variable[node]]] else 1
            node = left[node] if side == 0 else right[node]
        out[last, side] += r[i]


@njit(cache=True, nogil=True)
def sum_resplit(codes, order, r, variable, goes_left, left, right, above, side, firsts, out):
    """out[firsts[v] + bin] += r_i (a_i - b_i), over the cells in ``order`` that reach a node.

    The node is above[-1]; ``above`` leads to it by the ``side`` taken at each node before it. a_i
    and b_i are the labels that the cell gets where it goes left and right there.
    """
    node = above[-1]
    for k in range(order.size):
        i = order[k]
        comes = True
        for step in range(above.size - 1):
            up = above[step]
            if (goes_left[up, codes[i, variable[up]]] == 1) != (side[step] == 0):
                comes = False
                break
        if not comes:
            continue
        a = _leaf_of(codes, i, variable, goes_left, left, right, left[node])
        b = _leaf_of(codes, i, variable, goes_left, left, right, right[node])
        if a != b:
            mass = r[i] * (a - b)
            for v in range(codes.shape[1]):
                out[firsts[v] + codes[i, v]] += mass


@njit(cache=True, nogil=True)
def sum_pairs(codes, r, variable, firsts, out):
    """out[bin of the variable, firsts[v] + bin] += r_i, for every variable v and all cells."""
    for i in range(r.size):
        row = codes[i, variable]
        for v in range(codes.shape[1]):
            out[row, firsts[v] + codes[i, v]] += r[i]


@njit(cache=True, nogil=True)
def row_gains(rows, firsts, n_continuous, totals, out):
    """out[s] = the largest gain of one split of cells whose sums by bin are rows[s]."""
    for s in range(len(rows)):
        best = 0.0
        for v in range(firsts.size - 1):
            if v < n_continuous:
                left = 0.0
                for c in range(firsts[v], firsts[v + 1] - 1):
                    left += rows[s, c]
                    best = max(best, _gain(left, totals[s] - left))
            else:
                left = 0.0
                for c in range(firsts[v], firsts[v + 1]):
                    left += min(rows[s, c], 0.0)
                best = max(best, _gain(left, totals[s] - left))
        out[s] = best


@twin(row_gains)
def row_gains_at_once(rows, firsts, n_continuous, totals, out):
    """The same in numpy."""
    out[:] = 0.0
    for v in range(firsts.size - 1):
        here = rows[:, firsts[v] : firsts[v + 1] - (v < n_continuous)]
        left = np.cumsum(here if v < n_continuous else np.minimum(here, 0.0), axis=1)
        if here.size:
            left = left if v < n_continuous else left[:, -1:]
            np.maximum(out, _gains(left, totals[:, None] - left).max(axis=1), out=out)


@njit(cache=True, nogil=True)
def set_value(pairs, firsts, n_continuous):
    """The largest value of trees that ask for a set of levels first, then for one variable more.

    ``pairs`` are the sums by level and by bin of every variable. With x and y those of a level on
    both sides of a threshold, every level goes where it is worth more: to the node, where x or y
    counts, or to the leaf, where both or none do. Sets of a second category have all of theirs.
    """
    best = 0.0
    levels = len(pairs)
    x = np.empty(levels)
    for v in range(firsts.size - 1):
        total = np.zeros(levels)
        for c in range(firsts[v], firsts[v + 1]):
            for k in range(levels):
                total[k] += pairs[k, c]
        if v >= n_continuous:
            both = 0.0
            for c in range(firsts[v], firsts[v + 1]):
                for k in range(levels):
                    both += max(pairs[k, c], 0.0)
            best = max(best, both)
            continue
        x[:] = 0.0
        for c in range(firsts[v], firsts[v + 1] - 1):
            x_all, y_all, x_up, y_up = 0.0, 0.0, 0.0, 0.0
            for k in range(levels):
                x[k] += pairs[k, c]
                y = total[k] - x[k]
                x_all += x[k]
                y_all += y
                x_up += max(x[k], 0.0)
                y_up += max(y, 0.0)
            best = max(best, x_up, y_up, x_all + y_up, y_all + x_up)
    return best
