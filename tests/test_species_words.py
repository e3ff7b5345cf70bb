"""What a run says of itself, on the screen and in the report, follows from its numbers."""

import csv
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import maxent as mx
from conftest import needs
from maxent import cli

rasterio = needs("rasterio")

SHAPE = (30, 40)
TRANSFORM = rasterio.Affine(0.5, 0, -10, 0, -0.5, 50)
BARE = ["--bootstrap", "0", "--permutations", "0", "--no-jackknife", "--cv", "none"]
FAST = ["-f", "l", *BARE]


def write(path, values, transform=TRANSFORM, dtype="float32", **profile):
    height, width = values.shape
    with rasterio.open(
        path, "w", driver="GTiff", height=height, width=width, count=1, dtype=dtype,
        crs="EPSG:4326", transform=transform, **profile,
    ) as file:  # fmt: skip
        file.write(values.astype(dtype), 1)
    return path


@pytest.fixture
def run():
    return lambda *args: CliRunner().invoke(cli.main, [str(a) for a in args])


def _records(path, cells, species="Acer"):
    rows, columns = np.divmod(cells, SHAPE[1])
    lines = [
        f"{species},{-9.75 + 0.5 * c},{49.75 - 0.5 * r}" for r, c in zip(rows, columns, strict=True)
    ]
    path.write_text("\n".join(["species,longitude,latitude", *lines]) + "\n")
    return path


@pytest.fixture
def files(tmp_path):
    """Two layers, wet and warm, that go together; the species lives where warm is above wet."""
    rng = np.random.default_rng(1)
    wet, extra = rng.normal(size=(2, *SHAPE))
    odds = np.exp(1.5 * extra + 0.5 * wet).ravel()
    (tmp_path / "layers").mkdir()
    write(tmp_path / "layers" / "wet.tif", wet)
    write(tmp_path / "layers" / "warm.tif", wet + extra)
    cells = rng.choice(odds.size, 60, replace=False, p=odds / odds.sum())
    _records(tmp_path / "records.csv", np.sort(cells))
    return tmp_path


def _rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _words(html):
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def test_negative_contributions_are_shown(files, run):
    out, options = files / "out", ["-f", "l", *BARE[:2], "--permutations", "2", *BARE[4:]]
    args = ["fit", files / "records.csv", files / "layers", *options, "-m", "0.1", "--no-maps"]
    done = run(*args, "-o", out)
    assert done.exit_code == 0, done.output
    rows = {
        row["variable"]: float(row["contribution"]) for row in _rows(out / "tables/importance.csv")
    }
    assert rows["wet"] < 0 < 100 < rows["warm"]
    assert sum(rows.values()) == pytest.approx(100, abs=1e-6)  # of rounded numbers
    # by hand: the integral of each feature's slope along the way from no weights to all
    model = mx.species.load_model(out / "model.json").density
    with mx.species.Layers.open(files / "layers") as layers:
        X = next(layers.blocks()).frame()
    weights = model.coef
    columns = {name: X[name].to_numpy(float) for name in weights}
    scaled = {n: (c - c.min()) / np.ptp(c) for n, c in columns.items()}
    theta = sum(weights[n] * scaled[n] for n in weights)
    grid = mx.species.Grid("EPSG:4326", tuple(TRANSFORM)[:6], SHAPE[1], SHAPE[0])
    records = _rows(files / "records.csv")
    cells = grid.cells_at(
        *(np.array([float(r[c]) for r in records]) for c in ("longitude", "latitude"))
    )
    share = {}
    points, quadrature = np.polynomial.legendre.leggauss(20)
    for name in weights:
        slope = 0.0
        for t, a in zip((points + 1) / 2, quadrature / 2, strict=True):
            p = np.exp(t * theta)
            slope += a * (scaled[name][cells].mean() - p @ scaled[name] / p.sum())
        share[name] = weights[name] * slope
    for name in weights:
        assert rows[name] == pytest.approx(100 * share[name] / sum(share.values()), abs=1e-3)
    said = _words((out / "report.html").read_text(encoding="utf-8"))
    assert "A negative one belongs to a variable whose weights only make up for those" in said
    assert f"{rows['wet']:.1f}" in said
    (jar,) = _rows(out / "tables/maxentResults.csv")
    assert float(jar["wet contribution"]) == pytest.approx(rows["wet"], abs=1e-4)


# -- Ctrl-C ----------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Windows differ")
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("moment", [".out.lock", "out/.*.partial"])
def test_ctrl_c_leaves_nothing(files, jobs, moment):
    """As a terminal does it: the signal reaches the command and its workers, and comes twice."""
    records = files / "records.csv"
    names = {"Acer": records.read_text()}
    names |= {name: names["Acer"].replace("Acer", name) for name in ("Betula", "Carpinus")}
    rows = [line for text in names.values() for line in text.splitlines()[1:]]
    records.write_text("\n".join(["species,longitude,latitude", *rows]) + "\n")
    before = sorted(files.rglob("*"))
    command = [sys.executable, "-m", "maxent", "fit", records, files / "layers", "-j", jobs]
    command += ["--bootstrap", "3000", "-o", files / "new" / "out"]
    place = files / "new"
    process = subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 100
    while not list(place.glob(moment)):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.4)
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "interrupted" in errors
    assert "Traceback" not in errors
    assert sorted(files.rglob("*")) == before
