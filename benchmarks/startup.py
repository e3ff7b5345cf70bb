"""The first minute: imports, a first small fit of every estimator, and commands; fresh processes.

``cold`` begins with no compiled kernels, ``warm`` with those of the process before it. Seconds are
those of the processors, children included, so that busy neighbours do not lengthen them. What a
warm process takes beside the imports of scikit-learn and numba is its overhead.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.report import Row

FIT = "from maxent.demo.first_fits import fit_first; fit_first({name!r})"
IMPORTS = "import numba, scipy.special, scipy.optimize, sklearn.base, sklearn.utils.validation"
COLD, WARM = 5.0, 1.0  # goals: seconds of a first fit, and of overhead in a later process
COLD_COMMAND = 20.0


def processor_seconds(command: list[str], cache: Path) -> float:
    """Of the processors, in a new process; a command that ends with an error is timed as well."""
    before = os.times()
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    subprocess.run(command, capture_output=True, check=False, env=environment)
    after = os.times()
    spent = after.children_user + after.children_system
    return spent - before.children_user - before.children_system


def run(quick: bool = False) -> list[Row]:
    """Cold once and warm once: processor seconds vary little."""
    from maxent.demo.first_fits import FITS

    python, maxent = [sys.executable, "-c"], [sys.executable, "-m", "maxent"]
    kinds = {"classifiers": FITS["classifiers"]} if quick else FITS
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)

        def timed(command: list[str]) -> float:
            return processor_seconds(command, folder / "any")

        timed([*python, "import maxent.demo.first_fits, maxent.cli.command"])  # writes bytecode
        imports, refused = timed([*python, IMPORTS]), timed([*maxent, "fit", "no", "no"])
        rows = [
            row("import maxent", "warm", timed([*python, "import maxent"]), 0.35, "s"),
            row("imports of numba, scipy and scikit-learn", "warm", imports, None),
            row("maxent fit of a missing file", "warm", refused, 1.0, "s"),
            row("maxent info", "warm", timed([*maxent, "info"]), None),
        ]
        jobs = {
            name: ([*python, FIT.format(name=name)], COLD)
            for kind, fits in kinds.items()
            for name in fits
            if kind != "species"
        }
        if not quick:
            jobs |= commands(folder, maxent)
        for number, (name, (command, goal)) in enumerate(jobs.items()):
            cache = folder / str(number)
            rows.append(row(name, "cold", processor_seconds(command, cache), goal))
            warm = processor_seconds(command, cache)
            # commands draw and write besides: what is overhead in them is not known
            within = imports + WARM if goal == COLD else None
            rows.append(row(name, "warm", warm, within))
    return rows


def commands(folder: Path, maxent: list[str]) -> dict[str, tuple[list[str], float]]:
    """The fit of the demonstration, as the command makes it, and a tagger."""
    from maxent.datasets.landscape import virtual_landscape, write_landscape

    data = folder / "data"
    data.mkdir()
    write_landscape(virtual_landscape(), data)
    tokens = folder / "train.txt"
    tokens.write_text("the D\ncat N\n\na D\ndog N\nbarks V\n\n")
    files = ["occurrences.csv", "layers", "target_group.csv", "future"]
    records, layers, group, future = (str(data / name) for name in files)
    fit = ["fit", records, layers, "-c", "biome", "--background-records", group]
    fit += ["--project", future, "--output", "raw", "--overwrite", "-o", str(folder / "results")]
    train = ["tag", "train", str(tokens), "--overwrite", "-m", str(folder / "model.json")]
    return {
        "maxent fit of the demonstration": ([*maxent, *fit], COLD_COMMAND),
        "maxent tag train": ([*maxent, *train], COLD_COMMAND),
    }


def row(problem: str, cache: str, seconds: float, goal: float | None, unit: str = "CPU s") -> Row:
    """Goals in plain seconds are those that the figure of limits shows."""
    return Row(
        "startup",
        problem,
        cache,
        seconds=seconds,
        repeats=1,
        target="" if goal is None else f"under {goal:.3g} {unit}",
        met="" if goal is None else "yes" if seconds < goal else "no",
    )
