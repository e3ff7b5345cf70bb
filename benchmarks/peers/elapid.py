"""elapid, its scikit-learn path (what pip gives): another objective, so judged on test data only.

It runs in its own interpreter, named by MAXENT_ELAPID_PYTHON, else in this one if it is there.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import numpy as np

NAME = "elapid"
VARIABLE = "MAXENT_ELAPID_PYTHON"
ABSENT = f"elapid not found: pip install elapid, or set {VARIABLE} to an interpreter that has it"
FEATURES = ("linear", "quadratic", "product", "hinge")
ROOT = Path(__file__).parent.parent.parent


def interpreter() -> str | None:
    given = os.environ.get(VARIABLE)
    if given:
        return given
    return sys.executable if importlib.util.find_spec("elapid") else None


@cache
def _version(python: str | None) -> str:
    if python is None:
        return ""
    code = "from importlib.metadata import version as v; import elapid; print(v('elapid'))"
    try:
        out = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return out.stdout.strip() if out.returncode == 0 else ""


def available() -> bool:
    return bool(_version(interpreter()))


def reason() -> str:
    """Why it is not available; empty if it is."""
    return "" if available() else ABSENT


def describe() -> str:
    return f"{NAME} {_version(interpreter())}" if available() else ABSENT


def fit(
    presence: np.ndarray, background: np.ndarray, at: np.ndarray, n_hinge_features: int = 10
) -> dict:
    """One fit in a fresh process.

    Returns
    -------
    dict
        raw (its raw output at the rows of `at`), nonzero, seconds and cpu_seconds of the fit alone.
    """
    if not available():
        raise RuntimeError(ABSENT)
    X = np.vstack([background, presence])
    y = np.repeat([0, 1], [len(background), len(presence)])
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "in.npz", X=X, y=y, at=at)
        command = [interpreter(), "-m", "benchmarks.peers.elapid", folder, str(n_hinge_features)]
        out = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
        if out.returncode != 0:
            raise RuntimeError(f"elapid failed: {out.stderr.strip()}")
        return json.loads(out.stdout.splitlines()[-1]) | {"raw": np.load(Path(folder) / "raw.npy")}


def _work(folder: Path, n_hinge_features: int) -> None:
    """The other process: fit, predict, print the times."""
    import elapid

    table = np.load(folder / "in.npz")
    model = elapid.MaxentModel(
        feature_types=list(FEATURES),
        n_hinge_features=n_hinge_features,
        transform="raw",
        use_sklearn=True,
        random_state=0,
    )
    wall, cpu = time.perf_counter(), time.process_time()
    model.fit(table["X"], table["y"])
    spent = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    np.save(folder / "raw.npy", np.asarray(model.predict(table["at"]), dtype=float))
    print(json.dumps(spent | {"nonzero": int(np.count_nonzero(model.beta_scores_))}))


if __name__ == "__main__":
    _work(Path(sys.argv[1]), int(sys.argv[2]))
