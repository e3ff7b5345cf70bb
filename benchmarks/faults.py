"""The campaign of faults: what can go wrong is made to, and must do no harm.

    python -m benchmarks.faults                        the campaign, for results/faults.csv and docs
    python -m benchmarks.faults --hours 24             new cases until then: make fuzz HOURS=24
    python -m benchmarks.faults --replay entropies:17  one case again, with its traceback
    python -m benchmarks.faults --part mathematics     random mathematics alone
    python -m benchmarks.faults --part app             the campaign against the app: faults_app.py

A case is a function of its seed. It runs in a process of its own kind, so that one that crashes is
counted, not followed. Cases that do harm are written to out/faults.log, one JSON line each.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, count, pairwise
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import faults_app
from benchmarks.report import RESULTS

CSV = RESULTS / "faults.csv"
DOCS = Path(__file__).parent.parent / "docs" / "reliability.md"
LOG = Path("out") / "faults.log"
START, END = "<!-- faults: start -->", "<!-- faults: end -->"
_PATIENCE = 300  # CPU seconds after which a case counts as one that never ends
_BUSY = 10  # times that in all, on a machine with other work or in a case that waits


@dataclass(frozen=True)
class Kind:
    """Cases of one kind: how many a campaign has, and what each must show."""

    case: Callable[[int, Path], None]
    number: int
    what: str
    promise: str


# -- mathematics against references ----------------------------------------------------------------


def entropies(seed: int, folder: Path) -> None:
    from maxent.testing import check_entropy
    from maxent.testing.draws import draw_entropy

    entropy, size = draw_entropy(np.random.default_rng(seed))
    check_entropy(entropy, size, seed)


def potentials(seed: int, folder: Path) -> None:
    from maxent.testing import check_potential
    from maxent.testing.draws import draw_potential

    potential, size = draw_potential(np.random.default_rng(seed))
    check_potential(potential, size, seed)


def domains(seed: int, folder: Path) -> None:
    from maxent.testing import check_domain
    from maxent.testing.draws import draw_domain

    domain, size = draw_domain(np.random.default_rng(seed))
    check_domain(domain, size, seed)


def problems(seed: int, folder: Path) -> None:
    from maxent.testing.draws import check_problem, draw_problem

    check_problem(*draw_problem(np.random.default_rng(seed)))


def programmes(seed: int, folder: Path) -> None:
    """The same value as CVXPY's, both judged by our Problem; skipped where it is not installed."""
    import maxent as mx

    cp = _cvxpy()
    rng = np.random.default_rng(seed)
    cells, n_features = int(rng.integers(3, 20)), int(rng.integers(1, 4))
    F = rng.normal(size=(n_features, cells))
    target = F @ rng.dirichlet(np.ones(cells))
    beta = float(rng.uniform(0.01, 1))
    p = cp.Variable(cells)
    residual = F @ p - target
    entropy, omega = [
        (mx.Shannon(), -cp.sum(cp.entr(p))),
        (mx.Tsallis(2.0), (cp.sum_squares(p) - 1) / 2),
    ][rng.integers(2)]
    potential, cost, bounds = [
        (mx.Box(beta), 0, [cp.abs(residual) <= beta]),
        (mx.Ball(beta), 0, [cp.norm(residual) <= beta]),
        (mx.Quadratic(beta), cp.sum_squares(residual) / (2 * beta), []),
    ][rng.integers(3)]
    programme = cp.Problem(cp.Minimize(omega + cost), [p >= 0, cp.sum(p) == 1, *bounds])
    reference = programme.solve(solver=cp.CLARABEL)
    problem = mx.Problem(entropy, mx.MatrixMap(F.T), potential, target)
    error = abs(-problem.run().objective - reference)
    assert error <= 1e-5 * (1 + abs(reference)), f"off by {error:.1e} from {reference:.6g}"


