"""Numbers of names: an open hash table over the bytes of all names, joined.

Name i of a batch is ``text[starts[i] : starts[i + 1] - 1]``, with one byte between two names. Known
names are joined without gaps, cut at ``known_starts``; a slot holds a name's hash and its number,
counted from 1, or 0 where it is free.
"""

import numpy as np

from maxent._kernels.compiling import njit

_BASIS = np.uint64(14695981039346656037)  # FNV-1a, 64 bits
_PRIME = np.uint64(1099511628211)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_ONE = np.uint64(1)


@njit(cache=True, nogil=True)
def cut_names(text, gap, starts):
    """Write where names begin; False where there are not as many gaps as between the names."""
    found = 0
    for i in range(text.size):
        if text[i] == gap:
            found += 1
            if found == starts.size - 1:
                return False
            starts[found] = i + 1
    starts[-1] = text.size + 1
    return found == starts.size - 2


@njit(cache=True, nogil=True)
def _hash(text, begin, end):
    code = _BASIS
    for i in range(begin, end):
        code = (code ^ np.uint64(text[i])) * _PRIME
    code *= _MIX  # the low bits of short names alone are too alike
    return code ^ (code >> _HALF)


@njit(cache=True, nogil=True)
def hashes_of(text, starts, mask, out, first, last):
    """Write the hash of each name, cut to the bits of the mask."""
    for i in range(first, last):
        out[i] = _hash(text, starts[i], starts[i + 1] - 1) & mask


@njit(cache=True, nogil=True)
def find_names(text, starts, slots, out, first, last):
    """Write the number of each name, -1 for names that are not known.

    Names of one hash count as one here: of a million names, two share 64 bits once in 10^7 cases.
    """
    mask = np.uint64(len(slots) - 1)
    for i in range(first, last):
        code = _hash(text, starts[i], starts[i + 1] - 1)
        at = code & mask
        while slots[at, 1] and slots[at, 0] != code:
            at = (at + _ONE) & mask
        out[i] = np.int64(slots[at, 1]) - 1


@njit(cache=True, nogil=True)
def add_names(text, starts, slots, known, known_starts, count, out):
    """Write the number of each name, new names in their order; return how many are known now.

    There is room for all names of the batch in ``known`` and ``known_starts``, and free slots.
    """
    mask = np.uint64(len(slots) - 1)
    for i in range(out.size):
        begin, end = starts[i], starts[i + 1] - 1
        code = _hash(text, begin, end)
        at = code & mask
        while slots[at, 1] and not (
            slots[at, 0] == code
            and _same(text, begin, end, known, known_starts, np.int64(slots[at, 1]) - 1)
        ):
            at = (at + _ONE) & mask
        if not slots[at, 1]:
            place = known_starts[count]
            for j in range(begin, end):
                known[place + j - begin] = text[j]
            known_starts[count + 1] = place + end - begin
            count += 1
            slots[at, 0], slots[at, 1] = code, np.uint64(count)
        out[i] = np.int64(slots[at, 1]) - 1
    return count


@njit(cache=True, nogil=True)
def _same(text, begin, end, known, known_starts, number):
    """Whether a name is the known one of a number."""
    place = known_starts[number]
    if known_starts[number + 1] - place != end - begin:
        return False
    i = begin
    while i < end and text[i] == known[place + i - begin]:
        i += 1
    return i == end


@njit(cache=True, nogil=True)
def move_slots(old, new):
    """Copy a table into a larger, empty one."""
    mask = np.uint64(len(new) - 1)
    for i in range(len(old)):
        if old[i, 1]:
            at = old[i, 0] & mask
            while new[at, 1]:
                at = (at + _ONE) & mask
            new[at] = old[i]


@njit(cache=True, nogil=True)
def any_twice(attributes, tokens, seen):
    """Whether a token has an attribute twice; ``seen`` has -1 for each attribute."""
    for t in range(tokens.size - 1):
        for i in range(tokens[t], tokens[t + 1]):
            if seen[attributes[i]] == t:
                return True
            seen[attributes[i]] = t
    return False
