"""Decoding with a key-value cache: exactly sparse attention beside softmax's.

python -m benchmarks.gpu.decoding [sweep]   (needs a CUDA device; a minute)

One new token of 8 sequences, 8 heads of keys, 32 of queries, width 128, bfloat16; scores are normal
with the given standard deviation ("spread"). Times are medians in ms; "graph ms" is the same in a
CUDA graph, "host ms" what the host takes to ask for it. Peers are torch's attention, a plain kernel
of softmax with split keys (the best of several splits and tiles), and reading the cache once, which
is the limit. "faster" is the better of the first two divided by ours. The support is compared with
that of all scores in float64, key by key, and the output with float64, by norms. With "sweep" other
numbers of programs are tried, and nothing is written.
"""

from __future__ import annotations

import csv
import itertools
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import triton
import triton.language as tl
from torch.nn.functional import scaled_dot_product_attention
from triton.testing import do_bench, do_bench_cudagraph

import torch
from torch import Tensor

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]  # run as a file, nothing is installed there

import maxent.torch as mt  # noqa: E402
from maxent.torch.attention import _triton_decode  # noqa: E402

SEQUENCES, HEADS, QUERY_HEADS, WIDTH = 8, 8, 32, 128
KEYS = (32768, 131072)
SPREADS = (1.0, 0.5, 3.0)
TARGETS = {"maxent": 1.6, "maxent, 8-bit copy": 2.5}
FIELDS = (
    *("keys", "spread", "what", "ms", "graph ms", "host ms", "GB", "GB/s", "faster", "target"),
    *("met", "support", "support equal", "out error"),
)


@triton.jit
def _softmax_part(
    Q, K, V, OUT, TOP, SUM, keys, scale,
    GROUP: tl.constexpr, D: tl.constexpr, BN: tl.constexpr, SPLITS: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """Softmax attention of the heads of queries of one head of keys to a share of the keys."""
    split, pair = tl.program_id(0), tl.program_id(1)
    r, c, d = tl.arange(0, 16), tl.arange(0, BN), tl.arange(0, D)
    rows = (r < GROUP)[:, None]
    q = tl.load(Q + (pair * GROUP + r)[:, None] * D + d[None, :], mask=rows, other=0.0)
    q = (q * (scale * 1.4426950408889634)).to(K.dtype.element_ty)
    K += pair.to(tl.int64) * keys * D
    V += pair.to(tl.int64) * keys * D
    top, total = tl.full((16,), float("-inf"), tl.float32), tl.zeros((16,), tl.float32)
    out = tl.zeros((16, D), tl.float32)
    share = keys // SPLITS
    for s0 in tl.range(split * share, (split + 1) * share, BN, num_stages=STAGES):
        k = tl.load(K + (s0 + c)[None, :] * D + d[:, None])
        v = tl.load(V + (s0 + c)[:, None] * D + d[None, :])
        s = tl.dot(q, k)
        higher = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - higher[:, None])
        rest = tl.exp2(top - higher)
        total = total * rest + tl.sum(p, 1)
        out = tl.dot(p.to(v.dtype), v, out * rest[:, None])
        top = higher
    at = (pair * SPLITS + split) * GROUP + r
    tl.store(OUT + at[:, None] * D + d[None, :], out, mask=rows)
    tl.store(TOP + at, top, mask=r < GROUP)
    tl.store(SUM + at, total, mask=r < GROUP)


