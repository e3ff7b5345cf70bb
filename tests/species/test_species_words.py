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

import maxent as mx
from tools import needs
from waiting import LIMIT, until

rasterio = needs("rasterio")

pytestmark = pytest.mark.usefixtures("sketches")

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
@pytest.mark.parametrize(
    ("moment", "jobs"), [(".out.lock", 1), (".out.lock", 2), ("out/.*.partial", 2)]
)
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
    until(lambda: list(place.glob(moment)), process)
    time.sleep(0.4)
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == 130, errors
    assert "interrupted" in errors
    assert "Traceback" not in errors
    assert sorted(files.rglob("*")) == before


# -- maps ------------------------------------------------------------------------------------------


def _printed(done):
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def test_project_says_only_what_it_knows(files, run):
    """Another place, twice as far out: with the model of a fit, and with a .lambdas file."""
    (files / "far").mkdir()
    for name in ("wet", "warm"):
        with rasterio.open(files / "layers" / f"{name}.tif") as file:
            write(files / "far" / f"{name}.tif", 2 * file.read(1))
    args = ["fit", files / "records.csv", files / "layers", *FAST, "--lambdas", "-o", files / "out"]
    assert run(*args, "--no-maps").exit_code == 0
    model, lambdas, far = files / "out/model.json", files / "out/Acer.lambdas", files / "far"
    with mx.species.Layers.open(files / "layers") as near, mx.species.Layers.open(far) as other:
        old, new = (next(layers.blocks()).frame() for layers in (near, other))
    beyond = int(((new < old.min()) | (new > old.max())).any(axis=1).sum())
    assert beyond > 0
    tail = "0 with an unseen category"
    said = _printed(run("project", model, far, "-o", files / "a"))
    assert f"1200 cells, {beyond} unlike any of the fit, {beyond} clamped, {tail}" in said
    said = _printed(run("project", model, far, "-o", files / "b", "--no-clamp"))
    assert f"{beyond} unlike any of the fit, {beyond} beyond the ranges of the fit (not" in said
    said = _printed(run("project", lambdas, far, "-o", files / "c"))
    assert f"1200 cells, {beyond} clamped, {tail}" in said
    assert "similarity (MESS) is not known" in said
    assert "unlike" not in said
    said = _printed(run("project", model, far, "-o", files / "d", "--no-similarity"))
    assert "unlike" not in said
    assert "not known" not in said
    args = [*args[:-1], files / "both", "--project", far, "--no-clamp"]
    assert run(*args).exit_code == 0
    report = _words((files / "both/report.html").read_text(encoding="utf-8"))
    share = f"{beyond:,} ({100 * beyond / 1200:.1f}"
    assert share in report
    assert "beyond its range at the fit that was not held at it" in report
    assert "was held (clamped)" not in report


# -- scores ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (["--cv", "blocks"], "AUC, block CV"),
        (["--cv", "random"], "AUC, random CV"),
        (["--cv", "blocks", "--test-share", "0.3"], "AUC, test records"),
    ],
)
def test_scores_are_called_what_they_are(files, run, options, name):
    out = files / "out"
    done = run("fit", files / "records.csv", files / "layers", *FAST[:-2], *options, "-o", out)
    assert name in _printed(done)
    assert "held out" not in done.output
    report = _words((out / "report.html").read_text(encoding="utf-8"))
    gain = mx.load(out / "result.json").evaluation.scores["unregularized_gain"]
    shown = f"{gain:.3f}"
    tile = (
        f"Gain, unregularized {shown} records are exp({shown}) = {np.exp(gain):.1f} times likelier"
    )
    assert tile in report
    assert "compares records with the whole background" in report
    assert " bias " not in report.split("Settings", 1)[1].split("Seconds by stage")[0]


def test_species_with_and_without_test_records(files, run):
    rows = (files / "records.csv").read_text()
    both = rows + "".join(line.replace("Acer", "Zea") + "\n" for line in rows.splitlines()[1:])
    (files / "both.csv").write_text(both)
    args = ["fit", files / "both.csv", files / "layers", *FAST[:-2], "--cv", "blocks", "--no-maps"]
    done = run(*args, "--test", files / "records.csv", "-o", files / "out")
    said = _printed(done)
    assert "(test records)" in said
    assert "(block CV)" in said
    index = _words((files / "out/index.html").read_text(encoding="utf-8"))
    assert "(test records)" in index
    assert "(block CV)" in index


# -- sampling effort -------------------------------------------------------------------------------


