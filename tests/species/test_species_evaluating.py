"""`maxent evaluate`: files of absences, options without effect, and the picture of calibration."""

import builtins
import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from maxent import cli
from maxent.datasets.landscape import virtual_landscape, write_landscape
from tools import needs

needs("rasterio")
Image = needs("PIL.Image")

FAST = ["-f", "l", "--bootstrap", "0", "--permutations", "0", "--no-jackknife", "--cv", "none"]


def _run(*args):
    done = CliRunner().invoke(cli.main, [str(a) for a in args])
    done.words = " ".join(done.output.split())
    return done


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluating")
    write_landscape(virtual_landscape(height=30, width=40, n_occurrences=60, seed=3), folder)
    args = ["fit", folder / "occurrences.csv", folder / "layers", "-c", "biome", *FAST]
    done = _run(*args, "-o", folder / "out")
    assert done.exit_code == 0, done.output
    table = pd.read_csv(folder / "occurrences.csv")
    _, x, y = table.columns[:3]
    rng = np.random.default_rng(0)
    here = table.iloc[:20].assign(pr_ab=1)
    elsewhere = here.assign(pr_ab=0)
    elsewhere[x] = rng.uniform(table[x].min(), table[x].max(), 20)
    elsewhere[y] = rng.uniform(table[y].min(), table[y].max(), 20)
    pd.concat([here, elsewhere]).to_csv(folder / "both.csv", index=False)
    here.drop(columns="pr_ab").to_csv(folder / "present.csv", index=False)
    elsewhere.to_csv(folder / "zeros.csv", index=False)
    elsewhere.drop(columns="pr_ab").to_csv(folder / "plain.csv", index=False)
    elsewhere.assign(pr_ab=1).to_csv(folder / "ones.csv", index=False)
    return folder


def _scores(data, out, records, *options):
    done = _run("evaluate", data / "out", data / records, data / "layers", "-o", out, *options)
    assert done.exit_code == 0, done.output
    return pd.read_csv(out).iloc[0], done.words


def test_absences_that_say_so_are_absences(data, tmp_path):
    marked, _ = _scores(data, tmp_path / "both.csv", "both.csv")
    for name, told in (
        ("zeros.csv", "20 of its records are the absences"),
        ("plain.csv", "20 of its records are the absences"),
        ("both.csv", "20 of 40 records left out, no absences by column 'pr_ab'"),
        ("ones.csv", "column 'pr_ab' marks no absence, so all records are taken as absences"),
    ):
        scores, words = _scores(
            data, tmp_path / f"of_{name}", "present.csv", "--absences", data / name
        )
        assert told in words, name
        assert scores["n_absences"] == marked["n_absences"]
        assert scores["auc"] == pytest.approx(marked["auc"], abs=1e-12)


def test_absences_of_tables_with_data_are_those_marked(data, tmp_path):
    rng = np.random.default_rng(1)
    both = pd.DataFrame(rng.normal(size=(60, 2)), columns=["heat", "rain"])
    both.insert(0, "species", "one")
    present = both.iloc[:30].assign(heat=lambda rows: rows.heat + 1)
    present.to_csv(tmp_path / "samples.csv", index=False)
    both.to_csv(tmp_path / "background.csv", index=False)
    args = [tmp_path / "samples.csv", tmp_path / "background.csv", *FAST]
    assert _run("fit", "--swd", *args, "-o", tmp_path / "out").exit_code == 0
    mixed = pd.concat([present.assign(pa=1), both.iloc[30:].assign(pa=0)])
    mixed.to_csv(tmp_path / "mixed.csv", index=False)
    both.iloc[30:].to_csv(tmp_path / "absent.csv", index=False)
    found = []
    for name in ("mixed.csv", "absent.csv"):
        out = tmp_path / f"of_{name}"
        done = _run(
            "evaluate", tmp_path / "out", tmp_path / "samples.csv", "--swd", "--absences",
            tmp_path / name, "-o", out,
        )  # fmt: skip
        assert done.exit_code == 0, done.output
        found.append(pd.read_csv(out).iloc[0])
    assert found[0]["n_absences"] == found[1]["n_absences"] == 30
    assert found[0]["auc"] == found[1]["auc"]


def test_a_seed_of_nothing_is_wrong_usage(data, tmp_path):
    args = ["evaluate", data / "out", data / "both.csv", data / "layers"]
    done = _run(*args, "--seed", "3", "-o", tmp_path / "scores.csv")
    assert done.exit_code == 2, done.output
    assert "--seed has no effect: presences are compared with absences" in done.words
    assert not (tmp_path / "scores.csv").exists()
    done = _run(*args, "--seed", "3", "--background", "100", "-o", tmp_path / "scores.csv")
    assert done.exit_code == 0, done.output
    assert "n_background" in pd.read_csv(tmp_path / "scores.csv").columns


def test_the_calibration_curve_is_drawn(data, tmp_path):
    out = tmp_path / "scores.csv"
    _scores(data, out, "both.csv")
    with Image.open(tmp_path / "scores_calibration.png") as picture:
        assert picture.size == (960, 700)
        assert len(set(picture.convert("L").tobytes())) > 20  # curves, letters, axes
    again = _run("evaluate", data / "out", data / "both.csv", data / "layers", "-o", out)
    assert again.exit_code == 1
    alone = tmp_path / "other.csv"
    (tmp_path / "other_calibration.png").write_bytes(b"mine")
    done = _run("evaluate", data / "out", data / "both.csv", data / "layers", "-o", alone)
    assert done.exit_code == 1
    assert "other_calibration.png is there already" in done.words.replace("other_ ", "other_")
    assert not alone.exists()


def test_without_matplotlib_a_note_says_so(data, tmp_path, monkeypatch):
    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name == "matplotlib":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    _, words = _scores(data, tmp_path / "scores.csv", "both.csv")
    assert "no picture of the calibration curve: it needs matplotlib" in words
    assert (tmp_path / "scores_calibration.csv").exists()
    assert not (tmp_path / "scores_calibration.png").exists()


def test_scores_and_curves_as_json(data, tmp_path):
    where = [data / "out", data / "both.csv", data / "layers"]
    done = _run("evaluate", *where, "-o", tmp_path / "a.csv", "--json", tmp_path / "a.json")
    assert done.exit_code == 0, done.output
    told = json.loads((tmp_path / "a.json").read_text())
    table = pd.read_csv(tmp_path / "a.csv").iloc[0]
    for name in table.index.drop("species"):
        assert told[name] == pytest.approx(table[name]), name
    roc = told["curves"]["roc"]
    area = np.trapezoid(roc["true_positive_rate"], roc["false_positive_rate"])
    assert area == pytest.approx(told["auc"])
    curve = pd.read_csv(tmp_path / "a_calibration.csv")
    assert told["calibration"]["observed"] == pytest.approx(curve["observed"].tolist())
    assert "curves" not in done.output
    where[1] = data / "present.csv"
    done = _run("evaluate", *where, "--json", tmp_path / "b.json", "--background", "50")
    assert done.exit_code == 0, done.output
    told = json.loads((tmp_path / "b.json").read_text())
    assert told["n_background"] == 50
    assert len(told["curves"]["boyce"]["ratio"]) == len(told["curves"]["boyce"]["prediction"]) > 0
    again = _run("evaluate", *where, "--json", tmp_path / "b.json")
    assert again.exit_code == 1
    assert "--overwrite" in again.output
    same = _run("evaluate", *where, "--json", tmp_path / "c", "-o", tmp_path / "c")
    assert same.exit_code == 2
