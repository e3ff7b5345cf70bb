"""R's glmnet: ridge regression of counts (Poisson) and of finds (cloglog), areas as offsets.

Only the fit is timed, in R, along a path of five penalties of which the last is the answer.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.peers import maxnet

NAME = "glmnet"
SCRIPT = Path(__file__).with_name("glmnet.R")
FAMILIES = {"counts": "poisson", "survey": "cloglog"}
TOLERANCES = (1e-5, 1e-7, 1e-9, 1e-11, 1e-13)
available, reason, describe = maxnet.available, maxnet.reason, maxnet.describe


def fit(
    X: np.ndarray, y: np.ndarray, area: np.ndarray, kind: str, strength: float, tol: float
) -> tuple[np.ndarray, float]:
    """Minimise the mean loss + strength/2 ||w||^2: w, then the intercept; CPU seconds."""
    observed = y if kind == "counts" else np.minimum(y, 1.0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, values in {"X": X.T, "y": observed, "area": area}.items():  # column by column
            np.ascontiguousarray(values, dtype="<f8").tofile(folder / f"{file}.bin")
        settings = name, FAMILIES[kind], str(strength), str(tol)
        command = ["Rscript", "--vanilla", str(SCRIPT), *settings]
        out = subprocess.run(command, capture_output=True, text=True, check=False)
        if out.returncode != 0:
            raise RuntimeError(f"glmnet.R failed: {out.stderr.strip()}")
        told = json.loads((folder / "timing.json").read_text())
        w = np.fromfile(folder / "w.bin", dtype="<f8")
    if not told["complete"]:
        w = np.full(w.size, np.inf)
    return w, told["cpu_seconds"]
