"""Run the fast tests and every example of the gallery as other machines would round: a table.

python tests/elsewhere.py                                # all of it, hours on two cores
python tests/elsewhere.py -- tests/core/test_entropies.py     # what is given to pytest instead
python tests/elsewhere.py --only "2 threads" "no AVX2"   # settings by name

Numbers differ in their last bits with the vector instructions of numpy, with the processor that
numba compiles for, with the kernels of OpenBLAS and with the number of threads; the order of sets
differs with the seed of hashes. A result that hangs on any of them fails here before it fails on
somebody's machine. Settings that belong to another processor are named as such.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parent.parent
GALLERY = "tests/project/test_site.py::test_examples_of_the_gallery_run"
CORES = {"x86_64": ("Haswell", "Prescott"), "aarch64": ("ARMV8", "CORTEXA57", "NEOVERSEN1")}
ALIASES = {"AMD64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True)
class Setting:
    """Variables of the environment, or why they mean nothing on this processor."""

    name: str
    variables: dict[str, str] = field(default_factory=dict)
    not_here: str = ""


@dataclass(frozen=True)
class Outcome:
    """What pytest counted under a setting."""

    passed: int
    failed: int
    seconds: float


def settings() -> list[Setting]:
    """All settings, with the ones of other processors."""
    machine = ALIASES.get(platform.machine(), platform.machine())
    found = [*vectors(machine), Setting("numba generic", {"NUMBA_CPU_NAME": "generic"})]
    for processor, cores in CORES.items():
        for core in cores:
            name = f"OpenBLAS {core}"
            if processor == machine:
                found.append(Setting(name, {"OPENBLAS_CORETYPE": core}))
            else:
                found.append(Setting(name, not_here=f"of {processor}, this is {machine}"))
    for count in ("1", "2"):
        each = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
        name = f"{count} thread{'s' * (count != '1')}"
        found.append(Setting(name, {"MAXENT_NUM_THREADS": count, **dict.fromkeys(each, count)}))
    return [*found, *(Setting(f"hash seed {s}", {"PYTHONHASHSEED": s}) for s in ("0", "1"))]


def vectors(machine: str) -> list[Setting]:
    """Numpy without the vector instructions that it would choose on this processor."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    chosen = [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]
    wide = [name for name in chosen if name.startswith(("AVX512", "X86_V4"))]
    groups = {
        "no AVX-512": wide,
        "no AVX2": [*wide, *(n for n in chosen if n in ("AVX2", "FMA3", "X86_V3"))],
    }
    if machine != "x86_64":
        groups = {name: [] for name in groups}
        groups[f"no dispatch on {machine}"] = chosen
    return [
        Setting(name, {"NPY_DISABLE_CPU_FEATURES": " ".join(features)})
        if features
        else Setting(name, not_here="this processor has none, or numpy uses none")
        for name, features in groups.items()
    ]


def run(setting: Setting, calls: list[list[str]], workers: int) -> Outcome:
    """The calls of pytest under one setting; what they print stays on the screen."""
    environment = {**os.environ, **setting.variables}
    environment.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".cache" / "numba"))
    begin, passed, failed = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for number, call in enumerate(calls):
            report = Path(folder) / f"{number}.xml"
            spread = ["-n", str(workers), "--dist", "loadscope", "--no-loadscope-reorder"]
            command = [sys.executable, "-m", "pytest", "-q", *spread, f"--junitxml={report}", *call]
            code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
            counts = count(report) if report.exists() else (0, 1)
            passed += counts[0]
            # a run that ends badly without naming a test, as by a signal, has failed as well
            failed += max(counts[1], int(code != 0))
    return Outcome(passed, failed, time.monotonic() - begin)


def count(report: Path) -> tuple[int, int]:
    """Tests passed and failed (or in error) in a report of pytest."""
    suites = ElementTree.parse(report).getroot().iter("testsuite")
    passed = failed = 0
    for suite in suites:
        bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        failed += bad
        passed += int(suite.get("tests", 0)) - bad - int(suite.get("skipped", 0))
    return passed, failed


def table(outcomes: list[tuple[Setting, Outcome | None]]) -> str:
    """One line per setting."""
    lines = [f"{'setting':<24}{'passed':>8}{'failed':>8}{'seconds':>9}"]
    for setting, outcome in outcomes:
        if outcome is None:
            lines.append(f"{setting.name:<24}  does not apply: {setting.not_here}")
        else:
            numbers = f"{outcome.passed:>8}{outcome.failed:>8}{outcome.seconds:>9.0f}"
            lines.append(f"{setting.name:<24}{numbers}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run everything asked for; 1 if any test failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2, help="processes of pytest")
    parser.add_argument("--only", nargs="+", metavar="SETTING", help="names of settings")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest, after --")
    given = parser.parse_args(arguments)
    everything = [["-m", "not slow", f"--deselect={GALLERY}"], [GALLERY]]
    calls = [given.pytest] if given.pytest else everything
    known = settings()
    unknown = set(given.only or ()) - {setting.name for setting in known}
    if unknown:
        names = ", ".join(setting.name for setting in known)
        parser.error(f"no setting is called {', '.join(sorted(unknown))}; there are: {names}")
    outcomes: list[tuple[Setting, Outcome | None]] = []
    for setting in known:
        if given.only is not None and setting.name not in given.only:
            continue
        print(f"--- {setting.name} {setting.variables or setting.not_here}", flush=True)
        outcomes.append((setting, None if setting.not_here else run(setting, calls, given.workers)))
    print(table(outcomes))
    return int(any(outcome is not None and outcome.failed for _, outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
