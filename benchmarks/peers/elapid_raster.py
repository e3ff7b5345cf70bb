"""elapid's apply_model_to_rasters, in its own interpreter (see benchmarks.peers.elapid)."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.peers.elapid import ABSENT, ROOT, available, interpreter


def project(
    rasters: list[Path], presence: np.ndarray, background: np.ndarray, n_hinge_features: int
) -> dict:
    """Fit elapid to the table and draw the cloglog map of the rasters, in a fresh process.

    Returns
    -------
    dict
        seconds and cpu_seconds of the map alone, features and nonzero ones of the model.
    """
    if not available():
        raise RuntimeError(ABSENT)
    X = np.vstack([background, presence])
    y = np.repeat([0, 1], [len(background), len(presence)])
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "in.npz", X=X, y=y)
        command = [interpreter(), "-m", "benchmarks.peers.elapid_raster", folder]
        command += [str(n_hinge_features), *map(str, rasters)]
        out = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
        if out.returncode != 0:
            raise RuntimeError(f"elapid failed: {out.stderr.strip()}")
        return json.loads(out.stdout.splitlines()[-1])


def _work(folder: Path, n_hinge_features: int, rasters: list[str]) -> None:
    """The other process: fit, draw, print the time."""
    import elapid

    table = np.load(folder / "in.npz")
    model = elapid.MaxentModel(
        feature_types=["hinge"],
        n_hinge_features=n_hinge_features,
        transform="cloglog",
        use_sklearn=True,
        random_state=0,
    )
    model.fit(table["X"], table["y"])
    wall, cpu = time.perf_counter(), time.process_time()
    elapid.apply_model_to_rasters(model, rasters, str(folder / "map.tif"), quiet=True)
    spent = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    weights = np.asarray(model.beta_scores_)
    nonzero = int(np.count_nonzero(weights))
    print(json.dumps(spent | {"features": weights.size, "nonzero": nonzero}))


if __name__ == "__main__":
    _work(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
