"""Where to survey next: against a search written out, and as files that can be taken along."""

import csv
import json
from xml.etree import ElementTree

import numpy as np
import pytest

from maxent import MaxentDensity
from maxent.density import Posterior
from maxent.species.judging.sites import choose_sites
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
