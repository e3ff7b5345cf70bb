"""Exact sparse attention beside softmax attention of torch, FlexAttention's, and AdaSplash.

python -m benchmarks.gpu.attention [--peers FOLDER] [--tokens 2048 4096 ...]   (needs a CUDA device)

Times are medians in ms; scores are normal with the given standard deviation ("spread"). Errors are
those of one head's output and gradients beside float64, by norms. Memory is the peak beside inputs,
output and gradients, as a share of query, key and value. A peer that does not run is listed with
its error. AdaSplash is imported from a folder with its sources; it and FlexAttention, which are
compiled for every shape, are measured on few. With --tokens, sequences of these lengths are
measured, and their rows are added to the table. With --trained, the queries, keys and values are
those of the layers of a model trained to recall (experiments/associative_recall.py), in float32
until they are rounded for all alike; their spread is "trained, layer 1" and so on.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention
from triton.testing import do_bench

import torch
from torch import Tensor

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]  # run as a file, nothing is installed there

import maxent.torch as mt  # noqa: E402

SHAPES = (  # heads, heads of keys, tokens, width, causal
    (16, 16, 8192, 128, False),
    (16, 16, 8192, 128, True),
    (32, 4, 8192, 128, True),
    (16, 16, 4096, 128, True),
    (8, 8, 16384, 64, True),
    (8, 8, 16384, 128, True),
    (4, 4, 32768, 128, True),
    (1, 1, 131072, 128, True),
    (32, 32, 1024, 64, True),
    (32, 32, 2048, 64, True),  # last: peers choose their settings for another width, minutes
)
COMPARED = {  # tokens, width, with a causal mask: peers
    (8192, 128): ("FlexAttention softmax", "AdaSplash"),
    (4096, 128): ("AdaSplash",),
    (16384, 64): ("AdaSplash",),
    (32768, 128): ("FlexAttention softmax", "AdaSplash"),
    (2048, 64): ("AdaSplash",),
}
SPREADS = {(16, 8192): (1.0, 3.0, 0.5, 0.1), (4, 32768): (1.0, 0.5)}  # by heads and tokens
TARGETS = {  # forward and backward, times torch's; by spread
    (16, 8192, 128, False): {1.0: 0.6, 0.5: 1.0, 0.1: 1.5},
    (16, 8192, 128, True): {1.0: 0.65, 0.5: 1.0, 0.1: 1.5},
    (32, 2048, 64, True): {1.0: 1.0},
    (4, 32768, 128, True): {1.0: 0.5},
    (1, 131072, 128, True): {1.0: 0.4},
}
FIELDS = (
    *("heads", "key heads", "tokens", "width", "causal", "spread", "what"),
    *("forward ms", "ms", "forward times torch", "times torch", "target", "met", "memory", "keys"),
    *("out error", "query error", "key error", "value error"),
)
_CHECKED = 16384  # tokens up to which a head is compared with float64

Attend = Callable[[Tensor, Tensor, Tensor, bool], Tensor]
Shape = tuple[int, int, int, int, bool]


def adasplash(folder: str) -> dict[str, Attend]:
    """The peer, where its sources are there."""
    sys.path.insert(0, folder)
    try:
        from adasplash import adasplash as attend
    except ImportError as error:
        print(f"AdaSplash: {error}")
        return {}
    return {"AdaSplash": lambda q, k, v, causal: attend(q, k, v, is_causal=causal)}


def ours(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """1.5-entmax."""
    return mt.entmax_attention(q, k, v, is_causal=causal, enable_gqa=True)


def softmax(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """Torch's."""
    return scaled_dot_product_attention(
        q, k, v, is_causal=causal, enable_gqa=q.shape[1] > k.shape[1]
    )


def flexible() -> Attend:
    """FlexAttention, compiled: softmax by Triton's kernels."""
    compiled = torch.compile(flex_attention, dynamic=False)
    masks: dict[int, object] = {}

    def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
        mask = None
        if causal:
            tokens = q.shape[2]
            if tokens not in masks:
                masks[tokens] = create_block_mask(_earlier, None, None, tokens, tokens, "cuda")
            mask = masks[tokens]
        out: Tensor = compiled(q, k, v, block_mask=mask, enable_gqa=q.shape[1] > k.shape[1])
        return out

    return attend


