"""SparseMAP of a structured domain, forward and backward, beside a recorded figure, in CPU time."""

from __future__ import annotations

import math
from time import process_time

import torch
from benchmarks.peers import lp_sparsemap
from benchmarks.report import Row
from benchmarks.timing import in_turns, median
from maxent.core.domains import Domain
from maxent.torch.structured import sparsemap
from torch import Tensor

TARGET, GOAL = "at least 5 x faster", 5.0
OURS = "maxent"


def sparsemap_rows(
    suite: str, problem: str, domain: Domain, theta: Tensor, recorded: float
) -> list[Row]:
    """Seconds per row of theta; the accuracy is the gap max_v <theta - p, v - p>."""
    theta = theta.requires_grad_()
    along = torch.randn_like(theta)

    def ours() -> Tensor:
        p = sparsemap(domain, theta)
        (p * along).sum().backward()
        return p.detach()

    seconds = median(in_turns({OURS: ours}, repeats=5, clock=process_time)[OURS]) / len(theta)
    p = ours().numpy()
    slope = theta.detach().numpy() - p
    gap = ((domain.argmax(slope) - p) * slope).sum(axis=1).max()
    ratio = recorded / seconds
    return [
        Row(suite, problem, OURS, seconds=seconds, ratio=1.0, accuracy=gap,
            repeats=5, target="gap below 1e-9", met="yes" if gap < 1e-9 else "no"),
        Row(suite, problem, lp_sparsemap.NAME, status="recorded", seconds=recorded,
            ratio=ratio, accuracy=math.nan, target=TARGET, met="yes" if ratio >= GOAL else "no"),
    ]  # fmt: skip
