"""Sums over alignments of CTC as Triton kernels: one program per sequence, then one per position.

The functions of ``_ctc_plain``, which takes over where a target is too long for the registers of a
program. As in the core's kernels, lane j holds the blank before label j and label j, each a mass
from 1 to 2 with a power of two of its own: no step takes a logarithm, and no range of scores is too
wide. Labels that a target has several times are summed one after another, so that results are the
same in every run.
"""

from __future__ import annotations

import triton
import triton.language as tl

import torch
from maxent.torch.structured import _ctc_plain
from torch import Tensor

_MOST_LANES = 2048
_AHEAD = 1 << 16  # bytes of shared memory for what is loaded ahead
_MOST_COLUMNS = 1024  # of a row of labels, at a time

_LN2 = tl.constexpr(0.6931471805599453)
_LN2_HIGH = tl.constexpr(0.693147180369123816490)  # 33 bits, so that multiples of it are exact
_LN2_LOW = tl.constexpr(1.90821492927058770002e-10)
_LOG2_E = tl.constexpr(1.4426950408889634)
_ROUND = tl.constexpr(6755399441055744.0)  # 1.5 2^52: adding it rounds to a whole number
_EXPONENT = tl.constexpr(4503599627371519.0)  # 2^52 + 1023: n is added in the last bits
_HIGH_BITS = tl.constexpr(0x4330000000000000)  # of 2^52
_MANTISSA = tl.constexpr(0x000FFFFFFFFFFFFF)
_ONE = tl.constexpr(0x3FF0000000000000)
_LEAST_POWER = tl.constexpr(-500.0)  # of what matters beside 1 in a state
_LEAST_SHARE = tl.constexpr(1e-150)


@triton.jit
def _parts(x):
    """(p, n) with exp(x) = p 2^n for any x below infinity: p is near 1, or 0 for -inf."""
    n = (x * _LOG2_E + _ROUND) - _ROUND
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    p = tl.exp(tl.minimum(tl.maximum(r, -1.0), 1.0))  # of a huge x, r is a rounding of x
    return tl.where(x > -float("inf"), p, 0.0), n


@triton.jit
def _power(n):
    """2^n for a whole n up to 0, and 0 where it is of no matter beside 1."""
    at = tl.where(n > _LEAST_POWER, n, -1023.0) + _EXPONENT
    return (at.to(tl.int64, bitcast=True) << 52).to(tl.float64, bitcast=True)


@triton.jit
def _normalised(mass, power):
    """A mass 2^power as one from 1 to 2, times another power; that of 0 is -inf."""
    bits = mass.to(tl.int64, bitcast=True)
    n = ((bits >> 52) | _HIGH_BITS).to(tl.float64, bitcast=True) - _EXPONENT
    one = ((bits & _MANTISSA) | _ONE).to(tl.float64, bitcast=True)
    some = mass > 0.0
    return tl.where(some, one, 0.0), tl.where(some, power + n, -float("inf"))


@triton.jit
def _sum_of_blank(blank, power, label, label_power):
    """The sum of what comes to a blank, its power of two, and the shares of stay and step."""
    top = tl.maximum(power, label_power)
    stay, step = blank * _power(power - top), label * _power(label_power - top)
    total = stay + step
    whole = tl.where(total > 0.0, total, 1.0)
    return total, top, stay / whole, step / whole


@triton.jit
def _sum_of_label(label, label_power, blank, power, far, far_power):
    """The sum of what comes to a label, its power of two, the shares of stay, step and skip."""
    top = tl.maximum(tl.maximum(label_power, power), far_power)
    stay, step = label * _power(label_power - top), blank * _power(power - top)
    skip = far * _power(far_power - top)
    total = stay + step + skip
    whole = tl.where(total > 0.0, total, 1.0)
    return total, top, stay / whole, step / whole, skip / whole


@triton.jit
def _links(targets, size, lanes, links, J, K: tl.constexpr):
    """Write where the chain of a label begins, its first lane (else -1), and the lane after."""
    mine = tl.load(targets + lanes, mask=lanes < size, other=-1)
    after = tl.full((K,), -1, dtype=tl.int32)
    first = lanes < size
    for i in range(size):
        same = mine == tl.load(targets + i)
        after = tl.where(same & (i > lanes) & (after < 0), i, after)
        first = first & ~(same & (i < lanes))
    tl.store(links + lanes, tl.where(first, lanes, -1), mask=lanes < J)
    tl.store(links + J + lanes, after, mask=lanes < J)


