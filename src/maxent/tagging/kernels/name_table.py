"""Numbers of names: an open hash table over the bytes of all names, joined.

Name i of a batch is ``text[starts[i] : starts[i + 1] - 1]``, with one byte between two names. Known
names are joined without gaps, cut at ``known_starts``; a slot holds a name's hash and its number,
counted from 1, or 0 where it is free.
"""

import numpy as np

from maxent._support.compiling.kernels import njit

_BASIS = np.uint64(14695981039346656037)
_PRIME = np.uint64(0x9E3779B97F4A7C15)
_HALF, _BYTE, _ONE = np.uint64(32), np.uint64(8), np.uint64(1)


@njit(cache=True, nogil=True)
def _mix(code, word):
    code = (code ^ word) * _PRIME
    return code ^ (code >> _HALF)


@njit(cache=True, nogil=True)
def hash_names(text, gap, starts, codes):
    """Write where names begin and their hashes; False where there are not as many gaps as between.

    A hash mixes eight bytes at a time, and the length.
    """
    found, size, code, word = 0, 0, _BASIS, np.uint64(0)
    for i in range(text.size):
        if text[i] == gap:
            if found == codes.size - 1:
                return False
            codes[found] = _mix(_mix(code, word), np.uint64(size))
            found += 1
            starts[found] = i + 1
            size, code, word = 0, _BASIS, np.uint64(0)
        else:
            word = (word << _BYTE) | np.uint64(text[i])
            size += 1
            if size & 7 == 0:
                code, word = _mix(code, word), np.uint64(0)
    codes[found] = _mix(_mix(code, word), np.uint64(size))
    starts[-1] = text.size + 1
    return found == codes.size - 1


@njit(cache=True, nogil=True)
def hash_between(text, starts, codes):
    """Write the hashes of names that are cut already."""
    for i in range(codes.size):
        begin = starts[i]
        code, word = _BASIS, np.uint64(0)
        size = starts[i + 1] - 1 - begin
        for j in range(size):
            word = (word << _BYTE) | np.uint64(text[begin + j])
            if j & 7 == 7:
                code, word = _mix(code, word), np.uint64(0)
        codes[i] = _mix(_mix(code, word), np.uint64(size))


@njit(cache=True, nogil=True)
def find_names(codes, slots, out):
    """Write the number of each name, -1 for names that are not known.

    Names of one hash count as one here: of a million names, two share 64 bits once in 10^7 cases.
    """
    mask = np.uint64(len(slots) - 1)
    for i in range(codes.size):
        code = codes[i]
        at = code & mask
        while slots[at, 1] and slots[at, 0] != code:
            at = (at + _ONE) & mask
        out[i] = np.int64(slots[at, 1]) - 1


@njit(cache=True, nogil=True)
def add_names(text, starts, codes, slots, known, known_starts, count, out):
    """Write the number of each name, new names in their order; return how many are known now.

    There is room for all names of the batch in ``known`` and ``known_starts``, and free slots.
    """
    mask = np.uint64(len(slots) - 1)
    for i in range(out.size):
        begin, end, code = starts[i], starts[i + 1] - 1, codes[i]
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
