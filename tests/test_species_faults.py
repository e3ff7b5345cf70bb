"""Files and processes when things go wrong: kills, lost files, odd folders, changed inputs."""

import os
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from conftest import needs
from maxent import cli, species
from maxent.datasets.landscape import virtual_landscape, write_landscape
from maxent.species import fingerprints

rasterio = needs("rasterio")

FAST = ["-f", "l", "--bootstrap", "0", "--permutations", "0", "--no-jackknife", "--cv", "none"]
FAST += ["-c", "biome", "--background", "300"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("landscape")
    landscape = virtual_landscape(height=30, width=40, n_occurrences=60, n_group=200, seed=3)
    write_landscape(landscape, folder)
    return folder


@pytest.fixture
def data(made, tmp_path):
    """Input files of one's own, to be changed."""
    folder = tmp_path / "data"
    shutil.copytree(made, folder)
    return folder


@pytest.fixture
def run():
    return lambda *args: CliRunner().invoke(cli.main, [str(a) for a in args])


def _fit(data, out, *more):
    return ["fit", data / "occurrences.csv", data / "layers", *FAST, "-o", out, *more]


def _two_species(data):
    records = species.read_occurrences(data / "occurrences.csv")
    names = np.where(np.arange(len(records)) % 2, "Arbor fictus", "Herba ficta")
    rows = [f"{n},{x},{y}" for n, x, y in zip(names, records.x, records.y, strict=True)]
    text = "\n".join(["species,longitude,latitude", *rows])
    (data / "occurrences.csv").write_text(text + "\n")


def _names(folder):
    return sorted(p.name for p in folder.iterdir())


# -- what --resume keeps ---------------------------------------------------------------------------


def _scaled(path):
    """The same raster with other values, of the same size."""
    with rasterio.open(path) as file:
        values, profile = file.read(), file.profile
    with rasterio.open(path, "w", **profile) as file:
        file.write(values * np.float32(0.5))


@pytest.fixture(scope="module")
def finished(made, tmp_path_factory):
    out = tmp_path_factory.mktemp("finished") / "out"
    args = _fit(made, out, "--bias", made / "effort.tif", "--project", made / "future")
    result = CliRunner().invoke(cli.main, [str(a) for a in args])
    assert result.exit_code == 0, result.output
    return out


@pytest.mark.parametrize(
    "change",
    ["bias", "no bias", "group", "target group", "layer", "projection", "lambdas", "version"],
)
def test_resume_keeps_nothing_that_was_given_something_else(
    change, finished, made, tmp_path, run, monkeypatch
):
    out, data = tmp_path / "out", made
    shutil.copytree(finished, out)
    before = (out / "report.html").read_bytes()
    bias, more = ["--bias", data / "effort.tif"], []
    changed = {
        "bias": data / "effort.tif",
        "layer": data / "layers" / "temperature.tif",
        "projection": data / "future" / "temperature.tif",
    }
    kept = {path: path.read_bytes() for path in changed.values()}
    if change in changed:
        _scaled(changed[change])
    elif change == "version":
        monkeypatch.setattr(species.job, "__version__", "0.0.0")
    elif change == "lambdas":
        more = ["--lambdas"]
    else:
        bias = {
            "no bias": [],
            "group": ["--background-records", data / "target_group.csv"],
            "target group": ["--target-group"],
        }[change]
    try:
        args = _fit(data, out, *bias, "--project", data / "future", *more)
        result = run(*args, "--resume")
    finally:
        for path, content in kept.items():
            path.write_bytes(content)
    assert result.exit_code == 1, result.output
    assert "other settings, files or records" in result.output
    assert (out / "report.html").read_bytes() == before


@pytest.mark.parametrize("lost", ["model.json", "maps", "tables/maxentResults.csv"])
def test_resume_makes_lost_files_again(lost, finished, made, tmp_path, run):
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    args = _fit(made, out, "--bias", made / "effort.tif", "--project", made / "future", "--resume")
    whole = run(*args)
    assert whole.exit_code == 0, whole.output
    assert "(kept)" in whole.output
    shutil.rmtree(out / lost) if lost == "maps" else (out / lost).unlink()
    again = run(*args)
    assert again.exit_code == 0, again.output
    assert "(kept)" not in again.output
    assert (out / lost).exists()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"fingerprint": 1}'])
