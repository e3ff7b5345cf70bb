"""Exact sparse attention on CUDA, 1 < alpha <= 2: which kernels are launched, and on what.

With z = (alpha - 1) scale q.k the weights are p = (z - tau)_+^k, k = 1 / (alpha - 1). Queries get
lists of their keys (``_triton_candidates``), the lists are turned (``_triton_turned``), and
backward gathers the rows of both (``_triton_gradients``); short sequences and wide supports go tile
by tile (``_triton_tiles``).
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import lru_cache, partial

import torch
from maxent.torch.attention import (
    _plain_attention,
    _triton_candidates,
    _triton_gradients,
    _triton_tiles,
    _triton_turned,
)
from maxent.torch.attention import _triton_scores as scores
from maxent.torch.attention._kept import Kept, room
from maxent.torch.attention._lists import AttentionSupport
from maxent.torch.maps._launching import Plan

_ROWS = 128  # queries of a tile
_HEADS = 64  # keys of a tile of heads
_HELD = 1 << 27  # bytes of marked words held at a time
_EXPECTED = 32  # candidates of a query for which there is room at first
_WORDS = 16  # marked words of a query held at first in each of four lists
_KEPT = 64  # candidates of a query held in registers
_SHORT = 4096  # keys up to which tiles are faster: no lists to wait for
_SHORT_POWERS = 1024  # where every weight of a tile needs a logarithm
_DENSE = 160  # candidates of a query, on average, from which on tiles are faster
_STEPS = 24
_PROGRAMS = 1024  # that share the pieces of long lists
_TYPES = (torch.float16, torch.bfloat16, torch.float32)
_WIDEST = 256
_MOST_SHAPES = 1024
_shapes = {}  # of calls, by what their kernels are compiled for


def takes(given):
    """Whether these kernels are for these tensors; a look at an alpha would wait for the device."""
    q, v = given.query, given.value
    small = max(q.shape[3], v.shape[3]) <= _WIDEST and q.shape[:3].numel() < 1 << 31
    alpha = given.alpha
    right = isinstance(alpha, torch.Tensor) or 1 < alpha <= 2
    return q.dtype in _TYPES and small and right and given.bias is None and given.scale > 0


class _Shape(Plan):
    """Sizes, constants and compiled kernels for tensors of the same shapes and kinds."""

    def __init__(self, given):
        super().__init__()
        self.batch, self.heads, self.queries, width = given.query.shape
        self.shared, self.keys = given.key.shape[1:3]
        self.group, self.wide = given.group, given.value.shape[3]
        self.pairs, self.shared_pairs = self.batch * self.heads, self.batch * self.shared
        self.all_keys = self.shared_pairs * self.keys
        self.held = _WORDS  # grows where a query needs more
        self.entries = _EXPECTED * self.pairs * self.queries  # follows what was needed
        self.crowded = False  # whether there were too many the last time
        self.sizes = self.heads, self.group, self.queries, self.keys
        self.b_span = int(given.first is not None and len(given.first) > 1)
        alpha = 0.0 if isinstance(given.alpha, torch.Tensor) else given.alpha
        widths = {"WIDTH": width, "D": _padded(width)}
        self.wides = {"WIDE": self.wide, "DV": _padded(self.wide)}
        self.both = widths | self.wides
        self.learns = isinstance(given.alpha, torch.Tensor)
        self.seen = {"SPANS": given.first is not None, "SLOPED": given.slopes is not None}
        self.kind = {"KIND": {1.5: 2, 2.0: 1}.get(alpha, 0)}
        seen, kind = self.seen, self.kind
        most = max(widths["D"], self.wides["DV"])
        of_a_load = 32 * 16 // (most * given.query.element_size())  # 16 bytes for each thread
        gathered = {"G": 8 if most > 64 else 16, "R": max(of_a_load, 1)}
        self.warps = 8 if seen["SPANS"] else 4
        self.bound = widths | {"BM": _ROWS, "BN": _HEADS} | seen | kind
        self.mark = widths | {"BM": _ROWS} | seen
        kept = {"KEPT": _KEPT, "STEPS": _STEPS, "KEEP": given.keeps}
        sloped = {"SLOPED": seen["SLOPED"]}
        self.attend = self.both | kept | gathered | sloped | kind
        self.columns = self.both | gathered | kind
        self.by_query = widths | gathered | {"LEARNS": self.learns}
        self.centre = self.wides | {"BM": 16}
        self.norms = self.both | {"BN": 64}
        self.finish = self.both | {"BLOCK": 64}
        self.tiles = _triton_tiles.settings(self, given.query.dtype, given.keeps)

    def chunks(self, held):
        """Heads and tiles of queries whose marks are held at a time, in the order of rows."""
        tiles = _blocks(self.queries, _ROWS)
        most = max(_HELD // (_ROWS * held * 32), 1)  # tiles
        if tiles <= most:
            step = most // tiles
            return [(a, min(a + step, self.pairs), 0, tiles) for a in range(0, self.pairs, step)]
        cuts = range(0, tiles, most)
        return [(a, a + 1, b, min(b + most, tiles)) for a in range(self.pairs) for b in cuts]


def _blocks(number, size):
    return -(-number // size)


def _padded(width):
    return max(1 << (width - 1).bit_length(), 16)


def _changed_by_tests():
    """Settings that differ from call to call in the interpreter alone."""
    if not scores.INTERPRETED.value:
        return ()
    return (
        _ROWS,
        _HEADS,
        _KEPT,
        _HELD,
        _EXPECTED,
        _WORDS,
        _triton_turned.BLOCKS.value,
        _triton_turned.LIGHT.value,
    )


def _shape_of(given, *tensors):
    """The shape of a call: one for all of the same kind."""
    alpha, first = given.alpha, given.first
    learns = isinstance(alpha, torch.Tensor)
    key = (
        alpha if not learns and alpha in (1.5, 2.0) else 0.0, learns,
        0 if first is None else first.shape[0], given.slopes is None, given.keeps,
        tensors[0].dtype, tensors[0].get_device(),
        *[(x.shape, x.stride(), x.data_ptr() & 15) for x in tensors],
        *_changed_by_tests(),
    )  # fmt: skip
    known = _shapes.get(key)
    if known is None:
        if len(_shapes) > _MOST_SHAPES:
            _shapes.clear()
        known = _shapes[key] = _Shape(given)
    return known


def rows_last(x):
    """Rows without gaps between their numbers."""
    return x if x.stride(-1) == 1 else x.contiguous()


@lru_cache(maxsize=256)
def _known_alphas(alpha, heads, device):
    """Nothing writes to them."""
    return torch.full((heads,), alpha, dtype=torch.float32, device=device)


def _limits(given):
    """What a query sees, alphas and slopes; the last are tensors of their own: they are aligned."""
    if isinstance(given.alpha, torch.Tensor):
        alphas = given.alphas()
        alphas = alphas.clone() if alphas.data_ptr() & 15 else alphas
    else:
        alphas = _known_alphas(given.alpha, given.query.shape[1], given.query.device)
    slopes = alphas if given.slopes is None else given.slopes.detach().float()
    slopes = slopes.clone() if slopes.data_ptr() & 15 else slopes
    spans = (alphas, alphas) if given.first is None else (given.first, given.stop)
    return *spans, alphas, slopes


def _in_range(alpha):
    """Whether alphas that learn are for these kernels; this waits for the device."""
    return not isinstance(alpha, torch.Tensor) or bool(((alpha > 1) & (alpha <= 2)).all())


def forward(given):
    """The output, and lists or, on short sequences and where supports are wide, what tiles keep.

    Tiles are also for numbers that are not finite.
    """
    if not _in_range(given.alpha):
        return _plain_attention.forward(given)
    q, k, v = map(rows_last, (given.query, given.key, given.value))
    with on_device_of(q):
        shape, limits = _shape_of(given, q, k, v), _limits(given)
        if shape.keys > (_SHORT if shape.kind["KIND"] else _SHORT_POWERS):
            made = _by_lists(given, shape, (q, k, v), limits, _DENSE)
            if made is not None:
                return made
        return _triton_tiles.forward(given, shape, q, k, v, limits)


def _by_lists(given, shape, tensors, limits, most):
    """The output and lists; None where there are more entries than asked for, or no finite ones.

    Everything is launched with room for as many entries as the last time and some more, and done
    again where they were too many: nothing waits for the number in between.
    """
    most = min(most * shape.pairs * shape.queries, _triton_candidates.BAD.value - 1)
    if shape.crowded:  # the last time: first how many there are
        if _tried(given, shape, tensors, limits, None, shape.held)[1]()[0] > most:
            return None
        shape.crowded = False
    while True:
        entries, held = min(shape.entries, most), shape.held
        made, found = _tried(given, shape, tensors, limits, entries, held)
        total, used = found()
        if total > most:
            shape.crowded = True
            return None
        shape.entries = max(total * 9 // 8, shape.entries * 7 // 8) + 1024
        if used > held:
            shape.held = 1 << (used - 1).bit_length()
        elif total <= entries:
            break
    out, kept = made[0], made[1:]
    if not given.keeps:
        return out, Kept("lists")
    crow, col, root, turned, *rest = kept
    return out, Kept("lists", crow, col[:total], root[:total], turned[:total], *rest)


def _tried(given, shape, tensors, limits, entries, held):
    """The output and lists, if there is room; and what tells how much was needed.

    With entries None, how much is needed alone.
    """
    q, k, v = tensors
    tau, norms = room(given, "tau"), room(given, "norms").zero_()
    mean, mass = (room(given, "mean"), room(given, "mass")) if given.keeps else (tau, tau)
    count = norms.new_empty(len(tau))
    counts = norms.new_zeros(shape.all_keys * _triton_turned.BLOCKS.value + 1 if given.keeps else 0)
    out = v.new_empty(*q.shape[:3], shape.wide)
    places = *q.stride()[:3], *k.stride()[:3]
    shape.launch(
        _triton_candidates.norms_kernel, (shape.shared_pairs, _blocks(shape.keys, 64)),
        (k, v, norms, *k.stride()[:3], *v.stride()[:3], shape.shared, shape.keys),
        shape.norms, 4,
    )  # fmt: skip
    shape.launch(
        _triton_candidates.bound_kernel, (shape.pairs, _blocks(shape.queries, _ROWS)),
        (q, k, *limits, norms, tau, *places, shape.b_span, *shape.sizes, given.scale),
        shape.bound, shape.warps,
    )  # fmt: skip
    wide = partial(torch.empty, dtype=torch.int64, device=q.device)
    ends = wide(len(tau) + 2)  # behind the first, which is of what was used
    ends[:2] = 0
    needed, ends = ends[:1], ends[1:]
    if entries is not None:
        col, root = count.new_empty(entries), tau.new_empty(entries)
        place = torch.empty_like(col)
    chunks = shape.chunks(held)
    for x, (head0, head1, tile0, tile1) in enumerate(chunks):
        grid = head1 - head0, tile1 - tile0
        marked = grid[0] * grid[1] * _ROWS
        words, used = wide(marked * 4 * held), count.new_empty(marked * 4)
        row0, row1 = tile0 * _ROWS, min(tile1 * _ROWS, shape.queries)
        begin, end = head0 * shape.queries + row0, (head1 - 1) * shape.queries + row1
        shape.launch(
            _triton_candidates.mark_kernel, grid,
            (q, k, *limits, tau, words, count, used, needed, *places, shape.b_span, head0, tile0,
             tile1, held, *shape.sizes, given.scale),
            shape.mark, 4 if shape.seen["SPANS"] else 8, 2,
        )  # fmt: skip
        own = ends[begin + 1 : end + 1]
        torch.cumsum(count[begin:end], 0, out=own)
        if begin:
            own += ends[begin]
        if x == len(chunks) - 1:
            found = _asked(ends[-1:], needed)
        if entries is None:
            continue
        shape.launch(
            _triton_candidates.attend_kernel, (row1 - row0, grid[0]),
            (q, k, v, *limits[2:], tau, words, used, ends, col, root, place, counts, out, mean,
             mass, *places, *v.stride()[:3], head0, row0, grid[1] * _ROWS, held, entries,
             *shape.sizes, given.scale),
            shape.attend, 1,
        )  # fmt: skip
        del words, used  # before the next ones are made
    if entries is None or not given.keeps:
        return (out,), found
    turned = _turned(shape, counts, ends, col, root, place)
    return (out, ends, col, root, *turned, norms, mean, mass), found


def _asked(*numbers):
    """Whole numbers that are on their way from the device: a call waits for them alone."""
    if numbers[0].device.type != "cuda":
        return lambda: [int(x) for x in numbers]
    here = torch.empty(len(numbers), dtype=torch.int64, pin_memory=True)
    for x, number in enumerate(numbers):
        here[x : x + 1].copy_(number, non_blocking=True)
    there = torch.cuda.Event()
    there.record()

    def arrived():
        there.synchronize()
        return here.tolist()

    return arrived


def _turned(shape, counts, crow, col, root, place):
    """For each key its entries in the order of their rows; where they begin."""
    begins, tally = torch.cumsum(counts, 0, dtype=torch.int32), crow.new_empty(shape.all_keys + 1)
    shape.launch(
        _triton_turned.tally_kernel, (_blocks(shape.all_keys, 1024),),
        (begins, tally, shape.all_keys), {"BLOCK": 1024}, 4,
    )  # fmt: skip
    torch.cumsum(tally[1:], 0, out=tally[1:])
    found, ordered = crow.new_empty(len(col)), crow.new_empty(len(col))
    grid, given = (_blocks(shape.queries, 4), shape.pairs), (crow, col, root, place, begins, found)
    sizes = len(col), *shape.sizes
    shape.launch(_triton_turned.turn_kernel, grid, (*given, *sizes), {"BLOCK": 4}, 1)
    shape.launch(_triton_turned.order_kernel, grid, (*given, ordered, *sizes), {"BLOCK": 4}, 1)
    return ordered, tally


def on_device_of(x):
    """Kernels are launched on the current device."""
    there = x.get_device()
    if there < 0 or there == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(there)


def backward(given, kept, g):
    """Gradients of query, key, value and, one for each head, of alpha."""
    q, k, v, g = map(rows_last, (given.query, given.key, given.value, g))
    with on_device_of(q):
        shape, limits = _shape_of(given, q, k, v, g), _limits(given)
        if kept.by == "tiles":
            *made, by_alpha = _triton_tiles.backward(given, shape, kept, q, k, v, g, limits)
        else:
            q, g = q.contiguous(), g.contiguous()  # rows are found by their number alone
            *made, by_alpha = _backward(given, kept, shape, limits[2], q, k, v, g)
        if not shape.learns:
            return *made, None
        by_head = by_alpha.double().view(shape.batch, shape.heads, -1).sum((0, 2))
        return *made, by_head / (limits[2].double() - 1) ** 2


def _backward(given, kept, shape, alphas, q, k, v, g):
    crow, col, root, turned, tally, norms, mean, mass = kept[1:9]
    gmax = torch.zeros(shape.pairs, dtype=torch.int32, device=q.device)
    centre, ds, total = torch.empty_like(mass), torch.empty_like(root), len(col)
    shape.launch(
        _triton_gradients.centre_kernel, (shape.pairs, _blocks(shape.queries, 16)),
        (g, mean, mass, centre, gmax, *g.stride()[:3], shape.heads, shape.queries),
        shape.centre, 2,
    )  # fmt: skip
    dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    lists = alphas, root, centre, turned, tally
    sizes = shape.heads, shape.shared, shape.queries, shape.keys
    shape.launch(
        _triton_gradients.columns_kernel, (shape.keys, shape.shared_pairs),
        (q, v, g, *lists, ds, dk, dv, *v.stride()[:3], *sizes, given.scale),
        shape.columns, 1,
    )  # fmt: skip
    if shape.queries * shape.group > _triton_turned.LIGHT.value:
        room_for = max(2 * total // _triton_turned.LIGHT.value, 1) * (
            shape.both["D"] + shape.both["DV"]
        )
        sums = torch.zeros(room_for, dtype=torch.int64, device=q.device)
        shape.launch(
            _triton_gradients.shared_columns_kernel, (_PROGRAMS,),
            (q, v, g, *lists, ds, sums, norms, gmax, *v.stride()[:3], *sizes, shape.all_keys),
            shape.columns, 1,
        )  # fmt: skip
        shape.launch(
            _triton_gradients.finish_shared_kernel, (_blocks(shape.all_keys, 64),),
            (tally, sums, norms, gmax, dk, dv, *sizes, shape.all_keys, given.scale),
            shape.finish, 1,
        )  # fmt: skip
    by_alpha = torch.empty_like(mass) if shape.learns else mass
    shape.launch(
        _triton_gradients.queries_kernel, (shape.queries, shape.pairs),
        (k, crow, col, root, ds, dq, by_alpha, *k.stride()[:3], *shape.sizes, given.scale),
        shape.by_query, 1,
    )  # fmt: skip
    return dq, dk, dv, by_alpha


def support(given, kept, shape):
    """The weights: entries of the lists that are in the support, keys in rising order."""
    if kept.by == "tiles":
        q, k, v = map(rows_last, (given.query, given.key, given.value))
        with on_device_of(q):
            known = _shape_of(given, q, k, v)
            made = _by_lists(given, known, (q, k, v), _limits(given), known.keys)
        if made is None:  # NaN or inf
            return _plain_attention.support(given, kept, shape)
        kept = made[1]
    crow, col, root = kept[1:4]
    owner = torch.arange(len(crow) - 1, device=col.device).repeat_interleave(crow.diff())
    on = root > 0
    order = torch.argsort(owner[on] * given.key.shape[2] + col[on])
    col, root, owner = (x[on][order] for x in (col, root, owner))
    heads = owner // given.query.shape[2] % given.query.shape[1]
    value = root.double() ** (1 / (given.alphas(torch.float64)[heads] - 1))
    begins = torch.zeros_like(crow)
    torch.cumsum(torch.bincount(owner, minlength=len(crow) - 1), 0, out=begins[1:])
    total = torch.zeros(len(crow) - 1, dtype=torch.float64, device=col.device)
    value /= total.index_add_(0, owner, value)[owner]
    return AttentionSupport(begins, col, value.float(), shape)
