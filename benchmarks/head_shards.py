"""A vocabulary in shards: what processes send each other, and whether the loss is that of one.

python -m benchmarks.head_shards

Processes on one machine (gloo) share the weights of the last layer. Bytes are what all of them
give to their group in one step, beside those of the scores, in 16 and 32 bits. The gradient of the
hidden vectors is counted apart: every layer that is split among processes sums it.
"""

from __future__ import annotations

import csv
import multiprocessing
import os
import tempfile
from pathlib import Path

from benchmarks.report import RESULTS

SHAPES = ((128, 32, 32000), (128, 32, 128256))
SPREADS = (2.2, 0.5, 0.1)  # standard deviation of the scores: trained, and two first steps
WORLDS = (2, 4)
ENTROPIES = {"entmax 1.5": "entmax15", "sparsemax": "sparsemax", "cross-entropy": "shannon"}
FIELDS = (
    *("processes", "tokens", "classes", "spread", "loss", "kB", "of scores in 16 bits"),
    *("of scores in 32 bits", "kB gradient of hidden", "loss error", "hidden error"),
    *("weight error", "under 1 %"),
)


def process(rank: int, world: int, store: str) -> list[list[object]]:
    """Bytes sent and, in the first, errors beside one process; for each shape, spread, loss."""
    import torch.distributed as dist

    import maxent.torch as mt
    import torch
    from maxent.torch.head import _shards
    from torch import Tensor

    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{store}", world_size=world, rank=rank)

    def step(h: Tensor, w: Tensor, y: Tensor, entropy: str, **group: object) -> list[Tensor]:
        h, w = h.clone().requires_grad_(), w.clone().requires_grad_()
        loss = mt.linear_fenchel_young_loss(h, w, y, entropy, **group)
        loss.backward()
        return [loss.detach(), h.grad, w.grad]

    found: list[list[object]] = []
    for tokens, features, classes in SHAPES:
        for spread in SPREADS:
            torch.manual_seed(0)
            hidden = torch.randn(tokens, features)
            weight = spread * torch.randn(classes, features) / features**0.5
            label = torch.randint(classes, (tokens,))
            own = slice(classes * rank // world, classes * (rank + 1) // world)
            for name, entropy in ENTROPIES.items():
                _shards.SENT.clear()
                ours = step(hidden, weight[own], label, entropy, group=dist.group.WORLD)
                sent = dict(_shards.SENT)
                errors = [0.0] * 3
                if rank == 0:
                    right = step(hidden, weight, label, entropy)
                    right[2] = right[2][own]
                    errors = [
                        float((a - b).norm() / b.norm()) for a, b in zip(ours, right, strict=True)
                    ]
                gradient = sent.pop("gradient of hidden")
                found.append([tokens, classes, spread, name, sum(sent.values()), gradient, errors])
    dist.barrier()
    dist.destroy_process_group()
    return found


def main() -> None:
    """Print a table and write it to results."""
    os.environ |= {"OMP_NUM_THREADS": "1", "MAXENT_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    lines = []
    for world in WORLDS:
        spawn = multiprocessing.get_context("spawn")
        with tempfile.TemporaryDirectory() as folder, spawn.Pool(world) as pool:
            given = [(rank, world, f"{folder}/store") for rank in range(world)]
            every = pool.starmap(process, given, chunksize=1)
        for ranks in zip(*every, strict=True):
            tokens, classes, spread, name = ranks[0][:4]
            sent, gradient = (sum(one[k] for one in ranks) for k in (4, 5))
            errors = [max(one[6][k] for one in ranks) for k in range(3)]
            share = sent / (tokens * classes * 4)
            lines.append((
                world, tokens, classes, spread, name, round(sent / 1e3, 1), f"{2 * share:.3%}",
                f"{share:.3%}", round(gradient / 1e3, 1), *(f"{error:.1e}" for error in errors),
                "yes" if 2 * share < 0.01 else "no",
            ))  # fmt: skip
            print(*lines[-1], sep=", ", flush=True)
    path = Path(RESULTS / "head_shards.csv")
    new = path.with_suffix(".new")
    with new.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(FIELDS)
        table.writerows(lines)
    new.replace(path)


if __name__ == "__main__":
    main()
