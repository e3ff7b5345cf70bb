"""R maxnet: our own restatement of its formula (maxnet.R) over the glmnet it calls.

The fit is infinitely weighted logistic regression on the materialised features: weights 1 and
100, a path of 200 penalties of which the last is the answer. Only that is timed, in R.
"""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

NAME = "maxnet (R, glmnet)"
SCRIPT = Path(__file__).with_name("maxnet.R")
ABSENT = "Rscript with glmnet not found: apt install r-cran-glmnet"
VERSIONS = 'cat(as.character(getRversion()), as.character(packageVersion("glmnet")))'


@cache
def _versions() -> tuple[str, ...]:
    if shutil.which("Rscript") is None:
        return ()
    out = subprocess.run(["Rscript", "-e", VERSIONS], capture_output=True, text=True, check=False)
    return tuple(out.stdout.split()) if out.returncode == 0 else ()


def available() -> bool:
    return len(_versions()) == 2


def reason() -> str:
    """Why it is not available; empty if it is."""
    return "" if available() else ABSENT


def describe() -> str:
    return "R {}, glmnet {}".format(*_versions()) if available() else ABSENT


def fit(
    presence: np.ndarray,
    background: np.ndarray,
    names: Sequence[str],
    classes: str = "lqph",
    categorical: Sequence[str] = (),
) -> dict:
    """One fit; the presences are added to the background here, as maxnet() does by default.

    Parameters
    ----------
    presence, background
        One row a point, one column a variable.
    names
        Of the columns.
    classes
        Some of l, q, p, h, t.
    categorical
        Names of the columns whose values are levels.

    Returns
    -------
    dict
        names, penalties, coefficients (one entry a feature), seconds and cpu_seconds of the fit,
        and complete: whether glmnet walked its whole path.
    """
    if not available():
        raise RuntimeError(ABSENT)
    added = added_presences(presence, background)
    rows = np.vstack([presence, background, added]).astype("<f8")
    flag = np.zeros((len(rows), 1))
    flag[: len(presence)] = 1
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        (here / "columns.txt").write_text(
            "".join(
                f"{name}\t{'categorical' if name in categorical else 'numeric'}\n" for name in names
            )
        )
        np.hstack([flag, rows]).T.tofile(here / "table.bin")  # column by column
        command = ["Rscript", "--vanilla", str(SCRIPT), folder, classes]
        out = subprocess.run(command, capture_output=True, text=True, check=False)
        if out.returncode != 0:
            raise RuntimeError(f"maxnet.R failed: {out.stderr.strip()}")
        with (here / "answer.csv").open() as file:
            answer = list(csv.DictReader(file))
        timing = json.loads((here / "timing.json").read_text())
    return {
        "names": [line["feature"] for line in answer],
        "penalties": np.array([float(line["penalty"]) for line in answer]),
        "coefficients": np.array([float(line["coefficient"]) for line in answer]),
        "seconds": timing["seconds"],
        "cpu_seconds": timing["cpu_seconds"],
        "complete": timing["complete"],
    }


def added_presences(presence: np.ndarray, background: np.ndarray) -> np.ndarray:
    """The distinct presences whose values no background point has, in their order."""
    known = set(keys(background))
    first = {key: i for i, key in reversed(list(enumerate(keys(presence)))) if key not in known}
    return presence[sorted(first.values())]


def keys(rows: np.ndarray) -> list[bytes]:
    """One hashable value a row."""
    return [row.tobytes() for row in np.ascontiguousarray(rows, dtype=float) + 0.0]  # no -0.0
