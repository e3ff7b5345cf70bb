"""Where to survey next: against a search written out, and as files that can be taken along."""

import csv
import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import maxent as mx
from maxent import MaxentDensity
from maxent.density import Posterior
from maxent.species.judging.sites import choose_sites
from maxent.species.judging.visits import visit_effort
from tools import needs

rasterio = needs("rasterio")
pyproj = needs("pyproj")


def test_sites_are_those_of_a_search_that_inverts_every_covariance():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (60, 2))
    y = rng.multinomial(25, np.exp(X[:, 0]) / np.exp(X[:, 0]).sum())
    density = MaxentDensity("lq", multiplier=0.2).fit(X, y).density_
    posterior = Posterior.from_density(density, X)
    places = posterior.at(X)
    far = np.abs(X[:, None, 0] - X[None, :, 0]) >= 0.15
    chosen, gains = choose_sites(posterior, places, 5, apart=lambda i: far[i], detection=0.6)

    def mean_variance(rows):
        told = sum(
            (
                places.information(0.6)[i] * np.outer(places.slopes[i], places.slopes[i])
                for i in rows
            ),
            np.linalg.inv(posterior.covariance),
        )
        covariance = np.linalg.inv(told)
        slopes = places.slopes * places.steepness[:, None]
        return np.mean(np.sum(slopes @ covariance * slopes, axis=1))

    rows = []
    for gain in gains:
        free = [i for i in range(60) if i not in rows and all(far[j, i] for j in rows)]
        left = {i: mean_variance([*rows, i]) for i in free}
        before = mean_variance(rows)
        best = min(left, key=left.get)
        rows.append(best)
        assert gain == pytest.approx((before - left[best]) / mean_variance([]), rel=1e-6)
    assert chosen == rows


@pytest.fixture(scope="module")
def fitted(data, tmp_path_factory):
    from typer.testing import CliRunner

    from maxent import cli

    out = tmp_path_factory.mktemp("fit")
    options = ("--features", "lq", "--bootstrap", "0", "--cv", "none", "--no-maps", "-q")
    typed = ["fit", data / "occurrences.csv", data / "layers", "-o", out, *options]
    done = CliRunner().invoke(cli.main, [str(word) for word in typed])
    assert done.exit_code == 0, done.output
    return out / "model.json"


