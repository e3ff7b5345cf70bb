"""Import time and the first call of a kernel, each in a fresh process."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.report import Row
from benchmarks.timing import median

IMPORT = "import maxent"
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


def run(quick: bool = False) -> list[Row]:
    """Medians of five fresh processes; the kernel cache is filled by a first one."""
    rows = []
    for problem, setup, work, goal in (
        ("import maxent", "", IMPORT, 1.0),
        ("first kernel call, cached", "import numpy as np, maxent as mx", FIRST_CALL, 2.0),
    ):
        seconds(setup, work)
        times = [seconds(setup, work) for _ in range(5)]
        rows.append(
            Row(
                "startup",
                problem,
                "maxent",
                seconds=median(times),
                repeats=len(times),
                target=f"under {goal:g} s",
                met="yes" if median(times) < goal else "no",
            )
        )
    return rows