def test_resume_with_a_damaged_summary(text, finished, made, tmp_path, run):
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    (out / "summary.json").write_text(text)
    result = run(*_fit(made, out, "--resume"))
    assert result.exit_code == 1
    assert "--overwrite" in result.output


def test_fingerprints_of_files(tmp_path, monkeypatch):
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(5000))
    small = fingerprints.of_file(path)
    path.write_bytes(bytes(2500) + b"1" + bytes(2499))
    assert fingerprints.of_file(path) != small
    monkeypatch.setattr(fingerprints, "_WHOLE", 4000)
    monkeypatch.setattr(fingerprints, "_END", 100)
    large = fingerprints.of_file(path)
    assert fingerprints.of_file(path) == large
    about = path.stat()
    path.write_bytes(bytes(4999) + b"1")
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert fingerprints.of_file(path) != large  # its end
    path.write_bytes(bytes(2500) + b"2" + bytes(2499))
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns + 1))
    assert fingerprints.of_file(path) != large  # its time


def test_fingerprint_of_a_mosaic_sees_its_parts(made, tmp_path):
    shutil.copy(made / "effort.tif", tmp_path / "part.tif")
    with rasterio.open(tmp_path / "part.tif") as file, rasterio.vrt.WarpedVRT(file) as vrt:
        rasterio.shutil.copy(vrt, tmp_path / "outer.vrt", driver="VRT")
    before = fingerprints.of_rasters([tmp_path / "outer.vrt"])
    assert fingerprints.of_rasters([tmp_path / "outer.vrt"]) == before
    _scaled(tmp_path / "part.tif")
    assert fingerprints.of_rasters([tmp_path / "outer.vrt"]) != before


# -- what is not written over ----------------------------------------------------------------------


def _contents(folder):
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_no_command_writes_over_a_file_it_reads(finished, data, tmp_path, run):
    model = tmp_path / "model.json"
    shutil.copy(finished / "model.json", model)
    records, layers = data / "occurrences.csv", data / "layers"
    shutil.copy(layers / "temperature.tif", layers / "cloglog.tif")
    (tmp_path / "link.csv").symlink_to(records)
    os.link(records, tmp_path / "hard.csv")
    earlier = tmp_path / "earlier"
    shutil.copytree(finished, earlier)
    shutil.copytree(layers, earlier / "layers")
    before = _contents(tmp_path)
    layer = layers / "temperature.tif"
    for args in (
        ["project", model, *layers.glob("*.tif"), "-o", layers],
        ["project", model, layers, "-o", layer],
        ["evaluate", model, records, layers, "-o", records],
        ["evaluate", model, records, layers, "-o", model],
        ["evaluate", model, records, layers, "-o", layer],
        ["evaluate", model, records, layers, "-o", tmp_path / "link.csv"],
        ["evaluate", model, records, layers, "-o", tmp_path / "hard.csv"],
        ["evaluate", model, records, layers, "--absences", model, "-o", model],
        ["fit", records, earlier / "layers", *FAST, "-o", earlier],
        ["tune", records, earlier / "layers", "-c", "biome", "-o", earlier],
    ):
        result = run(*args, "--overwrite")
        assert result.exit_code == 1, (args, result.output)
        assert "would be written over" in result.output
        assert _contents(tmp_path) == before


def test_earlier_maps_and_scores_are_replaced_only_where_that_was_asked_for(
    finished, data, tmp_path, run
):
    model, maps = finished / "model.json", tmp_path / "maps"
    draw = ["project", model, data / "future", "--no-similarity", "-o"]
    score = ["evaluate", model, data / "occurrences.csv", data / "layers", "-o"]
    for args, out in ((draw, maps), (score, tmp_path / "scores.csv")):
        assert run(*args, out).exit_code == 0
        before = _contents(tmp_path)
        again = run(*args, out)
        assert again.exit_code == 1, again.output
        assert "--overwrite" in again.output
        assert _contents(tmp_path) == before
        assert run(*args, out, "--overwrite").exit_code == 0
    # a single map that is in the way of one of the others
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mess.tif").write_text("of before")
    assert run("project", model, data / "future", "-o", tmp_path / "other").exit_code == 1
    assert _names(tmp_path / "other") == ["mess.tif"]
