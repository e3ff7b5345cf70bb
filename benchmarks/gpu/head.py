"""The head of a language model beside torch, Liger, QuACK and cut cross-entropy.

python -m benchmarks.gpu.head [--peers FOLDER] [--parts main shapes]    (needs a CUDA device)

Times are forward and backward; "one product" is hidden times the weight, and "three products" are
those that any fused cross-entropy needs. Memory is the peak beside inputs and gradients. The peers
are imported from a directory with their sources (liger_kernel, quack, cut_cross_entropy, and what
they need); one that does not run is listed with its error.

main : gpu_head.csv, trained models and first steps of training in bfloat16, with the errors of the
    first rows.
shapes : gpu_head_shapes.csv, shapes that nobody tuned for. Scores are "normal" (deviation 2.2),
    "flat" (0.05, most classes are in the support) or "heavy-tailed": classes of Student's norms
    with 3 degrees of freedom, and rows that differ by a lognormal factor, so that some are flat and
    others have one class.
"""

from __future__ import annotations

import argparse
import csv
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from torch.nn.functional import cross_entropy, linear
from triton.testing import do_bench

import torch
from torch import Tensor

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]  # run as a file, nothing is installed there

import maxent.torch as mt  # noqa: E402

TARGETS = {(8192, 2048, 128256): 1.35, (16384, 4096, 128256): 1.2}  # times one product
OVER = 1.1  # times torch's at most
ROOM = 0.5  # GB at most
SECONDS = 60  # of a peer with one case, its compiling counted in
CHECKED = 1024  # rows of which errors are known
TORCH = "torch linear + cross-entropy"
FIELDS = {
    "main": (
        *("tokens", "hidden", "classes", "spread", "what", "ms", "products", "peak GB"),
        *("loss error", "hidden error", "weight error", "met", "run"),
    ),
    "shapes": (
        *("tokens", "hidden", "classes", "type", "scores", "what", "ms", "products"),
        *("times torch", "peak GB", "met", "run"),
    ),
}
FILES = {"main": "gpu_head", "shapes": "gpu_head_shapes"}

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


class Case(NamedTuple):
    """Sizes and scores."""

    tokens: int
    hidden: int
    classes: int
    scores: str = "normal"
    spread: float = 2.2  # standard deviation of the scores
    dtype: torch.dtype = torch.bfloat16

    def drawn(self) -> tuple[Tensor, Tensor, Tensor]:
        """Hidden vectors, weight and labels, the same at each call."""
        torch.manual_seed(0)
        n, d, v = self[:3]
        h = torch.randn(n, d, device="cuda")
        w = torch.randn(v, d, device="cuda") * self.spread / d**0.5
        if self.scores == "heavy-tailed":
            h *= torch.randn(n, 1, device="cuda").exp()
            w *= torch.randn(v, 3, device="cuda").square().mean(1, keepdim=True).rsqrt()
        y = torch.randint(v, (n,), device="cuda")
        return h.to(self.dtype).requires_grad_(), w.to(self.dtype).requires_grad_(), y


def flat(tokens: int, hidden: int, classes: int, dtype: torch.dtype = torch.bfloat16) -> Case:
    """Scores of an untrained model."""
    return Case(tokens, hidden, classes, "flat", 0.05, dtype)


CASES = {
    "main": (
        *(Case(8192, 2048, 128256, spread=spread) for spread in (2.2, 0.5, 0.1)),
        Case(8192, 2048, 256000),
        Case(16384, 4096, 128256),
    ),
    "shapes": (
        Case(2048, 768, 32003), Case(2048, 768, 32003, "heavy-tailed"), flat(2048, 768, 32003),
        Case(8192, 768, 32768), Case(8192, 768, 32768, "heavy-tailed"), flat(8192, 768, 32768),
        Case(5000, 1024, 50257), Case(5000, 1024, 50257, "heavy-tailed"), flat(5000, 1024, 50257),
        Case(8192, 2048, 128256, "heavy-tailed"), flat(8192, 2048, 128256),
        *(Case(rows, 2048, 128256) for rows in (1, 8, 64)),
        *(Case(rows, 768, 32003) for rows in (1, 8, 64)),
        Case(2048, 768, 32003, dtype=torch.float32), flat(2048, 768, 32003, dtype=torch.float32),
    ),
}  # fmt: skip


