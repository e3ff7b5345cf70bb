"""Import time, the first call of a kernel, and a command that is refused: in fresh processes."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.report import Row
from benchmarks.timing import median

IMPORT = "import maxent"
REFUSED = [sys.executable, "-m", "maxent", "fit", "no-such.csv", "no-such-layers"]
FIRST_CALL = "mx.Tsallis(1.5).conjugate(np.zeros((2, 3)))"
CODE = """
import time
{setup}
begin = time.perf_counter()
{work}
print(time.perf_counter() - begin)
"""


def seconds(setup: str, work: str) -> float:
    code = CODE.format(setup=setup, work=work)
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(out.stdout)


def processor_seconds(command: list[str]) -> float:
    """Of the processors, in a command that ends with an error."""
    before = os.times()
    subprocess.run(command, capture_output=True, check=False)
    after = os.times()
    spent = after.children_user + after.children_system
    return spent - before.children_user - before.children_system


def run(quick: bool = False) -> list[Row]:
    """Medians of five fresh processes; the kernel cache is filled by a first one."""
    rows = []
    for problem, setup, work, goal in (
        ("import maxent", "", IMPORT, 1.0),
        ("first kernel call, cached", "import numpy as np, maxent as mx", FIRST_CALL, 2.0),
    ):
        seconds(setup, work)
        rows.append(row(problem, [seconds(setup, work) for _ in range(5)], goal))
    processor_seconds(REFUSED)
    refused = [processor_seconds(REFUSED) for _ in range(5)]
    rows.append(row("maxent fit of a missing file, CPU", refused, 1.0))
    return rows


def row(problem: str, times: list[float], goal: float) -> Row:
    return Row(
        "startup",
        problem,
        "maxent",
        seconds=median(times),
        repeats=len(times),
        target=f"under {goal:g} s",
        met="yes" if median(times) < goal else "no",
    )
