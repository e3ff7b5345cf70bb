"""Kernels that turn the lists of queries into lists of keys, in the order of the queries.

Programs count a key's queries in blocks of rows, each alone; within a block entries come in any
order, and are put at their ranks after that.
"""

from __future__ import annotations

import triton
import triton.language as tl

BLOCKS = tl.constexpr(32)  # of the queries that share a head of keys: each counts a key's alone
LIGHT = tl.constexpr(512)  # queries of a key beyond which several programs share them


@triton.jit
def tally_kernel(BEGINS, TALLY, all_keys, BLOCK: tl.constexpr):
    """What is summed along the keys: queries, and in the upper half the pieces of long lists."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    n = _many(BEGINS, at, at < all_keys)
    pieces = tl.where(n > LIGHT, (n + LIGHT - 1) // LIGHT, 0)
    tl.store(TALLY + 1 + at, (pieces.to(tl.int64) << 32) + n, mask=at < all_keys)
    tl.store(TALLY + at, tl.zeros_like(at), mask=at == 0)


@triton.jit
def _many(BEGINS, key, some):
    """The queries of a key."""
    BEGINS += key * BLOCKS
    return tl.load(BEGINS + BLOCKS, mask=some, other=0) - tl.load(BEGINS, mask=some, other=0)


@triton.jit
def list_of(TALLY, key):
    """Where the list of a key begins, and how long it is."""
    start, end = tl.load(TALLY + key) & 0xFFFFFFFF, tl.load(TALLY + key + 1) & 0xFFFFFFFF
    return start, (end - start).to(tl.int32)


@triton.jit
def _rows_of_some(CROW, entries, heads, group, queries, keys, BLOCK: tl.constexpr):
    """Some queries: rows, where their lists begin and end, first keys, blocks for counting."""
    pair, i = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = pair.to(tl.int64) * queries + i
    start = tl.load(CROW + row, mask=i < queries, other=0)
    stop = tl.load(CROW + row + 1, mask=i < queries, other=0)
    stop = tl.where(stop <= entries, stop, start)
    first = (pair // heads * (heads // group) + pair % heads // group).to(tl.int64) * keys
    block = (pair % heads % group * queries + i) // tl.cdiv(group * queries, BLOCKS)
    return row, start, stop, first, block


@triton.jit
def _next_entries(COL, ROOT, start, stop, first, x0):
    """Up to 32 entries of each query from x0 on: slots, which are in the support, their keys."""
    slot = start[:, None] + x0 + tl.arange(0, 32)[None, :]
    some = slot < stop[:, None]
    some = some & (tl.load(ROOT + slot, mask=some, other=0.0) > 0)
    return slot, some, first + tl.load(COL + slot, mask=some, other=0)


@triton.jit(do_not_specialize=["entries"])
def turn_kernel(
    CROW, COL, ROOT, PLACE, BEGINS, LIST, entries, heads, group, queries, keys,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Entries of some queries go to the lists of their keys: slots, rows in the upper half.

    In any order, but those of one block of queries before those of the next.
    """
    row, start, stop, first, block = _rows_of_some(
        CROW, entries, heads, group, queries, keys, BLOCK
    )
    for x0 in range(0, tl.max((stop - start).to(tl.int32), 0), 32):
        slot, some, key = _next_entries(COL, ROOT, start, stop, first, x0)
        at = tl.load(BEGINS + key * BLOCKS + block[:, None], mask=some, other=0)
        at += tl.load(PLACE + slot, mask=some, other=0)
        tl.store(LIST + at, (row << 32)[:, None] | slot, mask=some)


@triton.jit(do_not_specialize=["entries"])
def order_kernel(
    CROW, COL, ROOT, PLACE, BEGINS, LIST, ORDERED, entries, heads, group, queries, keys,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Entries of some queries at their ranks in the lists of their keys; long ones as they are."""
    row, start, stop, first, block = _rows_of_some(
        CROW, entries, heads, group, queries, keys, BLOCK
    )
    for x0 in range(0, tl.max((stop - start).to(tl.int32), 0), 32):
        slot, some, key = _next_entries(COL, ROOT, start, stop, first, x0)
        at = key * BLOCKS + block[:, None]
        begin = tl.load(BEGINS + at, mask=some, other=0)
        n = tl.load(BEGINS + at + 1, mask=some, other=0) - begin  # of the block alone
        long = _many(BEGINS, key, some & (n > LIGHT // BLOCKS)) > LIGHT
        n = tl.where(long, 0, n)
        one, rank = (row << 32)[:, None] | slot, tl.zeros_like(n)
        for y in range(0, tl.max(tl.max(n, 1), 0)):
            other = tl.load(LIST + begin + y, mask=y < n, other=1 << 62)
            rank += (other < one).to(tl.int32)
        place = tl.load(PLACE + slot, mask=some & long, other=0)
        tl.store(ORDERED + begin + tl.where(long, place, rank), one, mask=some)