def ours(entropy: str) -> Loss:
    """The head."""
    return lambda h, w, y: mt.linear_fenchel_young_loss(h, w, y, entropy)


LOSSES: dict[str, Loss] = {
    TORCH: lambda h, w, y: cross_entropy(linear(h, w), y),
    "maxent head, cross-entropy": ours("shannon"),
    "maxent unfused, entmax 1.5": lambda h, w, y: mt.fenchel_young_loss(linear(h, w), y),
    "maxent head, entmax 1.5": ours("entmax15"),
    "maxent head, sparsemax": ours("sparsemax"),
}


def peers(folder: str | None) -> dict[str, Loss]:
    """Fused cross-entropies, those that can be imported."""
    if folder is not None:
        packages = Path(folder) / "nvidia_cutlass_dsl" / "dsl_packages"
        sys.path[:0] = [folder, str(packages)]
    found: dict[str, Loss] = {}
    for name, imported in {
        "cut cross-entropy": _cut,
        "Liger": _liger,
        "Liger for Hopper": _liger_for_hopper,
        "QuACK": _quack,
    }.items():
        try:
            with limited(SECONDS):
                found |= imported()
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
    return found


def _cut() -> dict[str, Loss]:
    from cut_cross_entropy import linear_cross_entropy

    return {"cut cross-entropy": linear_cross_entropy}


def _liger() -> dict[str, Loss]:
    from liger_kernel.transformers.functional import liger_fused_linear_cross_entropy as loss

    # by default about as many scores at a time as the hidden vectors have numbers
    large: Loss = partial(loss, chunk_mem_const=16)
    return {"Liger cross-entropy": loss, "Liger cross-entropy, large chunks": large}


def _liger_for_hopper() -> dict[str, Loss]:
    from liger_kernel.ops.cutedsl.ops.fused_linear_cross_entropy_sm90 import (
        liger_fused_linear_cross_entropy_sm90,
    )

    return {"Liger cross-entropy for Hopper": liger_fused_linear_cross_entropy_sm90}


def _quack() -> dict[str, Loss]:
    from quack.linear_cross_entropy import chunked_linear_cross_entropy

    # its search for settings takes minutes for a shape; its own kernels for Hopper do without
    return {"QuACK cross-entropy": partial(chunked_linear_cross_entropy, tuned=False)}


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """An error after so many seconds."""

    def over(*_: Any) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def ms(call: Callable[[], object]) -> float:
    """Median time of a call."""
    return float(do_bench(call, warmup=50, rep=200, return_mode="median"))


def both_ways(loss: Loss, h: Tensor, w: Tensor, y: Tensor) -> Tensor:
    """Forward and backward."""
    h.grad = w.grad = None
    value = loss(h, w, y)
    value.backward()
    return value.detach()


def three_products(h: Tensor, w: Tensor) -> Callable[[], object]:
    """Scores, and the gradients of both sides from as many numbers."""
    h, w = h.detach(), w.detach()

    def call() -> None:
        scores = torch.mm(h, w.T)
        torch.mm(scores, w)
        torch.mm(scores.T, h)

    return call


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
    """Loss and gradients in float64."""
    some, wide = h.detach().double(), w.detach().double()
    x = (some @ wide.T).requires_grad_()
    with mt.backend("plain"):
        loss = mt.fenchel_young_loss(x, y, alpha, check=False)
    (residual,) = torch.autograd.grad(loss, x)
    return loss.detach().cpu(), residual @ wide, residual.T @ some


def errors(
    loss: Loss, h: Tensor, w: Tensor, y: Tensor, reference: tuple[Tensor, Tensor, Tensor]
) -> list[float]:
    """Relative errors of the loss and both gradients."""
    value = both_ways(loss, h, w, y)
    pairs = zip((value.cpu(), h.grad, w.grad), reference, strict=True)
    return [float((a.double() - b).norm() / b.norm()) for a, b in pairs]


def alpha_of(name: str) -> float:
    """Of a loss."""
    return 1.5 if "1.5" in name else 2.0 if "sparsemax" in name else 1.0