def _earlier(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return i >= j


def exact(q: Tensor, k: Tensor, v: Tensor, g: Tensor, causal: bool) -> list[Tensor]:
    """Output and gradients of one head in float64, and the mean number of keys."""
    q, k, v, g = (x[0, 0].double() for x in (q, k, v, g))
    scale = 1 / math.sqrt(q.shape[-1])
    made: list[list[Tensor]] = [[], []]
    dk, dv, kept = torch.zeros_like(k), torch.zeros_like(v), torch.zeros((), device=q.device)
    for start in range(0, len(q), 2048):
        rows = slice(start, start + 2048)
        z = q[rows] @ k.T * (scale / 2)
        if causal:
            later = torch.arange(len(k), device=q.device) > torch.arange(
                start, start + len(z), device=q.device
            ).unsqueeze(1)
            z.masked_fill_(later, -math.inf)
        tau = z.amax(1, keepdim=True) - 1
        for _ in range(40):
            r = (z - tau).clamp_(min=0)
            tau += ((r * r).sum(1, keepdim=True) - 1) / (2 * r.sum(1, keepdim=True))
        r = (z - tau).clamp_(min=0)
        dp = g[rows] @ v.T
        ds = r * (dp - (r * dp).sum(1, keepdim=True) / r.sum(1, keepdim=True)) * scale
        made[0].append(r**2 @ v)
        made[1].append(ds @ k)
        dk += ds.T @ q[rows]
        dv += (r**2).T @ g[rows]
        kept += (r > 0).sum()
    return [torch.cat(made[0]), torch.cat(made[1]), dk, dv, kept / len(q)]


def measure(
    attend: Attend, q: Tensor, k: Tensor, v: Tensor, g: Tensor, causal: bool
) -> tuple[float, float, float, list[Tensor]]:
    """Forward ms, forward and backward ms, memory, and output and gradients of one head."""
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]

    def both() -> list[Tensor]:
        out = attend(*leaves, causal)
        return [out, *torch.autograd.grad(out, leaves, g)]

    made = both()
    first = [x.detach()[0, 0].double() for x in made]
    held = sum(x.numel() * x.element_size() for x in made)
    del made
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    made = both()
    torch.cuda.synchronize()
    given = sum(x.numel() * x.element_size() for x in leaves)
    memory = (torch.cuda.max_memory_allocated() - before - held) / given
    del made
    with torch.no_grad():
        forward = do_bench(lambda: attend(*leaves, causal), 20, 80, return_mode="median")
    return forward, do_bench(both, 20, 120, return_mode="median"), memory, first


def normal(shape: Shape, spread: float) -> list[Tensor]:
    """Query, key, value and the gradient of the output, with scores of this deviation."""
    heads, shared, tokens, width, _ = shape
    given = [
        torch.randn(1, h, tokens, width, device="cuda").bfloat16()
        for h in (heads, shared, shared, heads)
    ]
    given[0] *= spread
    return given


def trained(tokens: tuple[int, ...]) -> Iterator[tuple[Shape, str, list[Tensor]]]:
    """Those of each layer of a model that was trained on 512 tokens, on longer sequences."""
    from experiments import associative_recall

    recall, sizes = associative_recall.example(), associative_recall.Sizes()
    model, _ = associative_recall.fit(recall, "entmax 1.5", 0, sizes, "cuda")
    generator = torch.Generator("cuda").manual_seed(1)
    held: list[Tensor] = []
    for block in model.blocks:
        block.attention.register_forward_pre_hook(lambda layer, given: held.append(given[0]))
    for length in tokens:
        sequences, first = recall.draw(4, length, sizes.keys, generator)
        held.clear()
        with torch.no_grad():
            recall.asked(model, sequences, first)
            made = [block.attention.rows(x) for block, x in zip(model.blocks, held, strict=True)]
        for layer, parts in enumerate(made, 1):
            rows = [part.bfloat16().flatten(0, 1)[None].contiguous() for part in parts]
            shape = (rows[0].shape[1], rows[1].shape[1], length, rows[0].shape[-1], True)
            yield shape, f"trained, layer {layer}", [*rows, torch.randn_like(rows[2])]


