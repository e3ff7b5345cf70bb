"""The head of a language model on CPU beside torch's linear layer and cross-entropy: memory, time.

python -m benchmarks.head_cpu

Each is measured in a process of its own, forward and backward: the peak beside what was there
before, gradients of inputs included, and the time of the fastest of three runs.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys

from benchmarks.report import RESULTS

SHAPES = ((1024, 64, 32000), (4096, 64, 32000), (256, 256, 128256))
METHODS = {
    "torch linear + cross-entropy": "torch",
    "maxent head, cross-entropy": "shannon",
    "maxent head, entmax 1.5": "entmax15",
    "maxent head, sparsemax": "sparsemax",
}
SETTINGS = {"label_smoothing": 0.1, "temperature": 0.9, "z_loss": 1e-4}
FIELDS = ("tokens", "hidden", "classes", "what", "settings", "peak MB", "s", "at most torch's MB")


def measure(method: str, tokens: int, features: int, classes: int, settings: bool) -> None:
    """Print MB and seconds; run in a process of its own."""
    import resource
    from time import perf_counter

    from torch.nn.functional import cross_entropy, linear

    import maxent.torch as mt
    import torch
    from torch import Tensor

    torch.manual_seed(0)
    hidden = torch.randn(tokens, features)
    weight = 2.2 * torch.randn(classes, features) / features**0.5
    label = torch.randint(classes, (tokens,))
    given = SETTINGS if settings else {}

    def step(h: Tensor, w: Tensor, y: Tensor) -> None:
        h, w = h.clone().requires_grad_(), w.clone().requires_grad_()
        if method == "torch":
            cross_entropy(linear(h, w), y).backward()
        else:
            mt.linear_fenchel_young_loss(h, w, y, method, **given).backward()

    step(hidden[:8], weight[:300], label[:8] % 300)  # loads and compiles
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = []
    for _ in range(3):
        begin = perf_counter()
        step(hidden, weight, label)
        seconds.append(perf_counter() - begin)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print((peak - before) / 1024, min(seconds))


def main() -> None:
    """Print a table and write it to results."""
    path = RESULTS / "head_cpu.csv"
    lines = []
    for shape in SHAPES:
        known = None
        for what, method in METHODS.items():
            for settings in (False, True):
                if method == "torch" and settings:
                    continue
                given = [method, *map(str, shape), str(int(settings))]
                run = subprocess.run(
                    [sys.executable, "-m", "benchmarks.head_cpu", *given],
                    capture_output=True, text=True, check=True, env=os.environ | {
                        "OMP_NUM_THREADS": "2", "MAXENT_NUM_THREADS": "2",
                        "OMP_WAIT_POLICY": "PASSIVE", "MALLOC_MMAP_THRESHOLD_": "1048576",
                    },
                )  # fmt: skip
                megabytes, seconds = map(float, run.stdout.split())
                known = megabytes if known is None else known
                met = "" if method == "torch" else "yes" if megabytes <= known else "no"
                shown = "smoothing, temperature, z-loss" if settings else ""
                lines.append((*shape, what, shown, round(megabytes), round(seconds, 2), met))
                print(*lines[-1], sep=", ", flush=True)
    new = path.with_suffix(".new")
    with new.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(FIELDS)
        table.writerows(lines)
    new.replace(path)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        method, *sizes, settings = sys.argv[1:]
        measure(method, *map(int, sizes), bool(int(settings)))
    else:
        main()