class Table:
    """The rows of a part, written anew after each."""

    def __init__(self, part: str, out: Path, run: int) -> None:
        self.part, self.path, self.run = part, out / f"{FILES[part]}.csv", run
        self.rows: dict[tuple[Case, str], dict[str, object]] = {}

    def add(self, case: Case, what: str, **values: object) -> None:
        """A row, after those of its case."""
        row = dict(zip(("tokens", "hidden", "classes", "scores", "spread"), case, strict=False))
        row |= (
            {"type": str(case.dtype).removeprefix("torch."), "what": what}
            | values
            | {"run": self.run}
        )
        fields = FIELDS[self.part]
        self.rows[case, what] = {field: row.get(field, "") for field in fields}
        print(*(f"{row.get(field, '')}" for field in fields), sep="  ", flush=True)
        part = self.path.with_suffix(".part")
        with part.open("w", newline="") as file:
            writer = csv.DictWriter(file, fields)
            writer.writeheader()
            for one in CASES[self.part]:
                writer.writerows(row for (at, _), row in self.rows.items() if at == one)
        part.replace(self.path)

    def ms(self, case: Case, what: str) -> float:
        """A time that is known."""
        return float(str(self.rows[case, what]["ms"]))


def measure(table: Table, case: Case, losses: dict[str, Loss], own: bool) -> None:
    """A row for each loss.

    own : whether they are ours and torch's, whose errors end the run.
    """
    h, w, y = case.drawn()
    if own:
        product = ms(lambda: torch.mm(h.detach(), w.detach().T))
        table.add(case, "one product", ms=round(product, 3), products=1)
        three = ms(three_products(h, w))
        table.add(case, "three products", ms=round(three, 3), products=round(three / product, 2))
    product = table.ms(case, "one product")
    few = h.detach()[:CHECKED].requires_grad_(), w, y[:CHECKED]
    known: dict[float, tuple[Tensor, Tensor, Tensor]] = {}
    for name, loss in losses.items():
        row: dict[str, object] = {}
        try:
            with limited(10 * SECONDS if own else SECONDS):
                if case[:3] == CASES["main"][0][:3] and table.part == "main":
                    alpha = alpha_of(name)
                    if alpha not in known:
                        known = {alpha: exact(*few, alpha)}
                    wrong = errors(loss, *few, known[alpha])
                    names = ("loss error", "hidden error", "weight error")
                    row |= dict(zip(names, (f"{e:.1e}" for e in wrong), strict=True))
                both_ways(loss, h, w, y)  # compiled, before memory is counted
                room = peak(partial(both_ways, loss, h, w, y), h, w)
                time = ms(partial(both_ways, loss, h, w, y))
            row |= {"ms": round(time, 3), "products": round(time / product, 2)}
            row["peak GB"] = round(room, 3)
            if name != TORCH:
                row["times torch"] = round(time / table.ms(case, TORCH), 2)
            row["met"] = met(table, case, name, time, room)
        except Exception as error:
            if own:
                raise
            row = {"met": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
        table.add(case, name, **row)
        h.grad = w.grad = None
        torch.cuda.empty_cache()


def met(table: Table, case: Case, name: str, time: float, room: float) -> str:
    """Whether the target is, where there is one."""
    if name != "maxent head, entmax 1.5":
        return ""
    if table.part == "shapes":
        return "yes" if time <= OVER * table.ms(case, TORCH) and room <= ROOM else "no"
    if case.spread != CASES["main"][0].spread or case[:3] not in TARGETS:
        return ""
    return "yes" if time <= TARGETS[case[:3]] * table.ms(case, "one product") else "no"


def main() -> None:
    """Time, check, print, write."""
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--peers", help="folder of their sources; without it, those installed")
    parser.add_argument("--parts", nargs="+", choices=tuple(CASES), default=tuple(CASES))
    parser.add_argument("--own", action="store_true", help="leave the peers out")
    parser.add_argument("--run", type=int, default=1, help="its number, in tables of several")
    given = parser.parse_args()
    out = Path(os.environ.get("OUT", ROOT / "benchmarks" / "results"))
    tables = {part: Table(part, out, given.run) for part in given.parts}
    for part, table in tables.items():
        for case in CASES[part]:
            losses = dict(LOSSES)
            if part == "shapes":
                del losses["maxent unfused, entmax 1.5"]
            measure(table, case, losses, True)
    if given.own:
        return
    # after all of ours: what a peer does to the device is lost for them alone
    others = peers(given.peers)
    for part, table in tables.items():
        for case in CASES[part]:
            if part == "main" or case.scores == "normal":
                measure(table, case, others, False)


if __name__ == "__main__":
    main()
