"""The head of a language model beside torch, Liger and cut cross-entropy.

python -m benchmarks.gpu.head [DIRECTORY OF THE PEERS' SOURCES]   (needs a CUDA device)

One product is hidden times the weight alone. Times are forward and backward; memory is the peak
beside inputs and gradients. The peers are imported from a directory with their sources
(liger_kernel, cut_cross_entropy); one that does not run is listed with its error.
"""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable
from pathlib import Path

from torch.nn.functional import cross_entropy, linear
from triton.testing import do_bench

import torch
from torch import Tensor

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]  # run as a file, nothing is installed there

import maxent.torch as mt  # noqa: E402

SHAPES = ((8192, 2048, 128256), (8192, 2048, 256000), (16384, 4096, 128256))
SPREADS = (2.2, 0.5, 0.1)  # standard deviation of the scores: trained, and two first steps
TARGETS = {SHAPES[0]: 1.35, SHAPES[2]: 1.2}  # times one product
FIELDS = (
    *("tokens", "hidden", "classes", "spread", "what", "ms", "products", "peak GB"),
    *("loss error", "hidden error", "weight error", "met"),
)

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def peers(folder: str) -> dict[str, Loss]:
    """Fused cross-entropies whose sources are there."""
    sys.path.insert(0, folder)
    found: dict[str, Loss] = {}
    try:
        from liger_kernel.ops.fused_linear_cross_entropy import (
            LigerFusedLinearCrossEntropyFunction,
        )

        def liger(h: Tensor, w: Tensor, y: Tensor) -> Tensor:
            out = LigerFusedLinearCrossEntropyFunction.apply(h, w, y)
            return out[0] if isinstance(out, tuple) else out

        found["Liger cross-entropy"] = liger
    except ImportError as error:
        print(f"Liger: {error}")
    try:
        from cut_cross_entropy import linear_cross_entropy

        found["cut cross-entropy"] = linear_cross_entropy
    except ImportError as error:
        print(f"cut cross-entropy: {error}")
    return found


def ours(entropy: str) -> Loss:
    """The head."""
    return lambda h, w, y: mt.linear_fenchel_young_loss(h, w, y, entropy)


def losses(folder: str | None) -> dict[str, Loss]:
    """All that are compared."""
    made: dict[str, Loss] = {
        "torch linear + cross-entropy": lambda h, w, y: cross_entropy(linear(h, w), y),
        **(peers(folder) if folder else {}),
        "maxent head, cross-entropy": ours("shannon"),
        "maxent unfused, entmax 1.5": lambda h, w, y: mt.fenchel_young_loss(linear(h, w), y),
        "maxent head, entmax 1.5": ours("entmax15"),
        "maxent head, sparsemax": ours("sparsemax"),
    }
    return made


def ms(call: Callable[[], object]) -> float:
    """Median time of a call."""
    return float(do_bench(call, warmup=100, rep=400, return_mode="median"))


def both_ways(loss: Loss, h: Tensor, w: Tensor, y: Tensor) -> Tensor:
    """Forward and backward."""
    h.grad = w.grad = None
    value = loss(h, w, y)
    value.backward()
    return value.detach()


def peak(call: Callable[[], object], *gradients: Tensor) -> float:
    """Memory beside what was there before and the gradients, in GB."""
    for x in gradients:
        x.grad = None
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    beside = sum(x.numel() * x.element_size() for x in gradients)
    return (torch.cuda.max_memory_allocated() - before - beside) / 1e9


def exact(h: Tensor, w: Tensor, y: Tensor, alpha: float) -> tuple[Tensor, Tensor, Tensor]:
    """Loss and gradients in float64, some rows at a time."""
    d_hidden, d_weight = h.double() * 0, w.double() * 0
    total, wide = 0.0, w.detach().double()
    for rows in torch.arange(len(h), device=h.device).split(1024):
        some = h.detach()[rows].double()
        x = (some @ wide.T).requires_grad_()
        with mt.backend("plain"):
            loss = mt.fenchel_young_loss(x, y[rows], alpha, reduction="sum", check=False) / len(h)
        (residual,) = torch.autograd.grad(loss, x)
        total += loss.item()
        d_hidden[rows] = residual @ wide
        d_weight += residual.T @ some
    return torch.tensor(total), d_hidden, d_weight


def errors(
    loss: Tensor, h: Tensor, w: Tensor, reference: tuple[Tensor, Tensor, Tensor]
) -> list[float]:
    """Relative errors of the loss and both gradients."""
    pairs = zip((loss.cpu(), h.grad, w.grad), reference, strict=True)
    return [float((a.double() - b).norm() / b.norm()) for a, b in pairs]


def main() -> None:
    """Time, check, print, write."""
    torch.manual_seed(0)
    folder = sys.argv[1] if len(sys.argv) > 1 else None
    table: list[dict[str, object]] = []
    for n, d, v in SHAPES:
        for spread in SPREADS if (n, d, v) == SHAPES[0] else SPREADS[:1]:
            table += measure(n, d, v, spread, losses(folder))
            torch.cuda.empty_cache()
    out = Path(os.environ.get("OUT", ROOT / "benchmarks" / "results"))
    with open(out / "gpu_head.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(table)


def measure(n: int, d: int, v: int, spread: float, called: dict[str, Loss]) -> list[dict]:
    """A row for each loss."""
    h = torch.randn(n, d, device="cuda").bfloat16().requires_grad_()
    w = (torch.randn(v, d, device="cuda") * spread / d**0.5).bfloat16().requires_grad_()
    y = torch.randint(v, (n,), device="cuda")
    product = ms(lambda: torch.mm(h.detach(), w.detach().T))
    base = {"tokens": n, "hidden": d, "classes": v, "spread": spread}
    table = [base | {"what": "one product", "ms": round(product, 3), "products": 1}]
    check = (n, d, v) == SHAPES[0]
    reference = {alpha: exact(h, w, y, alpha) for alpha in (1.0, 1.5, 2.0)} if check else {}
    for name, loss in called.items():
        row: dict[str, object] = base | {"what": name}
        try:
            value = both_ways(loss, h, w, y)
            if check:
                alpha = 1.5 if "1.5" in name else 2.0 if "sparsemax" in name else 1.0
                wrong = errors(value, h, w, reference[alpha])
                names = ("loss error", "hidden error", "weight error")
                row |= dict(zip(names, (f"{e:.1e}" for e in wrong), strict=True))
            row["peak GB"] = round(peak(lambda f=loss: both_ways(f, h, w, y), h, w), 3)
            time = ms(lambda f=loss: both_ways(f, h, w, y))
            row |= {"ms": round(time, 3), "products": round(time / product, 2)}
            target = TARGETS.get((n, d, v))
            if target and spread == SPREADS[0] and name == "maxent head, entmax 1.5":
                row["met"] = "yes" if time <= target * product else "no"
        except Exception as error:
            if name.startswith("maxent"):
                raise
            row["met"] = f"{type(error).__name__}: {error}"[:200]
        table.append(row)
        print(*(f"{row.get(field, '')}" for field in FIELDS), sep="  ", flush=True)
        h.grad = w.grad = None
        torch.cuda.empty_cache()
    print(f"one product {product:.3f} ms", flush=True)
    return table


if __name__ == "__main__":
    main()