@triton.jit
def _forward_backward(
    scores, targets, lengths, sizes, value, shares, links, blank, n_positions, n_labels, J,
    K: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """The log-partition of one sequence, and the probabilities of its states.

    ``shares`` has room for (T, 5, J) numbers: of the ways into each blank and label. The first two
    rows of each position are replaced by the probabilities of blanks and of labels.
    """
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, K)
    held = lanes < J
    size = tl.load(sizes + row).to(tl.int32)
    length = tl.load(lengths + row).to(tl.int32)
    scores += row * n_positions * n_labels
    targets += row * (J - 1)
    shares += row * n_positions * 5 * J + lanes
    _links(targets, size, lanes, links + row * 2 * J, J, K)
    real = lanes < size
    mine = tl.load(targets + lanes, mask=real, other=blank)
    before = tl.load(targets + lanes - 1, mask=real & (lanes > 0), other=0)
    skips = real & (lanes > 0) & (mine != before)
    width, step_width = tl.cast(n_labels, tl.int64), tl.cast(5 * J, tl.int64)  # t times them
    left, right = tl.maximum(lanes - 1, 0), tl.minimum(lanes + 1, K - 1)

    start = lanes == 0  # a blank before the first position
    mass, power = tl.where(start, 1.0, 0.0).to(tl.float64), tl.where(start, 0.0, -float("inf"))
    power = power.to(tl.float64)
    label, label_power = tl.zeros((K,), tl.float64), tl.full((K,), -float("inf"), tl.float64)
    broken = lanes < 0
    for t in tl.range(0, length, num_stages=STAGES):
        here = scores + t * width
        own = tl.load(here + blank).to(tl.float64)
        score = tl.load(here + mine).to(tl.float64)
        broken = broken | ~(score < float("inf"))
        far = tl.where(start, 0.0, tl.gather(label, left, 0))
        far_power = tl.where(start, -float("inf"), tl.gather(label_power, left, 0))
        total, top, stay, step = _sum_of_blank(mass, power, far, far_power)
        room = shares + t * step_width
        tl.store(room, stay, mask=held)
        tl.store(room + J, step, mask=held)
        far, far_power = tl.where(skips, far, 0.0), tl.where(skips, far_power, -float("inf"))
        label_total, label_top, stay, step, skip = _sum_of_label(
            label, label_power, mass, power, far, far_power
        )
        tl.store(room + 2 * J, stay, mask=held)
        tl.store(room + 3 * J, step, mask=held)
        tl.store(room + 4 * J, skip, mask=held)
        p, n = _parts(own)
        mass, power = _normalised(total * p, top + n)
        p, n = _parts(score)
        label, label_power = _normalised(tl.where(real, label_total * p, 0.0), label_top + n)

    end = lanes == size
    far = tl.where(start, 0.0, tl.gather(label, left, 0))
    far_power = tl.where(start, -float("inf"), tl.gather(label_power, left, 0))
    total, top, stay, step = _sum_of_blank(mass, power, far, far_power)
    found = tl.where(total > 0.0, top * _LN2 + tl.log(tl.where(total > 0.0, total, 1.0)), top)
    found = tl.max(tl.where(end, found, -float("inf")), 0)
    tl.store(value + row, tl.where(tl.max(broken.to(tl.int32), 0) > 0, float("nan"), found))

    b = tl.where(end, stay, 0.0)
    x = tl.where(lanes + 1 == size, tl.gather(step, right, 0), 0.0)
    tl.debug_barrier()  # the shares may be read by other threads than wrote them
    for back in tl.range(0, length, num_stages=STAGES):
        room = shares + (length - 1 - back) * step_width
        stay, step = tl.load(room, mask=held, other=0.0), tl.load(room + J, mask=held, other=0.0)
        label_stay = tl.load(room + 2 * J, mask=held, other=0.0)
        label_step = tl.load(room + 3 * J, mask=held, other=0.0)
        label_skip = tl.load(room + 4 * J, mask=held, other=0.0)
        b, x = tl.where(b > _LEAST_SHARE, b, 0.0), tl.where(x > _LEAST_SHARE, x, 0.0)
        onward = tl.gather(b * step + x * label_skip, right, 0)
        tl.store(room, b, mask=held)
        tl.store(room + J, x, mask=held)
        b = tl.minimum(b * stay + x * label_step, 1.0)
        x = tl.minimum(x * label_stay + tl.where(lanes + 1 < K, onward, 0.0), 1.0)