def test_the_command_writes_sites_that_keep_their_distance(run, data, fitted, tmp_path):
    out = tmp_path / "where next"
    visited = data / "occurrences.csv"
    typed = ["sites", fitted, data / "layers", "-o", out, "--sites", 4, "--apart", 30]
    done = run(*typed, "--visited", visited, "--detection", 0.5, "--json", "-q")
    assert done.exit_code == 0, done.output
    plan = json.loads(done.stdout)
    assert plan["deviation_after"] < plan["deviation_before"]
    with (out / "sites.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["rank"]) for row in rows] == [1, 2, 3, 4]
    geod = pyproj.Geod(ellps="WGS84")
    places = [(float(row["longitude"]), float(row["latitude"])) for row in rows]
    with visited.open() as file:
        records = [
            (float(r["decimalLongitude"]), float(r["decimalLatitude"]))
            for r in csv.DictReader(file)
        ]
    for i, one in enumerate(places):
        assert all(geod.inv(*one, *other)[2] >= 30e3 for other in places[:i])
        assert all(geod.inv(*one, *other)[2] >= 30e3 for other in records)
    # the map says at every site what the table says, the gain of the first visit included
    with (
        rasterio.open(out / "survey_gain.tif") as gain,
        rasterio.open(out / "suitability_sd.tif") as sd,
    ):
        at = [(float(row["x"]), float(row["y"])) for row in rows]
        gains = np.array([value[0] for value in gain.sample(at)])
        spread = np.array([value[0] for value in sd.sample(at)])
    assert gains[0] == pytest.approx(float(rows[0]["gain"]), rel=1e-4)
    assert all(float(row["gain"]) <= g * (1 + 1e-4) for row, g in zip(rows, gains, strict=True))
    np.testing.assert_allclose(spread, [float(row["deviation"]) for row in rows], rtol=1e-4)
    names = {"g": "http://www.topografix.com/GPX/1/1"}
    points = ElementTree.parse(out / "sites.gpx").findall("g:wpt", names)
    told = [(float(p.get("lon")), float(p.get("lat"))) for p in points]
    np.testing.assert_allclose(told, places, rtol=1e-7)
    features = json.loads((out / "sites.geojson").read_text())["features"]
    np.testing.assert_allclose([f["geometry"]["coordinates"] for f in features], places)
    again = run(*typed)
    assert again.exit_code == 1
    assert "replace it with --overwrite" in again.output


def test_the_picture_numbers_the_sites(run, data, fitted, tmp_path, monkeypatch):
    from maxent.species.report import maps

    drawn = []
    monkeypatch.setattr(maps, "_write_title", lambda figure, text: drawn.append((figure, text)))
    out = tmp_path / "Bild"
    visits = data / "occurrences.csv"
    done = run("sites", fitted, data / "layers", "-o", out, "--sites", 5, "--visits", visits, "-q")
    assert done.exit_code == 0, done.output
    assert (out / "sites.png").read_bytes().startswith(b"\x89PNG")
    ((figure, title),) = drawn
    assert title == "Arbor fictus: where to go"
    texts = figure.axes[0].texts
    with (out / "sites.csv").open() as file:
        sites = {r["rank"]: (float(r["x"]), float(r["y"])) for r in csv.DictReader(file)}
    marks = {text.get_text(): text.get_position() for text in texts if text.get_text() in sites}
    assert marks == sites
    assert any("km" in text.get_text() for text in texts)  # the scale bar


def test_visited_places_without_coordinates_keep_nothing_away(run, data, fitted, tmp_path):
    """As in a download of GBIF; the sites are those of a table without such rows."""
    header, *rows = (data / "occurrences.csv").read_text(encoding="utf-8").splitlines()
    columns = header.split(",")
    gaps = ",".join("" if name.startswith("decimal") else rows[0].split(",")[i]
                    for i, name in enumerate(columns))  # fmt: skip
    tables = {"whole": rows, "gaps": [*rows[:3], gaps, *rows[3:], gaps]}
    written = []
    for name, lines in tables.items():
        path = tmp_path / f"{name}.csv"
        path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
        typed = ["sites", fitted, data / "layers", "-o", tmp_path / name, "--sites", 3]
        done = run(*typed, "--apart", 30, "--visited", path)
        assert done.exit_code == 0, done.output
        assert ("2 records to keep away from have no coordinates" in done.output) == (
            name == "gaps"
        )
        written.append((tmp_path / name / "sites.csv").read_text(encoding="utf-8"))
    assert written[0] == written[1]


def test_fewer_sites_than_asked_for_is_said(run, data, fitted, tmp_path):
    done = run("sites", fitted, data / "layers", "-o", tmp_path / "out", "--apart", 1500)
    assert done.exit_code == 0, done.output
    assert "sites instead of 20: no other cell is 1500 km from all of them" in " ".join(
        done.output.split()
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--detection", 0), "detection must lie above 0"),
        (("--visited", "occurrences.csv"), "--visited has no effect without --apart"),
        (("--apart", 6000), "between 0 and 5000 km"),
    ],
)
def test_options_that_cannot_be_are_refused(run, data, fitted, tmp_path, options, words):
    options = [data / o if str(o).endswith(".csv") else o for o in options]
    done = run("sites", fitted, data / "layers", "-o", tmp_path / "out", *options)
    assert done.exit_code in (1, 2)
    assert words in " ".join(done.output.split())
    assert not (tmp_path / "out").exists()


# -- visits that were made -------------------------------------------------------------------------


def _cells(folder, names):
    """Values of the layers by name, and where all are known."""
    values = {}
    for name in names:
        with rasterio.open(folder / f"{name}.tif") as file:
            values[name] = file.read(1, masked=True).astype(float).filled(np.nan)
    return values, np.isfinite(list(values.values())).all(axis=0)