def _effort(files, shape, scale):
    """Nobody went to the western half."""
    effort = np.ones(shape)
    effort[:, : shape[1] // 2] = 0
    effort[:, -1] = 3
    return write(files / "effort.tif", effort, TRANSFORM @ rasterio.Affine.scale(scale))


def test_no_effort_is_none_on_another_grid_too(files, run):
    bias = _effort(files, (SHAPE[0] // 2, SHAPE[1] // 2), 2)
    out = files / "out"
    args = ["fit", files / "records.csv", files / "layers", *FAST, "--bias", bias, "-o", out]
    done = run(*args, "--bias-as", "prior", "--background", "all")
    said = _printed(done)
    assert "effort.tif resampled (nearest) to 40 x 30 cells" in said
    assert "600 cells without sampling effort are left out, and the records on them" in said
    result = mx.load(out / "result.json")
    assert result.n_background == 600
    assert result.settings["bias"] == f"{bias}, as prior"
    east = result.records["x"] > 0
    assert east.all()
    # the same by hand: the cells of the eastern half, with their effort
    with mx.species.Layers.open(files / "layers") as layers:
        X, grid = next(layers.blocks()).frame(), layers.grid
    counts = np.bincount(grid.cells_at(result.records["x"], result.records["y"]), minlength=1200)
    effort = np.tile(np.repeat([0.0, 1.0, 3.0], [20, 18, 2]), 30)
    kept = effort > 0
    model = mx.MaxentDensity("l").fit(
        X[kept].reset_index(drop=True), counts[kept], prior=effort[kept]
    )
    assert result.model.certificate.gain == pytest.approx(model.gain_, abs=1e-7)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--bias-as", "prior"], "(--bias-as) says what a bias raster is for; give one (--bias)"),
        (["--bias", "effort.tif", "--target-group"], "two ways to choose the background"),
    ],
)
def test_options_of_bias_without_effect(files, run, options, words, monkeypatch):
    _effort(files, SHAPE, 1)
    monkeypatch.chdir(files)
    done = run("fit", "records.csv", "layers", *FAST, *options, "-o", "out")
    assert done.exit_code == 1
    assert words in done.output
    assert not (files / "out").exists()


# -- before the fit --------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["1.5", "-0.1", "nan", "best", ""])
def test_a_threshold_is_refused_before_the_fit(files, run, given, monkeypatch):
    monkeypatch.setattr(
        "maxent.species.batch.workflow.fit_files", lambda *a, **k: pytest.fail("fitted")
    )
    done = run("fit", files / "records.csv", files / "layers", f"--threshold={given}")
    assert done.exit_code == 2
    assert "--threshold must be a number from 0 to 1" in " ".join(done.output.split())


def test_a_rule_of_test_records_needs_some(files, run, monkeypatch):
    monkeypatch.setattr(
        "maxent.species.batch.job.fit_species", lambda *a, **k: pytest.fail("fitted")
    )
    args = ["fit", files / "records.csv", files / "layers", "--threshold", "Equal test"]
    done = run(*args, "-o", files / "out")
    assert done.exit_code == 1
    assert "is a rule of test records, and there are none" in done.output


def test_a_missing_file_is_told_of_at_once(files):
    """In less than a second, as nothing that could read it is loaded."""
    code = """
import sys
from maxent.cli.command import main
try:
    main()
finally:
    heavy = {"numpy", "scipy", "pandas", "rasterio", "sklearn", "numba", "matplotlib", "geopandas"}
    print("loaded:", *sorted(heavy & set(sys.modules)))
"""
    for missing in (["no.csv", "layers"], ["records.csv", "no"]):
        args = [sys.executable, "-c", code, "fit", *missing, "-o", "out"]
        done = subprocess.run(args, cwd=files, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        name = next(word for word in missing if word.startswith("no"))
        assert done.stderr.startswith(f"error: {name}: no such file; ")
        assert done.stdout == "loaded:\n"


# -- warnings --------------------------------------------------------------------------------------

WARNING = """
import sys, warnings
from maxent import _command
import maxent.species.batch.job as job

def loud(*args, **kwargs):
    warnings.warn("careful now")
    raise ValueError("no more")

job.rewrite_report = loud
sys.argv = ["maxent", "report", "x"]
_command.run()
"""


def test_warnings_have_no_source_lines():
    done = subprocess.run(
        [sys.executable, "-c", WARNING], capture_output=True, text=True, check=False
    )
    assert done.stderr == "note: careful now\nerror: no more\n"


def test_warnings_of_workers_are_notes(files, run):
    """A category that is new in the future, in two processes."""
    rng = np.random.default_rng(0)
    (files / "future").mkdir()
    for place, levels in (("layers", 3), ("future", 4)):
        write(files / place / "soil.tif", rng.integers(1, levels + 1, SHAPE), dtype="uint8")
    for name in ("wet", "warm"):
        (files / "future" / f"{name}.tif").write_bytes(
            (files / "layers" / f"{name}.tif").read_bytes()
        )
    rows = (files / "records.csv").read_text()
    both = rows + "".join(line.replace("Acer", "Zea") + "\n" for line in rows.splitlines()[1:])
    (files / "both.csv").write_text(both)
    command = [sys.executable, "-m", "maxent", "fit", "both.csv", "layers", *FAST, "-c", "soil"]
    command += ["--no-maps", "--project", "future", "-j", "2", "-o", "out"]
    done = subprocess.run(command, cwd=files, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "have a category that was not there at the fit and gets no effect: soil 4" in done.stderr
    assert ".py:" not in done.stderr
    assert "Warning" not in done.stderr


def test_info_names_folders_that_are_there(tmp_path):
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    args = [sys.executable, "-m", "maxent", "info"]
    done = subprocess.run(args, env=env, capture_output=True, text=True, check=True)
    line = next(line for line in done.stdout.splitlines() if line.startswith("kernel cache"))
    for path in re.findall(r"(/[^ ,()]+)", line):
        assert os.path.exists(path), line


def test_the_command_knows_the_names_of_potentials_and_features():
    from maxent.core.potentials.names import BY_NAME
    from maxent.features.letters import LETTERS
    from maxent.species.fitting import settings

    assert set(settings._POTENTIALS) == set(BY_NAME)
    assert set(settings._LETTERS) == set(LETTERS)