@triton.jit
def _collect(
    scores, targets, lengths, states, links, norms, out, blank, n_positions, n_labels, J,
    K: tl.constexpr, COLUMNS: tl.constexpr, LOSS: tl.constexpr,
):  # fmt: skip
    """Probabilities of labels at one position, or the softmax less them and log sum exp."""
    place = tl.program_id(0).to(tl.int64)
    row, t = place // n_positions, place % n_positions
    inside = t < tl.load(lengths + row)
    scores += place * n_labels
    out += place * n_labels
    columns = tl.arange(0, COLUMNS)
    if LOSS:
        top, mass = tl.full((), -float("inf"), tl.float64), tl.full((), 0.0, tl.float64)
        for first in range(0, n_labels, COLUMNS):
            x = tl.load(
                scores + first + columns, mask=inside & (first + columns < n_labels),
                other=-float("inf"),
            ).to(tl.float64)  # fmt: skip
            higher = tl.maximum(top, tl.max(x, 0))
            taken = tl.where(higher > -float("inf"), higher, 0.0)
            mass = mass * tl.exp(top - taken) + tl.sum(tl.exp(x - taken), 0)
            top = higher
        taken = tl.where(top > -float("inf"), top, 0.0)
        per = tl.where(mass == 0.0, 0.0, 1.0 / tl.where(mass == 0.0, 1.0, mass))
        norm = taken + tl.log(mass)  # -inf where all scores are
        tl.store(norms + place, tl.where(inside, norm, 0.0))
    for first in range(0, n_labels, COLUMNS):
        fits = first + columns < n_labels
        p = tl.zeros((COLUMNS,), tl.float64)
        if LOSS:
            x = tl.load(scores + first + columns, mask=inside & fits, other=-float("inf"))
            p = tl.exp(x.to(tl.float64) - taken) * per
        tl.store(out + first + columns, p.to(out.dtype.element_ty), mask=fits)
    if inside:
        tl.debug_barrier()  # some of what was written is written again by other threads
        lanes = tl.arange(0, K)
        states += place * 5 * J
        links += row * 2 * J
        blanks = tl.sum(tl.load(states + lanes, mask=lanes < J, other=0.0), 0)
        begins = tl.load(links + lanes, mask=lanes < J, other=-1)
        at, total = begins, tl.zeros((K,), tl.float64)
        while tl.max(at, 0) >= 0:
            total += tl.load(states + J + at, mask=at >= 0, other=0.0)
            at = tl.load(links + J + at, mask=at >= 0, other=-1)
        total, blanks = tl.minimum(total, 1.0), tl.minimum(blanks, 1.0)
        label = tl.load(targets + row * (J - 1) + lanes, mask=begins >= 0, other=0)
        if LOSS:
            x = tl.load(scores + label, mask=begins >= 0, other=-float("inf")).to(tl.float64)
            total = tl.exp(x - taken) * per - total
            blanks = tl.exp(tl.load(scores + blank).to(tl.float64) - taken) * per - blanks
        tl.store(out + label, total.to(out.dtype.element_ty), mask=begins >= 0)
        tl.store(out + blank, blanks.to(out.dtype.element_ty))


def sums(
    scores: Tensor, targets: Tensor, lengths: Tensor, sizes: Tensor, blank: int
) -> tuple[Tensor, Tensor]:
    """Log-partitions over alignments and probabilities of labels."""
    if not _fits(scores, targets):
        return _ctc_plain.sums(scores, targets, lengths, sizes, blank)
    value, mean, _ = _run(scores.double(), targets, lengths, sizes, blank, False)
    return value, mean


def loss(
    scores: Tensor, targets: Tensor, lengths: Tensor, sizes: Tensor, blank: int
) -> tuple[Tensor, Tensor]:
    """The log-partitions over all sequences less those over alignments, and their gradient."""
    if not _fits(scores, targets):
        return _ctc_plain.loss(scores, targets, lengths, sizes, blank)
    value, slope, norms = _run(scores, targets, lengths, sizes, blank, True)
    return torch.where(value == -torch.inf, torch.inf, norms.sum(1) - value), slope


def _fits(scores: Tensor, targets: Tensor) -> bool:
    """Whether there is anything to do, and the states of a target are held by one program."""
    return len(scores) > 0 and targets.shape[1] < _MOST_LANES


def _run(
    scores: Tensor, targets: Tensor, lengths: Tensor, sizes: Tensor, blank: int, less: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Log-partitions over alignments; probabilities, or softmax less them; log sum exp (B, T)."""
    batch, most, labels = scores.shape
    pairs = targets.shape[1] + 1
    exact, device = torch.float64, scores.device
    value = torch.empty(batch, dtype=exact, device=device)
    norms = torch.empty((batch, most), dtype=exact, device=device)
    shares = torch.empty((batch, most, 5, pairs), dtype=exact, device=device)
    links = torch.empty((batch, 2, pairs), dtype=torch.int32, device=device)
    lanes = max(32, triton.next_power_of_2(pairs))
    _forward_backward[(batch,)](
        scores, targets, lengths, sizes, value, shares, links, blank, most, labels, pairs,
        K=lanes, STAGES=min(max(_AHEAD // (40 * lanes), 1), 4),
        num_warps=min(lanes // 32, 16),
    )  # fmt: skip
    out = torch.empty_like(scores)
    columns = min(triton.next_power_of_2(labels), _MOST_COLUMNS)
    _collect[(batch * most,)](
        scores, targets, lengths, shares, links, norms, out, blank, most, labels, pairs,
        K=lanes, COLUMNS=columns, LOSS=less,
        num_warps=1 if max(lanes, columns) <= 128 else 4,
    )  # fmt: skip
    return value, out, norms