def test_visits_are_effort_that_the_next_fit_takes_out(run, data, fitted, tmp_path):
    pd = needs("pandas")
    layers = data / "layers"
    model = mx.load(fitted)
    names = model.density.schema.names
    values, known = _cells(layers, [n for n in names if n != "biome"])
    rows, columns = np.nonzero(known)
    some = [5, 5, 60, 200]  # one place twice
    with rasterio.open(layers / "temperature.tif") as file:
        x, y = file.xy(rows[some], columns[some])
    visits = tmp_path / "besucht im Mai.csv"
    found = ["yes", "no", "no", "no"]
    pd.DataFrame({"lon": x, "lat": y, "present": found}).to_csv(visits, index=False)
    typed = ["sites", fitted, layers, "--sites", 3, "--detection", 0.5, "--visits", visits]
    done = run(*typed, "-o", tmp_path / "made", "-q")
    assert done.exit_code == 0, done.output
    with rasterio.open(tmp_path / "made" / "effort.tif") as file:
        effort = file.read(1)
    # n q records are expected in a cell of effort 1, and d p of a visit
    table = pd.DataFrame({name: layer[known] for name, layer in values.items()})
    if "biome" in names:
        with rasterio.open(layers / "biome.tif") as file:
            table["biome"] = file.read(1)[known]
    raw, p = model.density.predict(table, "raw"), model.density.predict(table, "cloglog")
    expected = np.ones(known.sum())
    for i in some:
        expected[i] += 0.5 * p[i] / (model.density.n_presences * raw[i] / raw.sum())
    np.testing.assert_allclose(effort[known], expected, rtol=1e-4)
    assert np.isnan(effort[~known]).all()
    with (tmp_path / "made" / "sites.csv").open() as file:
        chosen = {(row["x"], row["y"]) for row in csv.DictReader(file)}
    assert not chosen & {(str(a), str(b)) for a, b in zip(x, y, strict=True)}
    # the next fit knows of them, and so do the visits after it
    options = ("--features", "lq", "--bootstrap", "0", "--cv", "none", "--no-maps", "-q")
    bias = tmp_path / "made" / "effort.tif"
    effort_of = ("--bias", bias, "--bias-as", "prior", "--background", "all")
    records = data / "occurrences.csv"
    again = run("fit", records, layers, "-o", tmp_path / "fit", *options, *effort_of)
    assert again.exit_code == 0, again.output
    later = mx.load(tmp_path / "fit" / "model.json")
    assert later.density.biased
    typed[1] = tmp_path / "fit" / "model.json"
    done = run(*typed, "-o", tmp_path / "later", "-q")
    assert done.exit_code == 1
    assert "give its raster with --bias" in " ".join(done.output.split())
    done = run(*typed, "--bias", bias, "-o", tmp_path / "later", "-q")
    assert done.exit_code == 0, done.output
    with rasterio.open(tmp_path / "later" / "effort.tif") as file:
        more = file.read(1)[known]
    raw, p = later.density.predict(table, "raw"), later.density.predict(table, "cloglog")
    before = expected.copy()
    for i in some:
        share = raw[i] / (before * raw).sum()
        expected[i] += 0.5 * p[i] / (later.density.n_presences * share)
    np.testing.assert_allclose(more, expected, rtol=1e-4)


def test_a_visit_is_worth_the_records_that_it_yields():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(40, 2))
    density = MaxentDensity("lq", multiplier=0.1).fit(X, rng.poisson(3 * X[:, 0])).density_
    raw, p = density.predict(X, "raw"), density.predict(X, "cloglog")
    effort = rng.uniform(0.5, 2, 40)
    added = visit_effort(density, X[:5], X, 400, detection=0.7, effort=effort)
    # effort times density is in proportion to records: n of them in 400 cells
    per_unit = density.n_presences / (10 * (effort * raw).sum())
    np.testing.assert_allclose(added * raw[:5] * per_unit, 0.7 * p[:5])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--bias", "effort.tif"), "--bias has no effect without --visits"),
        (("--visits", "occurrences.csv", "--bias", "effort.tif"), "allowed for no sampling effort"),
    ],
)
def test_an_effort_without_effect_is_refused(run, data, fitted, tmp_path, options, words):
    options = [o if o.startswith("--") else data / o for o in options]
    done = run("sites", fitted, data / "layers", "-o", tmp_path / "out", *options)
    assert done.exit_code in (1, 2)
    assert words in " ".join(done.output.split())


def test_the_experiment_runs_and_says_what_the_guide_says(tmp_path):
    pd = needs("pandas")
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from experiments import survey_sites
    from experiments.run import RESULTS

    (path,) = survey_sites.run(tmp_path, quick=True)
    small = pd.read_csv(path)
    assert set(small["way"]) == set(survey_sites.WAYS)
    assert not small.loc[small["visits"] == 0, ["auc_gain", "kl_gain"]].any(axis=None)
    assert (small.loc[small["visits"] > 0, "found"] <= survey_sites.VISITS).all()
    told = pd.read_csv(RESULTS / "survey_sites.csv")
    assert list(told) == list(small)
    last = told[(told["visits"] == 30) & (told["way"] == "sites")].set_index(["use", "start"])
    for score in survey_sites.SCORES:
        better = last[f"{score}_gain"] / last[f"{score}_gain_se"]
        assert (better["effort"] > 2).all()
    assert (last.loc["records", "kl_gain"] < -2 * last.loc["records", "kl_gain_se"]).all()
    assert (last.loc["records", "spearman_gain"] < 0).all()


def test_a_model_without_variables_is_refused(data, tmp_path):
    from maxent.species.fitting.model import SpeciesModel
    from maxent.species.input.layers.layers import Layers
    from maxent.species.judging.sites import plan_survey

    X = np.arange(6.0)[:, None]
    density = MaxentDensity("l", multiplier=1e3).fit(X, [0, 1, 1, 0, 1, 1])
    model = SpeciesModel("Aa bb", density.density_)
    assert not len(model.density.weights)
    with Layers.open(data / "layers") as layers, pytest.raises(ValueError, match="no variable"):
        plan_survey(model, layers, tmp_path)
