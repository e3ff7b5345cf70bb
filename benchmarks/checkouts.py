"""The same fits by two checkouts: has a change made them slower?

    python -m benchmarks.checkouts ../earlier        a second clone, at the commit to compare with

Each fit runs in processes of its own, those of the two checkouts in turns, by the public names
alone. Seconds are those of the processor on one thread, which a busy neighbour lengthens little;
the first fit of a process is not counted, and small problems use the compiled kernels too. The
table gives the median over pairs of processes of the ratio now / earlier, and the quartiles.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks.timing import once

ROOT = Path(__file__).parent.parent
ROUNDS, FITS = 9, 5  # pairs of processes, and fits in each


def density() -> Callable[[], object]:
    """Linear, quadratic, product and hinge features of 10 covariates, 5,000 points."""
    import maxent as mx

    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 10))
    y = rng.random(5000) < 0.04 / (1 + np.exp(-2 * X[:, 0] + X[:, 1] ** 2))
    return lambda: mx.MaxentDensity(features="lqph").fit(X, y)


def _classes(alpha: float, samples: int, features: int, classes: int) -> Callable[[], object]:
    import maxent as mx

    rng = np.random.default_rng(0)
    X = rng.normal(size=(samples, features))
    scores = X @ rng.normal(size=(features, classes)) + rng.gumbel(size=(samples, classes))
    y = scores.argmax(axis=1)
    return lambda: mx.FenchelYoungClassifier(alpha=alpha, potential=0.01, tol=1e-6).fit(X, y)


def many_classes() -> Callable[[], object]:
    """Logistic regression, 2,000 x 60, 10 classes."""
    return _classes(1.0, 2000, 60, 10)


def sparsemax() -> Callable[[], object]:
    """Sparsemax, 2,000 x 60, 10 classes."""
    return _classes(2.0, 2000, 60, 10)


def two_classes() -> Callable[[], object]:
    """Logistic regression, 20,000 x 100, two classes."""
    return _classes(1.0, 20000, 100, 2)


def _sequences(model: str, **given: object) -> Callable[[], object]:
    import maxent as mx

    rng = np.random.default_rng(0)
    W = rng.normal(size=(30, 6))
    X = [rng.normal(size=(int(rng.integers(5, 25)), 30)) for _ in range(200)]
    y = [(x @ W + 2 * rng.gumbel(size=(len(x), 6))).argmax(axis=1) for x in X]
    return lambda: getattr(mx, model)(**given).fit(X, y)


def random_field() -> Callable[[], object]:
    """Conditional random field, 200 sequences, 6 labels, 30 features."""
    return _sequences("L2CRF", c2=1.0)


def max_margin() -> Callable[[], object]:
    """Max-margin Markov network, the same sequences."""
    return _sequences("M3N", C=0.01)


KINDS = (density, many_classes, sparsemax, two_classes, random_field, max_margin)


def _compile_always() -> None:
    """No first small problems in numpy; a checkout from before there were any knows no switch."""
    try:
        from maxent._support.compiling import switches
    except ImportError:
        return
    switches.spare_small_problems = False


def _seconds(kind: str) -> list[float]:
    """Processor's seconds of each fit, in this process, after one that is not counted."""
    _compile_always()
    fit = globals()[kind]()
    fit()
    return [once(fit, process_time) for _ in range(FITS)]


def _in_checkout(folder: Path, kind: str) -> float:
    """The median of those by the package of a checkout."""
    cache = {"NUMBA_CACHE_DIR": str(folder / ".cache" / "numba"), "MAXENT_NUM_THREADS": "1"}
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    paths = {"PYTHONPATH": str(folder / "src")}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.checkouts", "--kind", kind],
        env=os.environ | threads | cache | paths,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{kind} in {folder}: {done.stderr.strip()[-500:]}")
    return statistics.median(json.loads(done.stdout.splitlines()[-1]))


def compare(earlier: Path, rounds: int) -> None:
    """Print a line for each fit; checkouts begin in turns, so that none is always the first."""
    print(f"{'fit':<78} seconds  now / earlier  quartiles")
    for kind in KINDS:
        seconds: dict[Path, list[float]] = {earlier: [], ROOT: []}
        for i in range(rounds):
            for folder in (earlier, ROOT) if i % 2 else (ROOT, earlier):
                seconds[folder].append(_in_checkout(folder, kind.__name__))
        pairs = zip(seconds[ROOT], seconds[earlier], strict=True)
        low, middle, high = statistics.quantiles([now / before for now, before in pairs], n=4)
        name, own = (kind.__doc__ or "").rstrip("."), statistics.median(seconds[ROOT])
        print(f"{name:<78} {own:7.3f}  {middle:13.3f}  {low:.3f} to {high:.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("earlier", nargs="?", type=Path, help="the other checkout")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="pairs of processes, 2 or more")
    parser.add_argument("--kind", choices=[kind.__name__ for kind in KINDS], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.kind:
        print(json.dumps(_seconds(given.kind)))
        return
    if given.earlier is None or not (given.earlier / "src" / "maxent").is_dir():
        parser.error("give the folder of another checkout of this project")
    compare(given.earlier.resolve(), given.rounds)


if __name__ == "__main__":
    main()
