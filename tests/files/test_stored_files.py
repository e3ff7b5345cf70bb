"""Files that version 1 of the format wrote load the same today, and are written the same."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import maxent as mx

DATA = Path(__file__).parents[1] / "data" / "version1"
TABLE = np.arange(6.0).reshape(3, 2)
SPARSE = sparse.csc_array(np.array([[0.0, 1.5], [2.0, 0.0], [0.0, 0.0]]))
LABELS = np.eye(3)[[0, 2, 1]]
MASSES = [0.5, 0.25, 0.25]

STORED = {
    "domains": [
        *(mx.Simplex(), mx.Cube(), mx.NonNegative(), mx.Euclidean(), mx.KSubset(2), mx.Chain(3)),
        *(mx.Product(mx.Simplex(), 2), mx.ScaledDomain(mx.KSubset(2), 0.5)),
    ],
    "entropies": [
        *(mx.Shannon(), mx.Shannon(domain=mx.Chain(2)), mx.Tsallis(1.5), mx.Renyi(0.5)),
        *(mx.NormEntropy(float("inf")), mx.SquaredNorm(1.5), mx.SquaredNorm(domain=mx.Cube())),
        *(mx.PairwiseHinge("squared", 4), mx.Zero(), mx.FermiDirac(), mx.BinaryGini()),
        *(mx.OneVsAll(mx.Tsallis(2.0)), mx.Shifted(mx.Zero(), [1.0, 0.0])),
        *(mx.Relative(mx.Tsallis(1.5), [0.1, 0.2, 0.4]), mx.Scaled(mx.Shannon(), 0.1)),
    ],
    "potentials": [
        *(mx.Equality(), mx.Box([0.1, 0.2]), mx.Ball(0.6), mx.NormBall(0.6, 3), mx.Quadratic(0.7)),
        *(mx.QuadraticForm([[2.0, 0.5], [0.5, 1.0]]), mx.ElasticNet(0.3, [0.1, 1.0])),
        *(mx.SquaredNormPotential(0.6, 1.5), mx.NormPlusSquare(0.3, 0.6, 1), mx.DualBall(0.6)),
        *(mx.SmoothBox(0.4, 0.2), mx.LaplacePrior([0.1, 50.0])),
        mx.Families([mx.Box(0.2), mx.Quadratic(2.0)], [2, 1]),
        mx.ScaledPotential(mx.Box(0.3), 2.5),
        mx.ShiftedPotential(mx.Box(0.3), [0.1, -0.1]),
    ],
    "problems": [
        mx.Problem(mx.Relative(mx.Shannon(), MASSES), TABLE, mx.Box(0.1), observed=[0, 0.5, 0.5]),
        mx.Problem(mx.Tsallis(1.5), mx.SampleMap(TABLE, 3), mx.Quadratic(0.1), observed=LABELS),
        mx.Problem(mx.Shannon(), mx.MatrixMap(SPARSE), mx.Equality(), target=[0.5, 0.25]),
        mx.Problem(mx.Shannon(), mx.IdentityMap(3), mx.Box(0.01), observed=MASSES),
        mx.KernelMap(np.diag([4.0, 1.0]), 2),
        mx.ChainMap([TABLE[:1], TABLE[1:]], 2, tied=False),
        mx.Solution(
            *(np.array([0.5, -0.0]), np.array(MASSES), np.inf, 1e-9, 0.25, 7, mx.Status.CONVERGED),
            *([{"seconds": 0.5, "gap": np.inf}], {"fenchel_young": np.inf}),
        ),
        mx.FenchelYoungLoss(mx.Tsallis(1.5)),
        mx.Ragged.from_rows([[1.0], [2.0, np.nan]]),
        *(
            mx.FISTA(tol=1e-9),
            mx.LBFGS(memory=7),
            mx.ProxNewton(working_set=3),
            mx.NewtonCG(max_iter=500),
        ),
        *(
            mx.CuttingPlane(max_iter=50),
            mx.SUMMET(sweep=3),
            mx.PLUMMET(),
            mx.DualCoordinateAscent(),
        ),
        *(mx.BallSearch(inner=mx.LBFGS()), mx.CoordinateDescent(), mx.BlockFrankWolfe()),
    ],
}


def _is_in(old, new):
    """Whether a value of an old file is the same in a new one, which has more fields."""
    if isinstance(old, dict):
        return isinstance(new, dict) and all(k in new and _is_in(old[k], new[k]) for k in old)
    if isinstance(old, list):
        both = isinstance(new, list) and len(old) == len(new)
        return both and all(map(_is_in, old, new))
    return type(old) is type(new) and old == new


@pytest.mark.parametrize("name", STORED)
def test_stored_files_load_and_are_written_the_same(name, tmp_path):
    stored = json.loads((DATA / f"{name}.json").read_bytes())
    written = []
    for made in (STORED[name], mx.load(DATA / f"{name}.json")):
        mx.save(made, tmp_path / "again.json")
        written.append((tmp_path / "again.json").read_bytes())
        assert _is_in(stored["model"], json.loads(written[-1])["model"])
    assert written[0] == written[1]  # fields that version 1 did not write have their defaults


@pytest.mark.parametrize("name", STORED)
def test_stored_files_load_where_nothing_is_imported_yet(name):
    code = "import sys, maxent; print(len(maxent.load(sys.argv[1])))"
    command = [sys.executable, "-c", code, DATA / f"{name}.json"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(result.stdout) == len(STORED[name])