def rows_of(
    shape: Shape, spread: float | str, given: list[Tensor], ways: dict[str, Attend]
) -> Iterator[dict[str, object]]:
    """One row for each way."""
    heads, shared, tokens, width, causal = shape
    q, k, v, g = given
    right = exact(q, k, v, g, causal) if tokens <= _CHECKED and heads == shared else None
    base = [math.nan, math.nan]
    for what, attend in ways.items():
        row: dict[str, object] = dict(zip(FIELDS, (*shape, spread, what), strict=False))
        try:
            forward, time, memory, made = measure(attend, q, k, v, g, causal)
        except Exception as error:  # a peer's limits are part of the table
            row["what"] = f"{what}: {type(error).__name__}"
            print(row["what"], str(error)[:200], flush=True)
            yield row
            continue
        base = [forward, time] if what == "torch softmax" else base
        row |= {"forward ms": f"{forward:.3f}", "ms": f"{time:.3f}", "memory": f"{memory:.2f}"}
        row |= {"forward times torch": f"{forward / base[0]:.2f}"}
        row |= {"times torch": f"{time / base[1]:.2f}"}
        target = TARGETS.get((heads, tokens, width, causal), {}).get(spread)  # none if trained
        if what == "maxent" and target is not None:
            row |= {"target": target, "met": "yes" if time / base[1] <= target else "no"}
        if right is not None and "softmax" not in what:
            errors = [float((x - y).norm() / y.norm()) for x, y in zip(made, right, strict=False)]
            row |= {n: f"{e:.1e}" for n, e in zip(FIELDS[-4:], errors, strict=True)}
            row["keys"] = f"{float(right[-1]):.1f}"
        print(" ".join(str(row.get(name, "-")) for name in FIELDS), flush=True)
        yield row
        del made
        torch.cuda.empty_cache()


def main() -> None:
    """Time, check, print, write."""
    torch.manual_seed(0)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", help="folder with AdaSplash's sources")
    parser.add_argument("--tokens", type=int, nargs="*", help="lengths to measure")
    parser.add_argument("--spreads", type=float, nargs="*", help="of these lengths: of scores")
    parser.add_argument("--trained", type=int, nargs="*", default=(), help="those of a model")
    chosen = parser.parse_args()
    peers = {"FlexAttention softmax": flexible()}
    if chosen.peers:
        peers |= adasplash(chosen.peers)
    known = ROOT / "benchmarks" / "results" / "gpu_attention.csv"
    results = Path(os.environ.get("OUT", known.parent)) / known.name
    known = results if results.exists() else known
    rows: list[dict[str, object]] = []
    if (chosen.tokens or chosen.trained) and known.exists():
        with open(known, newline="") as file:
            rows += [row for row in csv.DictReader(file) if not _again(row, chosen)]

    def add(
        shape: Shape, spread: float | str, given: list[Tensor], ways: dict[str, Attend]
    ) -> None:
        for row in rows_of(shape, spread, given, ways):
            rows.append(row)
            with open(results, "w", newline="") as file:
                writer = csv.DictWriter(file, FIELDS)
                writer.writeheader()
                writer.writerows(rows)

    both: dict[str, Attend] = {"torch softmax": softmax, "maxent": ours}
    for shape in SHAPES:
        heads, shared, tokens, width, causal = shape
        wanted = tokens in chosen.tokens if chosen.tokens else not chosen.trained
        if not wanted:
            continue
        for spread in SPREADS.get((heads, tokens), (1.0,)):
            if chosen.spreads and spread not in chosen.spreads:
                continue
            with_all = spread == 1 and heads == shared and causal
            names = COMPARED.get((tokens, width), ()) if with_all else ()
            more = {name: peers[name] for name in names if name in peers}
            add(shape, spread, normal(shape, spread), both | more)
    if chosen.trained:
        for shape, spread, given in trained(tuple(chosen.trained)):
            add(shape, spread, given, both)


def _again(row: dict[str, str], chosen: argparse.Namespace) -> bool:
    """Whether this row of the table is about to be measured."""
    if row["spread"].startswith("trained"):
        return int(row["tokens"]) in chosen.trained
    right = not chosen.spreads or float(row["spread"]) in chosen.spreads
    return int(row["tokens"]) in (chosen.tokens or ()) and right


if __name__ == "__main__":
    main()
