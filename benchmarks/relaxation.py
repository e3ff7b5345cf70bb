"""Relaxation paths: next knots as tangents against the paper's own recursions, size and accuracy.

There is no public program for this path. What we are held against is the paper: its O(nk) recursion
(§6, "local") in the same compiled language and with the same sums, its global tracking (§7) and its
sorting solver for one nu (§5). Letters have the prior u_i ~ 1/(i + 2), samples of 8n letters are
drawn from q_i ~ 1/i (§8). Everything runs on one core, in fresh processes; the growth is in CPU
seconds, which other work on the machine disturbs less.

python -m benchmarks.relaxation [--quick]
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np

import maxent as mx
from benchmarks import report
from benchmarks.density import PATIENCE, ROOT, peak
from benchmarks.report import Row
from benchmarks.timing import median

SUITE = "relaxation"
OURS = "maxent"
ALPHABET, SPEED = 50_000, 50.0  # letters; at least so many times the recursion's
LARGE, SECONDS, MEMORY = 1_000_000, 10.0, 1000  # letters; limits in s and MB, on one core
VALUES, AGREEMENT = 100, 1e-12  # values of nu; largest difference of a probability
KNOTS = 1e-9  # largest relative difference of a knot between methods
GROWTH = {
    "hull": (1_000, 10_000, 100_000, 1_000_000),
    "local": (1_000, 5_000, 10_000, 20_000),
    "global": (250, 500, 1_000, 2_000),
    "uniform": (1_000, 10_000, 100_000, 1_000_000),
}
ONE_VALUE = dict.fromkeys(("select", "sort"), (10_000, 100_000, 1_000_000, 4_000_000))
PAPER = {
    "local": "O(nk), §6", "global": "O(n² log n), §7", "uniform": "O(n log n), §7",
    "select": "O(n), §5", "sort": "O(n log n), §5",
}  # fmt: skip
RECURSION = "recursion of the paper (§6)"
SORT = "sorting (§5)"
REPEATS = 3
BUDGET = 30.0  # seconds a size may take in all its repeats


def zipf(n: int, offset: int) -> np.ndarray:
    weights = 1.0 / (np.arange(1, n + 1) + offset)
    return weights / weights.sum()


def problem(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Prior, and counts of 8n letters."""
    return zipf(n, 2), np.random.default_rng(seed).multinomial(8 * n, zipf(n, 0))