@triton.jit
def _softmax_join(PARTS, TOP, SUM, OUT, GROUP: tl.constexpr, D: tl.constexpr, SPLITS: tl.constexpr):
    """The output of one query from the shares of the keys."""
    row, s, d = tl.program_id(0), tl.arange(0, SPLITS), tl.arange(0, D)
    at = (row // GROUP * SPLITS + s) * GROUP + row % GROUP
    top = tl.load(TOP + at)
    weight = tl.exp2(top - tl.max(top, 0))
    out = tl.sum(tl.load(PARTS + at[:, None] * D + d[None, :]) * weight[:, None], 0)
    out /= tl.sum(tl.load(SUM + at) * weight, 0)
    tl.store(OUT + row * D + d, out.to(OUT.dtype.element_ty))


@triton.jit
def _read(X, OUT, words, BLOCK: tl.constexpr, STEPS: tl.constexpr):
    """All words once: what no attention that looks at them can be faster than."""
    start = tl.program_id(0).to(tl.int64) * BLOCK * STEPS
    total = tl.zeros((BLOCK,), tl.int32)
    for i in range(STEPS):
        at = start + i * BLOCK + tl.arange(0, BLOCK)
        total ^= tl.load(X + at, mask=at < words, other=0)
    tl.store(OUT + tl.program_id(0), tl.max(total, 0))


def softmax_split(q: Tensor, k: Tensor, v: Tensor, splits: int, block: int, stages: int) -> Tensor:
    """The plain kernel of softmax."""
    pairs, group = SEQUENCES * HEADS, QUERY_HEADS // HEADS
    parts = q.new_empty(pairs * splits * group, WIDTH, dtype=torch.float32)
    top, total = (q.new_empty(len(parts), dtype=torch.float32) for _ in range(2))
    out = torch.empty_like(q)
    sizes = {"GROUP": group, "D": WIDTH, "SPLITS": splits}
    _softmax_part[(splits, pairs)](
        q, k, v, parts, top, total, k.shape[2], 1 / math.sqrt(WIDTH),
        BN=block, STAGES=stages, num_warps=4, **sizes,
    )  # fmt: skip
    _softmax_join[(pairs * group,)](parts, top, total, out, num_warps=4, **sizes)
    return out


def read(*tensors: Tensor) -> None:
    """Read tensors once."""
    for x in tensors:
        words = x.view(-1).view(torch.int32)
        programs = triton.cdiv(len(words), 4096 * 8)
        _read[(programs,)](words, words.new_empty(programs), len(words), 4096, 8, num_warps=8)


def timed(work: Callable[[], Any]) -> dict[str, str]:
    """Medians on the device, in a graph, and what the host takes."""
    work()
    ms = do_bench(work, 20, 60, return_mode="median")
    graph = do_bench_cudagraph(work, 40, return_mode="median")
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(20):
        work()
    host = (time.perf_counter() - start) / 20 * 1e3
    torch.cuda.synchronize()
    return {"ms": f"{ms:.4f}", "graph ms": f"{graph:.4f}", "host ms": f"{host:.4f}"}


def exact(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, list[Tensor]]:
    """1.5-entmax attention of all scores in float64, and which keys are in the supports."""
    group = QUERY_HEADS // HEADS
    outs, supports = [], []
    for b, h in itertools.product(range(SEQUENCES), range(HEADS)):
        rows = q[b, h * group : (h + 1) * group, 0].double()
        z = rows @ k[b, h].double().T * (0.5 / math.sqrt(WIDTH))
        tau = z.amax(1, keepdim=True) - 1
        for _ in range(40):
            r = (z - tau).clamp_(min=0)
            tau += ((r * r).sum(1, keepdim=True) - 1) / (2 * r.sum(1, keepdim=True))
        r = (z - tau).clamp_(min=0)
        supports.append((r > 0).nonzero())
        outs.append(r**2 @ v[b, h].double() / (r**2).sum(1, keepdim=True))
    return torch.cat(outs).view(SEQUENCES, QUERY_HEADS, 1, WIDTH), supports


def same_support(support: mt.AttentionSupport, right: list[Tensor]) -> bool:
    """Whether every key is in both or in neither."""
    group = QUERY_HEADS // HEADS
    row = torch.arange(len(support.crow) - 1, device=support.col.device)
    row = row.repeat_interleave(support.crow.diff())
    rights = torch.cat([x[:, 0] + i * group for i, x in enumerate(right)])
    cols = torch.cat([x[:, 1] for x in right])
    return bool(rights.equal(row)) and bool(cols.equal(support.col.long()))


def filled(k: Tensor, v: Tensor, eight_bit: bool) -> mt.AttentionCache:
    """A cache whose pages lie in no order."""
    cache = mt.AttentionCache(
        SEQUENCES, HEADS, WIDTH, eight_bit=eight_bit, dtype=k.dtype, device="cuda",
        capacity=k.shape[2],
    )  # fmt: skip
    table = cache._pages.table
    table.copy_(torch.randperm(table.numel(), device="cuda", dtype=torch.int32).view_as(table))
    cache.append(k, v)
    return cache


def best_softmax(q: Tensor, k: Tensor, v: Tensor) -> Callable[[], Tensor]:
    """The fastest setting of the plain kernel."""
    tried = []
    for splits, block, stages in itertools.product((8, 16, 32), (64, 128), (2, 3)):

        def work(splits: int = splits, block: int = block, stages: int = stages) -> Tensor:
            return softmax_split(q, k, v, splits, block, stages)

        try:
            work()
            tried.append((do_bench(work, 5, 20, return_mode="median"), splits, block, stages, work))
        except triton.runtime.errors.OutOfResources:
            continue
    ms, splits, block, stages, work = min(tried, key=lambda x: x[0])
    print(f"softmax kernel: {splits} splits, tiles of {block}, {stages} stages: {ms:.4f} ms")
    return work


def nbytes(*tensors: Tensor) -> float:
    """In GB."""
    return sum(x.numel() * x.element_size() for x in tensors) / 1e9


def measure(keys: int, rows: list[dict[str, object]]) -> None:
    """All spreads of one length."""
    k, v = (
        torch.randn(SEQUENCES, HEADS, keys, WIDTH, device="cuda", dtype=torch.bfloat16)
        for _ in range(2)
    )
    q = torch.randn(SEQUENCES, QUERY_HEADS, 1, WIDTH, device="cuda", dtype=torch.bfloat16)
    caches = {name: filled(k, v, name != "maxent") for name in TARGETS}
    kept = caches["maxent, 8-bit copy"]._pages
    ways: dict[str, tuple[Callable[[], Any], float]] = {
        "torch softmax": (
            lambda: scaled_dot_product_attention(q, k, v, enable_gqa=True),
            nbytes(k, v),
        ),
        "softmax, split keys": (best_softmax(q, k, v), nbytes(k, v)),
        "reading keys and values": (lambda: read(k, v), nbytes(k, v)),
        "reading keys": (lambda: read(k), nbytes(k)),
        "reading 8-bit keys": (
            lambda: read(kept.copies, kept.notes),
            nbytes(kept.copies, kept.notes),
        ),
    }
    base = math.inf
    for what, (work, size) in ways.items():
        made = timed(work)
        if "softmax" in what:
            base = min(base, float(made["graph ms"]))
        row: dict[str, object] = {"keys": keys, "what": what, "GB": f"{size:.3f}"} | made
        row["GB/s"] = f"{size / float(made['graph ms']) * 1e3:.0f}"
        add(rows, row)
    plain = softmax_split(q, k, v, 16, 64, 2)
    error = (
        plain.double() - scaled_dot_product_attention(q, k, v, enable_gqa=True).double()
    ).norm()
    print(f"softmax kernel beside torch's: {float(error / plain.double().norm()):.1e}")
    for spread in SPREADS:
        query = q * spread
        right, supports = exact(query, k, v)
        for what, cache in caches.items():
            made = timed(lambda cache=cache, query=query: cache.attend(query))
            out, support = cache.attend(query, return_support=True)
            count = float(support.counts.double().mean())
            scanned = nbytes(kept.copies) if cache.eight_bit else nbytes(k)
            rest = query.numel() // WIDTH * (keys / 8 * 8 + count * 4 * WIDTH) / 1e9
            size = scanned + nbytes(kept.notes) + rest
            faster = base / float(made["graph ms"])
            error = (out.double() - right).norm() / right.norm()
            row = {"keys": keys, "spread": spread, "what": what, "GB": f"{size:.3f}"} | made
            row |= {"GB/s": f"{size / float(made['graph ms']) * 1e3:.0f}"}
            row |= {"faster": f"{faster:.2f}", "support": f"{count:.1f}"}
            row |= {"support equal": "yes" if same_support(support, supports) else "no"}
            row["out error"] = f"{float(error):.1e}"
            if spread == 1:
                row |= {"target": TARGETS[what], "met": "yes" if faster >= TARGETS[what] else "no"}
            add(rows, row)
    profile(caches, q)


def add(rows: list[dict[str, object]], row: dict[str, object]) -> None:
    """Keep and print."""
    rows.append(row)
    print(" | ".join(str(row.get(name, "-")) for name in FIELDS), flush=True)


def profile(caches: dict[str, mt.AttentionCache], q: Tensor) -> None:
    """What each kernel takes, in microseconds."""
    for what, cache in caches.items():
        torch.cuda.synchronize()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
            for _ in range(10):
                cache.attend(q)
            torch.cuda.synchronize()
        for event in seen.key_averages():
            if event.device_time_total:
                print(f"{what}: {event.key[:40]} {event.device_time_total / 10:.1f} us")


def sweep(keys: int) -> None:
    """Other numbers of programs, parts and warps."""
    k, v = (
        torch.randn(SEQUENCES, HEADS, keys, WIDTH, device="cuda", dtype=torch.bfloat16)
        for _ in range(2)
    )
    q = torch.randn(SEQUENCES, QUERY_HEADS, 1, WIDTH, device="cuda", dtype=torch.bfloat16)
    caches = {name: filled(k, v, name != "maxent") for name in TARGETS}
    settings = {
        "_PROGRAMS": (2, 4, 8), "_PARTS": (4, 8, 16), "_AHEAD": (50 << 10, 100 << 10, 200 << 10),
        "_REFINING": ((1, 16), (2, 16), (4, 32)), "_FINISHING": ((4, 32), (8, 64)),
    }  # fmt: skip
    for name, values in settings.items():
        usual = getattr(_triton_decode, name)
        for value in values:
            setattr(_triton_decode, name, value)
            _triton_decode._plans.clear()
            told = []
            for what, cache in caches.items():
                try:
                    cache.attend(q)
                    ms = do_bench_cudagraph(lambda c=cache: c.attend(q), 30, return_mode="median")
                    told.append(f"{what} {ms:.4f}")
                except triton.runtime.errors.OutOfResources as error:
                    told.append(f"{what} {error}")
            print(keys, name, value, *told, sep=" | ", flush=True)
        setattr(_triton_decode, name, usual)
    _triton_decode._plans.clear()
    profile(caches, q)


def main() -> None:
    """Time, check, print, write."""
    torch.manual_seed(0)
    if sys.argv[1:] == ["sweep"]:
        for keys in KEYS:
            sweep(keys)
        return
    print(" | ".join(FIELDS))
    rows: list[dict[str, object]] = []
    for keys in KEYS:
        measure(keys, rows)
        torch.cuda.empty_cache()
    folder = Path(os.environ.get("OUT", ROOT / "benchmarks" / "results"))
    with open(folder / "gpu_decoding.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