def margins(seed: int, folder: Path) -> None:
    """Slacks and radii of tiny sequences: the gap closes, and bounds what CVXPY's weights gain."""
    from maxent.testing.margins import draw_margin_case

    case = draw_margin_case(np.random.default_rng(seed))
    model = case.fit()
    own = case.objective(model.weights_)
    rounding = 1e-9 * (1 + abs(own))
    assert model.gap_ <= model.tol, f"{model!r}: gap {model.gap_:.1e}"
    assert abs(model.objective_ - own) <= rounding, f"{model!r}: {model.objective_} is {own}"
    found = _margin_optimum(case)
    if found is None:
        return
    best = case.objective(found)
    above = own - best
    assert above <= model.gap_ + rounding, f"{model!r}: {above:.1e} above {best:.6g}"


def given_moments(seed: int, folder: Path) -> None:
    """Costs under moments given exactly or to a radius: HiGHS' value, or that no p has them."""
    from scipy import optimize

    import maxent as mx

    rng = np.random.default_rng(seed)
    cells, n_features = int(rng.integers(2, 12)), int(rng.integers(1, 5))
    F = rng.normal(size=(cells, n_features)) * 10 ** rng.uniform(-2, 2)
    F = np.round(F) if rng.random() < 0.3 else F
    cost = rng.normal(size=cells) * 10 ** rng.uniform(-2, 2)
    shares = rng.dirichlet(np.full(cells, 0.3)) if rng.random() < 0.6 else rng.normal(size=cells)
    target = F.T @ shares
    beta = float(np.abs(F).max()) * 10 ** rng.uniform(-3, -0.5)
    potential = [mx.Equality(), mx.Box(beta), mx.NormBall(beta, p=1)][rng.integers(3)]
    # of p, and of the parts of F p - target above and below 0
    one, none = np.eye(n_features), np.zeros((n_features, n_features))
    moments = np.hstack([F.T, *((none, none) if potential == mx.Equality() else (-one, one))])
    sums = np.append(np.ones(cells), np.zeros(2 * n_features))
    radii = np.append(np.zeros(cells), np.ones(2 * n_features))
    best = optimize.linprog(
        np.append(-cost, np.zeros(2 * n_features)),
        A_eq=np.vstack([moments, sums]),
        b_eq=np.append(target, 1),
        **({"A_ub": radii[None], "b_ub": [beta]} if isinstance(potential, mx.NormBall) else {}),
        bounds=[(0, None)] * cells + [(0, beta)] * (2 * n_features),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    problem = mx.Problem(mx.Shifted(mx.Zero(), cost), F, potential, target)
    solution = problem.run(tol=1e-6, verbose=0)
    if best.status != 0:
        assert solution.status is mx.Status.UNBOUNDED, f"{solution}, HiGHS: {best.message}"
        return
    assert solution.status is mx.Status.CONVERGED, f"{solution}, HiGHS: {best.fun:.9g}"
    error = abs(solution.objective + best.fun)
    assert error <= 1e-6 + 1e-9 * np.abs(cost).max(), f"{solution}: off by {error:.1e}"


def weights(seed: int, folder: Path) -> None:
    from maxent.testing.fits import check_weights, draw_fit

    check_weights(draw_fit(np.random.default_rng(seed)))


def chunkings(seed: int, folder: Path) -> None:
    from maxent.testing.fits import check_chunking, draw_fit

    rng = np.random.default_rng(seed)
    check_chunking(draw_fit(rng), rng)


def _margin_optimum(case: Any) -> np.ndarray | None:
    """CVXPY's weights, in the domain of the penalty: what it says of its value is rougher.

    None where it gives up.
    """
    cp = _cvxpy()
    potential, slack, rate = case.recipe()
    planes = case.planes()
    w, t = cp.Variable(planes[0][1].shape[1]), cp.Variable(len(planes))
    limits = [images @ w + cost <= xi for (_, images, cost), xi in zip(planes, t, strict=True)]
    loss = t if slack == "linear" else cp.square(t) / 2
    if slack == "kl":
        loss, limits = t - (1 + cp.log(rate * t)) / rate, [*limits, t >= 1 / rate]
    penalty, bounds = _margin_penalty(potential, w)
    mean = np.array([weight for weight, _, _ in planes]) @ loss
    programme = cp.Problem(cp.Minimize(mean + penalty), limits + bounds)
    try:
        programme.solve(solver=cp.CLARABEL)
    except cp.SolverError:
        return None
    found = np.asarray(w.value)
    if np.isfinite(potential.conjugate(-found)):
        return found
    return -potential.prox_conjugate(-found, 1e-9)


def _margin_penalty(potential: Any, w: Any) -> tuple[Any, list[Any]]:
    """V*(w) as CVXPY writes it, and its constraints."""
    import maxent as mx

    cp = _cvxpy()
    if isinstance(potential, mx.Families):
        begins = np.cumsum([0, *potential.sizes])
        blocks = [w[begin:end] for begin, end in pairwise(begins)]
        pairs = zip(potential.potentials, blocks, strict=True)
        prices, bounds = zip(*(_margin_penalty(*pair) for pair in pairs), strict=True)
        return sum(prices), list(chain(*bounds))
    if isinstance(potential, mx.Centred):
        return _margin_penalty(potential.potential, w - potential.centre)
    if isinstance(potential, mx.ShiftedPotential):  # of potentials that are the same at -w
        price, bounds = _margin_penalty(potential.potential, w)
        return price - potential.reference @ w, bounds
    elastic = potential.elastic(w.size)
    if elastic is not None:
        l1, l2 = elastic
        return l1 @ cp.abs(w) + l2 @ cp.square(w) / 2, []
    if isinstance(potential, mx.DualBall):
        return 0, [cp.norm(w, potential.p) <= potential.radius]
    if isinstance(potential, mx.SmoothBox):
        a, b = float(potential.smoothing), float(potential.beta)
        return b * cp.sum(a * cp.logistic(2 * w / a) - w - a * np.log(2)), []  # log cosh
    if isinstance(potential, mx.NormBall | mx.NormPlusSquare | mx.SquaredNormPotential):
        norm = cp.norm(
            w, {1.0: "inf", np.inf: 1}.get(potential.p) or potential.p / (potential.p - 1)
        )
        if isinstance(potential, mx.SquaredNormPotential):
            return potential.strength / 2 * cp.square(norm), []
        square = getattr(potential, "strength", 0.0) / 2 * cp.sum_squares(w)
        return potential.radius * norm + square, []
    lam = float(potential.potential.lam)  # a multiple of the Laplace prior
    root = cp.Variable(w.size)
    cone = cp.norm(cp.vstack([np.sqrt(lam) * w, np.ones(w.size)]), 2, axis=0) <= root
    return potential.multiplier * cp.sum(root - 1 - cp.log((root + 1) / 2)), [cone]


def _cvxpy() -> Any:
    import cvxpy

    return cvxpy


def fractions(seed: int, folder: Path) -> None:
    """Projections onto the simplex to the last digits, of scores of all sizes."""
    import maxent as mx
    from maxent.testing.draws import exact_sparsemax

    rng = np.random.default_rng(seed)
    theta = rng.normal(size=int(rng.integers(1, 40))) * 10.0 ** rng.integers(-8, 13)
    if rng.random() < 0.3:
        theta = np.round(theta)
    exact = np.array([float(x) for x in exact_sparsemax(theta)])
    for entropy in (mx.Tsallis(2.0), mx.SquaredNorm()):
        p = np.asarray(entropy.conjugate(theta)[1])
        error = np.abs(p - exact).max()
        assert error <= 4e-16 * (1 + np.abs(theta).max()), f"{entropy!r}: off by {error:.1e}"


# -- files -----------------------------------------------------------------------------------------


@cache
def _documents() -> list[Any]:
    from maxent.testing.model_files import models, written

    with tempfile.TemporaryDirectory() as name:
        return [written(model, Path(name)) for model in models()]


def mutations(seed: int, folder: Path) -> None:
    from maxent.testing.model_files import check_digest, check_mutation

    draw = random.Random(seed)
    check_mutation(draw.choice(_documents()), draw, folder / "model.json")
    check_digest(draw.choice(_documents()), draw, folder / "model.json")  # as it is when it is read


FAST = ["-f", "l", "--bootstrap", "0", "--permutations", "0", "--no-jackknife", "--cv", "none"]
FAST += ["-c", "biome", "--background", "200", "-q"]


@cache
def _landscape() -> Path:
    """A landscape, and the results of a fit to it, for all cases of a process."""
    from maxent.datasets.landscape import virtual_landscape, write_landscape

    folder = Path(tempfile.mkdtemp(prefix="maxent-faults-"))
    Finalize(None, shutil.rmtree, [folder, True], exitpriority=1)  # also at the end of a worker
    landscape = virtual_landscape(height=24, width=30, n_occurrences=50, n_group=100, seed=3)
    write_landscape(landscape, folder)
    code, told = _command(*_fit(folder, folder / "fitted"))
    assert code == 0, told
    return folder


def _fit(data: Path, out: Path) -> list[str]:
    return ["fit", str(data / "occurrences.csv"), str(data / "layers"), *FAST, "-o", str(out)]


def _command(*words: str) -> tuple[int, str]:
    """The exit code of a command, in this process, and all that it says."""
    from typer.testing import CliRunner

    from maxent import cli

    result = CliRunner().invoke(cli.main, list(words))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise AssertionError(f"a traceback: {result.exception!r}") from result.exception
    assert result.exit_code in (0, 1, 2, 3), f"exit code {result.exit_code}"
    return result.exit_code, result.output


def bad_inputs(seed: int, folder: Path) -> None:
    """A damaged file or an odd option: results, or an error in words, and nothing else changes."""
    draw, data = random.Random(seed), folder / "data"
    shutil.copytree(_landscape(), data)
    model, out = data / "fitted" / "model.json", folder / "out"
    records, layers = data / "occurrences.csv", data / "layers"
    words = draw.choice(
        [
            _fit(data, out),
            ["project", str(model), str(layers), "-o", str(out)],
            ["evaluate", str(model), str(records), str(layers), "-o", str(out)],
            [
                "tune",
                str(records),
                str(layers),
                "-c",
                "biome",
                "-f",
                "l",
                "-m",
                "1",
                "-o",
                str(out),
            ],
        ]
    )
    if draw.random() < 0.15:
        words += draw.choice(ODD_OPTIONS)
    else:
        damage(draw.choice([records, records, model, *layers.iterdir()]), draw)
    before = _contents(data)
    code, told = _command(*words)
    if code:
        assert told.strip(), "no word of what went wrong"
        assert "a fault of maxent" not in told, told
        assert not list(folder.rglob(".*")), "something half-written is left"
    assert _contents(data) == before, "an input was changed"


ODD_OPTIONS = [
    *(["-f", "xyz"], ["--background", "0"], ["-m", "nan"], ["--seed", "-1"], ["--crs", "EPSG:0"]),
    *(["--align", "never"], ["--threshold", "huh"], ["-s", "nobody"], ["--bias", "/nowhere.tif"]),
    *(["--max-cells", "1"], ["--test-share", "2"], ["--folds", "1"], ["--output", "nothing"]),
]


def damage(path: Path, draw: random.Random) -> None:
    """Change the bytes of a file, or the cells of a table."""
    content = bytearray(path.read_bytes())
    how = draw.choice(["bits", "cut", "empty", "zeros", "noise", "cells", "cells", "cells"])
    if how == "bits":
        for _ in range(draw.choice([1, 5, 50])):
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    elif how == "cut":
        del content[draw.randrange(len(content)) :]
    elif how == "empty":
        content.clear()
    elif how == "zeros":
        start = draw.randrange(len(content))
        content[start : start + 200] = bytes(len(content[start : start + 200]))
    elif how == "noise":
        content[:] = draw.randbytes(draw.choice([1, 100, 5000]))
    elif path.suffix == ".csv":
        rows = [line.split(",") for line in content.decode().splitlines()]
        for _ in range(draw.choice([1, 1, 10])):
            row = draw.choice([rows[0], draw.choice(rows)])
            odd = [
                "",
                "nan",
                "inf",
                "1e400",
                "-1e308",
                '"',
                "\0",
                "é",
                "=1",
                "999",
                "a,b",
                "\ufeff",
            ]
            row[draw.randrange(len(row))] = draw.choice(odd)
        content[:] = "\n".join(",".join(row) for row in rows).encode()
    path.write_bytes(content)


def _contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# -- processes and disks ---------------------------------------------------------------------------


def kills(seed: int, folder: Path) -> None:
    """A run that is killed at any moment leaves the earlier results, or the new ones."""
    from maxent.species.batch import outputs

    draw, data, out = random.Random(seed), _landscape(), folder / "out"
    earlier = draw.random() < 0.7
    if earlier:
        shutil.copytree(data / "fitted", out)
        (out / "notes.txt").write_text("the user's own")
        (out / "report.html").write_text("of before")
    before = _contents(data)
    process = subprocess.Popen(
        [sys.executable, "-m", "maxent", *_fit(data, out), "--overwrite"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    importing = draw.random() < 0.2
    while not importing and process.poll() is None and not list(folder.glob(".out.*.partial")):
        time.sleep(0.01)
    time.sleep(draw.uniform(0, 1.5))
    names = ("SIGKILL", "SIGKILL", "SIGTERM", "SIGHUP", "SIGINT")
    how = getattr(signal, draw.choice(names), signal.SIGTERM)
    process.send_signal(how)
    _, told = process.communicate(timeout=_PATIENCE)
    if not (importing and _too_early(process.returncode, told)):
        expected = 130 if how == signal.SIGINT else -how
        assert process.returncode in (0, expected), f"{process.returncode}: {told.decode()}"
        assert b"Traceback" not in told, told.decode()
    assert _contents(data) == before, "an input was changed"
    with outputs.locked(out):  # as the next run does
        pass
    assert not list(folder.rglob(".*")), "leftovers of the killed run"
    if out.exists():
        summary = json.loads((out / "summary.json").read_text())
        lost = [name for name in summary["files"] if not (out / name).is_file()]
        assert not lost, f"results without {lost[0]}"
        assert (out / "notes.txt").exists() == earlier, "a file of the user is gone"
        of_before = (out / "report.html").read_text() == "of before"
        assert of_before == (earlier and process.returncode != 0)
    else:
        assert not earlier, "the earlier results are gone"


def _too_early(code: int, told: bytes) -> bool:
    """A Ctrl-C while Python itself starts, before the first line of our command."""
    ours = b"_command.py" in told and b", in run\n" in told
    return code == -signal.SIGINT and not ours and b"error: " not in told


def full_disks(seed: int, folder: Path) -> None:
    """A disk that fills up: an error that says so, and the earlier results."""
    draw, data, disk = random.Random(seed), _landscape(), folder / "disk"
    with mounted(disk, draw.randrange(16, 1200)):
        out = disk / "out"
        (disk / "mine.txt").write_text("mine")
        code, told = _command(*_fit(data, out))
        if code:
            assert "no space left" in told.lower(), told
            assert sorted(os.listdir(disk)) == ["mine.txt"], os.listdir(disk)
        else:
            summary = json.loads((out / "summary.json").read_text())
            assert all((out / name).is_file() for name in summary["files"])


@contextmanager
def mounted(place: Path, kilobytes: int) -> Any:
    """A small disk, where this user may mount one."""
    place.mkdir()
    size = f"size={kilobytes}k"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


def _can_mount() -> bool:
    with tempfile.TemporaryDirectory() as name:
        try:
            with mounted(Path(name) / "disk", 16):
                return True
        except (OSError, subprocess.CalledProcessError):
            return False


KINDS = {
    "kills": Kind(
        kills, 115, "runs killed at a random moment", "earlier or new results, whole; no leftovers"
    ),
    "full_disks": Kind(
        full_disks, 40, "disks that fill up", "an error that says so, nothing half-written"
    ),
    "bad_inputs": Kind(
        bad_inputs, 600, "damaged inputs, odd options", "results or an error in words; inputs kept"
    ),
    "mutations": Kind(
        mutations, 3000, "mutated model files", "refused, or the same answer twice; no crash"
    ),
    "entropies": Kind(
        entropies, 120, "random entropies", "conjugacy, derivatives, prox, scales, float32"
    ),
    "potentials": Kind(
        potentials, 1000, "random potentials", "conjugacy, Moreau, prox against perturbations"
    ),
    "domains": Kind(domains, 600, "random domains", "oracles as those of the enumeration"),
    "problems": Kind(
        problems, 1000, "problems with a known solution", "its value; the gap is an upper bound"
    ),
    "programmes": Kind(
        programmes, 120, "problems against CVXPY", "the same value, judged by our Problem"
    ),
    "margins": Kind(
        margins,
        200,
        "slacks and radii against CVXPY",
        "the gap closes; labels listed one by one agree",
    ),
    "given_moments": Kind(
        given_moments,
        600,
        "costs under given moments",
        "the value of HiGHS, or told that no p has the moments",
    ),
    "weights": Kind(
        weights, 300, "weights that are counts", "the fit of the repeated rows, within its gap"
    ),
    "chunkings": Kind(
        chunkings, 300, "rows cut into blocks", "the fit of all rows in memory, within its gap"
    ),
    "fractions": Kind(
        fractions, 3000, "projections against exact fractions", "right to the last digits"
    ),
}

FILES = ("kills", "full_disks", "bad_inputs", "mutations")
PARTS = {
    "all": tuple(KINDS),
    "files": FILES,
    "mathematics": tuple(name for name in KINDS if name not in FILES),
}


# -- the campaign ----------------------------------------------------------------------------------


def attempt(job: tuple[str, int]) -> str:
    """What harm a case did, "" for none."""
    name, seed = job
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, partial(_late, time.process_time(), time.monotonic()))
        signal.alarm(_PATIENCE)
    try:
        replay(name, seed)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        if hasattr(signal, "SIGALRM"):
            signal.alarm(0)
    return ""


def replay(name: str, seed: int) -> None:
    """One case, with the exception that shows its harm."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with np.errstate(all="ignore"):
            KINDS[name].case(seed, Path(folder))


def _late(cpu: float, wall: float, number: int, frame: Any) -> None:
    spent, passed = time.process_time() - cpu, time.monotonic() - wall
    if spent < _PATIENCE and passed < _BUSY * _PATIENCE:
        signal.alarm(_PATIENCE)
        return
    raise TimeoutError(f"no end after {spent:.0f} CPU s, {passed:.0f} s in all")


def available() -> dict[str, Kind]:
    """The kinds that this machine can run."""
    lacking = set() if _can_mount() else {"full_disks"}
    try:
        _cvxpy()
    except ImportError:
        lacking |= {"programmes", "margins"}
    return {name: kind for name, kind in KINDS.items() if name not in lacking}


def campaign(
    jobs: list[tuple[str, int]], processes: int, tally: dict[str, list[int]], deadline: float
) -> None:
    """Run cases in processes of their own; count them and write down those that do harm."""
    from maxent.species.batch.workers import in_processes

    for (name, seed), harm in in_processes(attempt, jobs, (), processes):
        tally[name][0] += 1
        if harm:
            tally[name][1] += 1
            LOG.parent.mkdir(exist_ok=True)
            with LOG.open("a") as file:
                file.write(json.dumps({"kind": name, "seed": seed, "harm": str(harm)}) + "\n")
            print(f"harm: {name}:{seed}: {str(harm)[:200]}", flush=True)
        if time.monotonic() > deadline:
            return


def _rows() -> list[dict[str, str]]:
    if not CSV.exists():
        return []
    with CSV.open() as file:
        return list(csv.DictReader(file))


def table() -> str:
    """The table of the docs, from the tracked results."""
    rows = _rows()
    lines = ["| what is done | cases | what must hold | harm |", "|---|---|---|---|"]
    lines += [f"| {r['what']} | {r['cases']} | {r['promise']} | {r['harm']} |" for r in rows]
    return "\n".join(lines)


def updated(text: str) -> str:
    """The page with the tables of both campaigns between their markers."""
    parts = ((START, END, table()), (faults_app.START, faults_app.END, faults_app.table()))
    for start, end, made in parts:
        before, _, rest = text.partition(start)
        _, _, after = rest.partition(end)
        text = f"{before}{start}\n{made}\n{end}{after}"
    return text


def write(tally: dict[str, list[int]]) -> None:
    """The results of these kinds, among those of the others, and the table of the docs."""
    known = {row["kind"]: row for row in _rows()}
    for name, (cases, harm) in tally.items():
        kind = KINDS[name]
        known[name] = {"kind": name, "what": kind.what, "cases": str(cases)}
        known[name] |= {"promise": kind.promise, "harm": str(harm)}
    with CSV.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["kind", "what", "cases", "promise", "harm"])
        writer.writeheader()
        writer.writerows(known[name] for name in KINDS if name in known)
    DOCS.write_text(updated(DOCS.read_text()))


def show(tally: dict[str, list[int]]) -> None:
    """The table on the terminal."""
    for name, (cases, harm) in tally.items():
        print(f"{KINDS[name].what:<40}{cases:>8} cases{harm:>6} harm")


def against_the_app(kinds: str, share: float, first: int) -> None:
    """The second campaign; its results are written where it is whole."""
    done = faults_app.run(kinds.split(",") if kinds else list(faults_app.KINDS), share, first)
    if share == 1:
        faults_app.write(done)
        DOCS.write_text(updated(DOCS.read_text()))
    sys.exit(any(counted[harm] for counted in done.values() for harm in faults_app.HARMS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hours", type=float, help="new cases for so long, results not written")
    parser.add_argument("--seed", type=int, help="of the first case; by the clock with --hours")
    parser.add_argument("--kinds", default="", help=f"some of {','.join(KINDS)}")
    parser.add_argument("--share", type=float, default=1.0, help="of the cases of a campaign")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--replay", metavar="KIND:SEED", help="one case, with its traceback")
    parser.add_argument("--part", choices=[*PARTS, "app"], default="all", help="of the campaign")
    given = parser.parse_args()
    if given.replay:
        name, _, seed = given.replay.partition(":")
        print((faults_app.replay if given.part == "app" else replay)(name, int(seed)) or "")
        return
    if given.part == "app":
        against_the_app(given.kinds, given.share, given.seed or 0)
        return
    kinds = available()
    chosen = given.kinds.split(",") if given.kinds else PARTS[given.part]
    kinds = {name: kinds[name] for name in chosen if name in kinds or given.kinds}
    tally = {name: [0, 0] for name in kinds}
    first = given.seed if given.seed is not None else int(time.time()) if given.hours else 0
    deadline = time.monotonic() + 3600 * (given.hours or 1e6)
    share = given.share if not given.hours else min(given.share, 0.1)  # small rounds of all kinds
    numbers = {name: max(1, round(share * kind.number)) for name, kind in kinds.items()}
    try:
        for start in count(first, 1_000_000) if given.hours else [first]:
            jobs = [(name, start + i) for name, number in numbers.items() for i in range(number)]
            random.Random(start).shuffle(jobs)
            campaign(jobs, given.processes, tally, deadline)
            if time.monotonic() > deadline:
                break
            if given.hours:
                show(tally)
    except KeyboardInterrupt:  # what was done up to here counts
        print("interrupted")
    show(tally)
    if not given.hours and given.share == 1:
        write(tally)
    sys.exit(any(harm for _, harm in tally.values()))


if __name__ == "__main__":
    main()