def timed(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds, CPU seconds and what came out."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = work()
    return time.perf_counter() - wall, time.process_time() - cpu, found


# ---- what a child process measures, on one core ----


def compare(n: int, repeats: int) -> dict[str, Any]:
    """Both methods in turns on one problem, and how far their knots are apart."""
    prior, counts = problem(n)
    runs: dict[str, list[tuple[float, float]]] = {"hull": [], "local": []}
    paths = {}
    for _ in range(repeats):
        for method, times in runs.items():
            path = mx.RelaxationPath(prior, counts)
            wall, cpu, paths[method] = timed(lambda path=path, method=method: path.fit(method))
            times.append((wall, cpu))
    a, b = paths["hull"].nu[1:], paths["local"].nu[1:]
    same = a.size == b.size
    return {
        "runs": runs,
        "segments": paths["hull"].segments,
        "difference": float(np.max(np.abs(a - b) / b)) if same else float("inf"),
    }


def growth(method: str, n: int) -> dict[str, Any]:
    """Median CPU seconds of paths of one size, or of one value of nu, n."""
    prior: Any
    prior, observed = problem(n)
    if method == "uniform":  # counts would be joined to a few hundred rows
        prior, weights = None, np.random.default_rng(0).exponential(size=n)
        observed = weights / weights.sum()

    def fit() -> Any:
        if method in ONE_VALUE:
            return mx.solve_relaxed(prior, observed, float(n), method=method)
        return mx.RelaxationPath(prior, observed).fit(method)

    times: list[float] = []
    while len(times) < REPEATS and sum(times) < BUDGET:
        times.append(timed(fit)[1])
    return {"seconds": median(times), "repeats": len(times)}


def large(n: int) -> dict[str, Any]:
    """One path: seconds, peak memory of the whole process, then its accuracy."""
    prior, counts = problem(n)
    wall, cpu, path = timed(lambda: mx.RelaxationPath(prior, counts).fit())
    used = peak()
    rng = np.random.default_rng(1)
    first, last = np.log(path.nu[1] / 2), np.log(2 * path.nu[-1])
    values = np.exp(rng.uniform(first, last, VALUES // 2))  # half by size, half by knots
    place = rng.integers(1, path.segments - 1, VALUES - len(values))
    share = rng.uniform(size=place.size)
    values = np.append(values, (1 - share) * path.nu[place] + share * path.nu[place + 1])
    worst, sum_error, single_error = 0.0, 0.0, 0.0
    for nu in values:
        p, alone = path.distribution_at(float(nu)), mx.solve_relaxed(prior, counts, float(nu))
        worst = max(worst, float(np.abs(p - alone).max()))
        sum_error = max(sum_error, abs(math.fsum(p) - 1))
        single_error = max(single_error, abs(math.fsum(alone) - 1))
    return {
        "seconds": wall, "cpu": cpu, "peak": used, "segments": path.segments, "gap": path.gap_,
        "difference": worst, "sum_error": sum_error, "single_error": single_error,
    }  # fmt: skip


def single(n: int) -> dict[str, Any]:
    """One nu by selection and by sorting, at values spread over the path, in turns."""
    prior, counts = problem(n)
    values = np.geomspace(100.0, 1e3 * n, 7)
    times: dict[str, list[float]] = {"select": [], "sort": []}
    worst = 0.0
    for nu in values:
        found = {}
        for method, seconds in times.items():
            wall, _, found[method] = timed(
                lambda nu=nu, method=method: mx.solve_relaxed(prior, counts, nu, method=method)
            )
            seconds.append(wall)
        worst = max(worst, float(np.abs(found["select"] - found["sort"]).max()))
    return {"times": times, "difference": worst}


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "compare": compare,
    "growth": growth,
    "large": large,
    "single": single,
}


def _child(task: str, *arguments: str) -> None:
    prior, counts = problem(200)
    for method in ("hull", "local", "global"):  # loads the compiled functions
        mx.RelaxationPath(prior, counts).fit(method)
    mx.RelaxationPath(None, counts).fit("uniform")
    for method in ("select", "sort"):
        mx.solve_relaxed(prior, counts, 100.0, method=method)
    given = [int(text) if text.isdigit() else text for text in arguments]
    print(json.dumps(TASKS[task](*given)))


def in_process(task: str, *arguments: object) -> dict[str, Any]:
    """What a fresh process on one core measures."""
    one = dict.fromkeys(
        ("MAXENT_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"
    )
    command = [sys.executable, "-m", "benchmarks.relaxation", "child", task, *map(str, arguments)]
    out = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=PATIENCE,
        env=os.environ | one,
    )  # fmt: skip
    if out.returncode != 0:
        raise RuntimeError(out.stderr.strip())
    return json.loads(out.stdout.splitlines()[-1])


# ---- the rows ----


def speed(quick: bool) -> tuple[list[Row], tuple[int, float]]:
    """(a) Tangents against the recursion, same knots; the recursion's letters and CPU seconds."""
    n = ALPHABET // 10 if quick else ALPHABET
    found = in_process("compare", n, REPEATS)
    seconds = {method: median([t[0] for t in times]) for method, times in found["runs"].items()}
    cpu = {method: median([t[1] for t in times]) for method, times in found["runs"].items()}
    ratio = seconds["local"] / seconds["hull"]
    name = f"relaxation path, {n} letters, 8n samples"
    same = found["difference"] <= KNOTS
    note = f"{found['segments']} segments; knots within {found['difference']:.2g} of each other"
    rows = [
        Row(
            SUITE, name, OURS, seconds=seconds["hull"], ratio=1.0, repeats=REPEATS,
            note=f"CPU {cpu['hull']:.3g} s; {note}",
        ),
        Row(
            SUITE, name, RECURSION, seconds=seconds["local"], ratio=ratio,
            accuracy=found["difference"], repeats=REPEATS, target=f"at least {SPEED:g} x faster",
            met="yes" if ratio >= SPEED and same else "no",
            note=f"CPU {cpu['local']:.3g} s; CPU ratio {cpu['local'] / cpu['hull']:.3g}; {note}",
        ),
    ]  # fmt: skip
    return rows, (n, cpu["local"])


def growing_what(method: str) -> str:
    return "growth of one value" if method in ONE_VALUE else "growth"


def growth_row(method: str, n: int, seconds: float, repeats: int) -> Row:
    name = f"{growing_what(method)}, {n} letters, CPU s"
    return Row(SUITE, name, f"{OURS} ({method})", seconds=seconds, repeats=repeats)


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """The power of n by which time grows, from the three largest sizes."""
    return float(np.polyfit(np.log(sizes[-3:]), np.log(seconds[-3:]), 1)[0])


def growing(quick: bool, recursion: tuple[int, float]) -> list[Row]:
    """(b) CPU seconds against the number of letters; ``recursion`` is that of (a)."""
    rows = []
    for method, sizes in (GROWTH | ONE_VALUE).items():
        done: list[int] = []
        times: list[float] = []
        for n in sizes[:3] if quick else sizes:
            found = in_process("growth", method, n)
            done.append(n)
            times.append(found["seconds"])
            rows.append(growth_row(method, n, found["seconds"], found["repeats"]))
        if method == "local" and recursion[0] > done[-1]:
            done.append(recursion[0])
            times.append(recursion[1])
            rows.append(growth_row(method, *recursion, REPEATS))
        stated = f"; paper: {PAPER[method]}" if method in PAPER else ""
        power = exponent(done, times)
        rows.append(
            Row(
                SUITE, f"{growing_what(method)}, exponent", f"{OURS} ({method})",
                note=f"n^{power:.2f} from {done[-3]} to {done[-1]} letters{stated}",
            )
        )  # fmt: skip
    return rows


def sized(quick: bool) -> list[Row]:
    """(c) A million letters on one core, and the path against single solutions."""
    n = LARGE // 20 if quick else LARGE
    found = in_process("large", n)
    good = found["seconds"] < SECONDS and found["peak"] < MEMORY
    name = f"relaxation path, {n} letters, {8 * n} samples, one core"
    return [
        Row(
            SUITE, name, OURS, seconds=found["seconds"], accuracy=found["difference"], repeats=1,
            target=f"under {SECONDS:g} s; under {MEMORY} MB, used {found['peak']:.0f} MB",
            met="yes" if good else "no",
            note=f"CPU {found['cpu']:.3g} s; {found['segments']} segments; gap {found['gap']:.2g}",
        ),
        Row(
            SUITE, f"accuracy, {n} letters", f"{OURS} (path and {VALUES} single solutions)",
            accuracy=found["difference"], repeats=VALUES, target=f"p within {AGREEMENT:g}",
            met="yes" if found["difference"] <= AGREEMENT else "no",
            note=f"sums of p within {found['sum_error']:.2g} of 1 on the path, "
            f"{found['single_error']:.2g} alone",
        ),
    ]  # fmt: skip


def one_value(quick: bool) -> list[Row]:
    """(d) One nu: selection against sorting."""
    n = LARGE // 20 if quick else LARGE
    found = in_process("single", n)
    seconds = {method: median(times) for method, times in found["times"].items()}
    name = f"one relaxation value, {n} letters"
    count = len(found["times"]["sort"])
    return [
        Row(SUITE, name, OURS, seconds=seconds["select"], ratio=1.0, repeats=count),
        Row(
            SUITE, name, SORT, seconds=seconds["sort"], ratio=seconds["sort"] / seconds["select"],
            accuracy=found["difference"], repeats=count, note="median over values of nu",
        ),
    ]  # fmt: skip


def picture(rows: list[Row]) -> bytes:
    """Seconds against letters, all methods."""
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(6.5, 4.4), dpi=120, layout="constrained")
    ax = figure.subplots()
    for method, marker in zip(GROWTH, "os^d", strict=True):
        label = f"{OURS} ({method})"
        mine = [r for r in rows if r.method == label and r.problem.endswith("CPU s")]
        points = [(int(r.problem.split()[1]), r.seconds) for r in mine]
        (power,) = [r for r in rows if r.method == label and r.problem == "growth, exponent"]
        text = f"{method}: $n^{{{power.note.split()[0][2:]}}}$"
        ax.loglog(*zip(*points, strict=True), marker=marker, ms=5, label=text)
    ax.axhline(SECONDS, color="0.5", lw=1, ls=":")
    ax.text(300, SECONDS * 1.15, "10 s", color="0.4", fontsize=9)
    ax.set(xlabel="letters n", ylabel="CPU seconds for the whole path")
    ax.set_title("Relaxation path, samples of 8n letters (uniform: distinct values)", fontsize=11)
    ax.grid(alpha=0.3)
    ax.legend()
    buffer = BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def run(quick: bool = False) -> list[Row]:
    """All four parts; the picture of the growth is written with the results."""
    rows, recursion = speed(quick)
    rows += growing(quick, recursion)
    rows += sized(quick) + one_value(quick)
    if not quick:
        (report.RESULTS / f"{SUITE}.png").write_bytes(picture(rows))
    return rows


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        if hasattr(os, "sched_setaffinity"):  # Linux
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        _child(*sys.argv[2:])
    else:
        rows = run("--quick" in sys.argv)
        report.show(rows)
        if "--quick" not in sys.argv:
            print(f"written: {report.write(SUITE, rows)}")
