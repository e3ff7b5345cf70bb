"""The report: its sections, its numbers, its pictures, and how it looks in a real browser."""

import base64
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pytest

import maxent as mx
from maxent import io
from maxent.species.fitting import results
from maxent.species.input.layers.grid import Grid
from tools import needs, needs_program
from waiting import LIMIT

SECTIONS = [
    *("summary", "map", "projections", "omission", "thresholds", "evaluation", "replicates"),
    *("responses", "contributions", "jackknife", "model"),
]
NASTY = "Æthra <b>\"x\"</b> & 'y' $\\foo$"
VARIABLES = ("rain_<i>mm</i>", "_temp & co", "soil")
RULES = ("Fixed cumulative value 1", "Minimum training presence", "Equal test sensitivity & so on")
VOID = {"img", "meta", "link", "br", "hr", "input"}


# -- a result ------------------------------------------------------------------------------------


def write_tif(path, values, transform, crs="EPSG:4326", nodata=-9999.0, **profile):
    rasterio = needs("rasterio")
    path.parent.mkdir(parents=True, exist_ok=True)
    rows, columns = values.shape
    shape = {"width": columns, "height": rows, "count": 1, "dtype": values.dtype, "nodata": nodata}
    place = {"crs": crs, "transform": rasterio.Affine(*transform), "driver": "GTiff"}
    with rasterio.open(path, "w", **(shape | place | profile)) as file:
        file.write(values, 1)


def fitted(rng):
    n = 120
    X = pd.DataFrame(
        {
            VARIABLES[0]: rng.uniform(0, 3000, n),
            VARIABLES[1]: rng.normal(10, 5, n),
            VARIABLES[2]: rng.integers(1, 4, n),
        }
    )
    y = rng.random(n) < 0.5 * np.exp(-(((X.iloc[:, 0] - 2000) / 600) ** 2))
    model = mx.MaxentDensity("lqhc", categorical=[VARIABLES[2]], verbose=0)
    return model.fit(X, y.astype(int))


def evaluation(rng):
    rate = np.linspace(0, 1, 60)
    scores = {"n": 30.0, "auc": 0.87654, "auc_sd": 0.01234, "gain": 0.98765, "boyce": 0.912}
    scores |= {"log_loss": 4.5678, "max_tss": 0.6543, "aicc": float("nan"), "max_auc": 0.9021}
    rules = [
        {
            "name": name,
            "value": float(rng.random()),
            "raw": float(rng.random() / 1e5),
            "cumulative": float(100 * rng.random()),
            "area": float(rng.random()),
            "training_omission": float(rng.random()),
            "test_omission": float(rng.random()),
            "p_value": 10.0 ** -(i * 4),
        }
        for i, name in enumerate(RULES)
    ]
    bins = np.linspace(0.05, 0.3, 6)
    return results.Evaluation(
        scores=scores,
        test_scores={"n": 10.0, "auc": 0.81234, "auc_sd": 0.02345, "boyce": 0.7},
        roc={
            name: {"false_positive_rate": rate, "true_positive_rate": rate**power}
            for name, power in (("train", 0.2), ("test", 0.4))
        },
        omission={
            "threshold": rate,
            "raw": rate / 1e4,
            "cumulative": 100 * rate,
            "area": (1 - rate) ** 2,
            "training_omission": rate,
            "test_omission": rate**0.8,
        },
        thresholds=rules,
        calibration={
            "predicted": bins,
            "observed": bins**1.1,
            "low": bins * 0.7,
            "high": bins * 1.3,
        },
        boyce_curve={"prediction": rate, "ratio": 3 * rate},
    )


def replicates(rng):
    names = ("train_auc", "test_auc", "auc_difference", "test_gain", "boyce", "gain", "gap")
    table = [
        {"name": f"block {i + 1}", "n_train": 20 + i, "n_test": 10 - i}
        | {name: float(rng.random() / (1e7 if name == "gap" else 1)) for name in names}
        for i in range(3)
    ]
    table.append({"name": "block 4", "n_train": 30, "n_test": 0, "error": "no <test> records"})
    rate = np.linspace(0, 1, 20)
    return results.Replicates(
        "blocks",
        table,
        {"false_positive_rate": rate, "mean": rate**0.3, "sd": 0.1 + 0 * rate},
        {"cumulative": 100 * rate, "mean": rate, "sd": 0.05 + 0 * rate},
        rng.uniform((-60, -10), (-50, 0), (30, 2)),
        rng.integers(0, 4, 30),
    )


def responses():
    x = np.linspace(0, 3000, 40)
    made = []
    for kind in ("marginal", "single"):
        y = np.exp(-(((x - 2000) / 600) ** 2))
        for name in VARIABLES[:2]:
            made.append(results.Response(name, kind, False, x, y, 0.8 * y, np.minimum(1.2 * y, 1)))
        levels = np.array([0.25, 0.5, 0.875])
        made.append(
            results.Response(
                VARIABLES[2], kind, True, np.arange(1, 4), levels, levels / 2, levels + 0.1
            )
        )
    return made


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with maps and tables, the result they belong to, and its report."""
    needs("matplotlib")
    folder = tmp_path_factory.mktemp("report") / "Æ out"
    rng = np.random.default_rng(3)
    result = make_result(folder, rng)
    from maxent.species.report import write_report

    assert write_report(result, folder) == folder / "report.html"
    return folder, result, Page(folder / "report.html")


def make_result(folder, rng):
    transform = (0.25, 0.0, -60.0, 0.0, -0.25, 0.0)
    rows, columns = 40, 60
    suitability = np.tile(np.linspace(0, 1, columns, dtype=np.float32), (rows, 1))
    suitability[:, :6] = -9999
    layers = {
        "cloglog": suitability,
        "clamping": np.where(suitability > 0.5, np.float32(0.2), np.float32(0)),
        "mess": np.where(suitability < 0, suitability, 200 * suitability - 120),
        "mod": np.where(suitability > 0.75, 1, 2).astype(np.uint8),
    }
    maps = []
    for place, name in (("maps", "training layers"), ("projections/fu ture", "fu <ture> & co")):
        kinds = layers
        if name == "training layers":
            presence = np.where(suitability < 0, 255, suitability >= 0.8).astype(np.uint8)
            spread = np.where(suitability < 0, suitability, suitability / 10)
            kinds = {"cloglog": suitability, "presence": presence, "replicates_sd": spread}
        for kind, values in kinds.items():
            nodata = {"mod": 0, "presence": 255}.get(kind, -9999.0)
            write_tif(folder / place / f"{kind}.tif", values, transform, nodata=nodata)
        files = {kind: f"{place}/{kind}.tif" for kind in kinds}
        classes = {1: VARIABLES[0], 2: VARIABLES[1]}
        maps.append(results.MapFiles(name, files, 2160, classes, 540, 216, 1))
    (folder / "tables").mkdir()
    (folder / "tables" / "thresholds å.csv").write_text("x\n")
    n = 40
    importance = results.Importance(
        VARIABLES,
        np.array([20.5, 70.25, 9.25]),
        np.array([60.0, 30.0, 10.0]),
        np.array([3.0, 2.0, 1.0]),
        np.array([0.12345, 0.06, 0.02]),
        np.array([0.01, 0.005, 0.001]),
    )
    jackknife = results.Jackknife(
        VARIABLES,
        {
            "train_gain": {"all": 1.2, "only": [0.3, 0.9, 0.1], "without": [1.15, 1.1, 0.4]},
            "auc": {"all": 0.9, "only": [0.6, 0.8, 0.45], "without": [0.88, 0.85, 0.7]},
        },
    )
    return results.SpeciesResult(
        species=NASTY,
        model=fitted(rng),
        settings={"features": "lqhc", "thin": None, "outputs": ("cloglog",), "clamp": True},
        command='maxent fit "a b.csv" layers/*.tif --x <lon> && echo "done"',
        created="2026-11-15 08:00 UTC",
        version="9.8.7",
        layers={name: f"layers/{i} & <co>.tif" for i, name in enumerate(VARIABLES)},
        categorical=(VARIABLES[2],),
        grid=Grid("EPSG:4326", transform, columns, rows),
        records={
            "x": rng.uniform(-58, -46, n),
            "y": rng.uniform(-9, -1, n),
            "test": np.arange(n) % 4 == 0,
        },
        n_background=12345,
        cleaning=[results.CleaningStep("outside <the> region", 17, ("row 3: (1, 2)", "row 5"))],
        notes=["layer <a> & b: resampled"],
        evaluation=evaluation(rng),
        replicates=[replicates(rng)],
        importance=importance,
        jackknife=jackknife,
        responses=responses(),
        maps=maps,
        tables={"thresholds": "tables/thresholds å.csv"},
        bound="With probability 95 % the log loss is < 5.",
        seconds={"fit": 1.25, "maps": 0.5},
    )


# -- reading the page ----------------------------------------------------------------------------


class Page(HTMLParser):
    """Tags in balance, links, images, sections and tables of a page."""

    def __init__(self, path):
        super().__init__()
        self.path, self.source = path, path.read_text("utf-8")
        self.open_tags, self.problems, self.ids, self.links = [], [], [], []
        self.images, self.tables, self.titles, self.tags = [], {}, [], []
        self.sections, self.text_of = [], {}
        self._caption, self._row = None, None
        self.feed(self.source)
        self.close()
        self.problems += [f"<{tag}> is not closed" for tag in self.open_tags]

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append((tag, given))
        if len(given) != len(attrs):
            self.problems.append(f"<{tag}> has an attribute twice")
        if tag not in VOID:
            self.open_tags.append(tag)
        if "id" in given:
            self.ids.append(given["id"])
        if tag == "section":
            self.sections.append(given["id"])
        self.links += [given[name] for name in ("href", "src") if name in given]
        if tag == "img":
            self.images.append(given)
        if tag == "tr":
            self._row = []
        if tag in ("td", "th"):
            self._row.append("")
        if "title" in given:
            self.titles.append(given["title"])

    def handle_endtag(self, tag):
        if not self.open_tags or self.open_tags.pop() != tag:
            self.problems.append(f"</{tag}> at {self.getpos()}")
        if tag == "caption":
            self.tables.setdefault(self._caption, [])
        if tag == "tr":
            self.tables[self._caption].append(self._row)

    def handle_data(self, data):
        tag = self.open_tags[-1] if self.open_tags else None
        if tag == "caption":
            self._caption = data
        elif {"td", "th"} & set(self.open_tags):
            self._row[-1] += data
        self.text_of[tag] = self.text_of.get(tag, "") + data

    def table(self, start):
        """The rows below the head of the first table whose caption starts so."""
        return next(rows for name, rows in self.tables.items() if name.startswith(start))

    def image(self, alt):
        return next(image for image in self.images if alt in image["alt"])


def decoded(image):
    kind, data = image["src"].split(",", 1)
    return kind, base64.b64decode(data)


def test_sections_in_order(written):
    _, _, page = written
    assert page.sections == SECTIONS
    assert [link for link in page.links if link.startswith("#")] == [f"#{s}" for s in SECTIONS]
    heads = [attributes for tag, attributes in page.tags if tag == "th"]
    assert {head["scope"] for head in heads} == {"col", "row"}


def test_well_formed_and_self_contained(written):
    folder, _, page = written
    assert page.problems == []
    assert len(page.ids) == len(set(page.ids))
    assert page.tags[0] == ("html", {"lang": "en"})
    assert ("meta", {"charset": "utf-8"}) in page.tags
    assert any(attributes.get("name") == "viewport" for _, attributes in page.tags)
    for link in page.links:
        if link.startswith("data:"):
            continue
        if link.startswith("#"):
            assert link[1:] in page.ids
        else:
            assert (folder / unquote(link)).is_file(), link
    style = page.text_of["style"]
    assert "url(" not in style
    assert "@import" not in style
    assert not re.search(r"https?:", page.source)
    for image in page.images:
        assert image["alt"].endswith(".")
        kind, data = decoded(image)
        assert kind in ("data:image/svg+xml;base64", "data:image/png;base64")
        text = data.decode() if "svg" in kind else ""
        assert not re.search(r"(href|src)=\"(?!#|data:)", text)


def test_every_text_is_escaped(written):
    _, result, page = written
    tags = {tag for tag, _ in page.tags}
    assert not {"b", "i", "ture", "the", "lon", "co", "test"} & tags
    assert len([tag for tag, _ in page.tags if tag == "script"]) == 1
    assert page.text_of["em"] == NASTY
    assert page.text_of["title"] == f"{NASTY}: Maxent report"
    assert result.command in page.text_of["code"]
    assert [row[0] for row in page.table("Layers")[1:]] == list(VARIABLES)
    assert page.table("What was done")[1] == ["outside <the> region", "17", "row 3: (1, 2); row 5"]
    assert "layer <a> & b: resampled" in page.text_of["li"]
    assert "block 4: no <test> records" in page.text_of["li"]
    assert "fu <ture> & co" in page.text_of["h3"]


# -- numbers -------------------------------------------------------------------------------------


def test_key_numbers(written):
    _, result, page = written
    said = page.source.split('<dl class="tiles">')[1].split("</dl>")[0].split("<dt>")
    tiles = {part.split("</dt>")[0]: re.sub("<[^>]+>", "|", part) for part in said[1:]}
    mean = np.mean([row["test_auc"] for row in result.replicates[0].table[:3]])
    assert f"|{int(result.model.n_presences)}|" in tiles["Records"]
    assert "10 more for testing" in tiles["Records"]
    assert "|12,345|" in tiles["Background points"]
    assert "|0.877|" in tiles["AUC, training"]
    assert "|0.812|" in tiles["AUC, test records"]
    assert f"|{mean:.3f}|" in tiles["AUC, spatial cross-validation"]
    gain = result.model.certificate.unregularized_gain
    assert f"|{gain:.3f}|" in tiles["Gain, unregularized"]
    assert f"exp({gain:.3f}) = {np.exp(gain):.1f} times" in tiles["Gain, unregularized"]
    assert "|0.912|" in tiles["Boyce index"]
    mantissa, power = f"{result.model.certificate.gap:.0e}".split("e")
    assert f"solved to within {mantissa}e{int(power)} of the optimum" in tiles["Duality gap"]


def test_threshold_table(written):
    _, result, page = written
    head, *rows = page.table("Threshold rules")
    assert head == [
        *("Cumulative threshold", "Cloglog threshold", "Description"),
        *("Fractional predicted area", "Training omission rate", "Test omission rate", "P-value"),
    ]
    for row, rule in zip(rows, result.evaluation.thresholds, strict=True):
        assert row[2] == rule["name"]
        names = ("cumulative", "value", "area", "training_omission", "test_omission")
        for cell, name in zip([row[0], row[1], *row[3:6]], names, strict=True):
            assert float(cell) == pytest.approx(rule[name], abs=5.1e-4)
        assert float(row[6]) == pytest.approx(rule["p_value"], rel=0.05)
    raw = [float(title.removeprefix("raw threshold ")) for title in page.titles]
    assert raw == pytest.approx([r["raw"] for r in result.evaluation.thresholds], rel=1e-9)


def test_scores_table(written):
    _, _, page = written
    rows = {row[0]: row[1:3] for row in page.table("All scores")[1:]}
    assert rows["AUC"] == ["0.877 ± 0.012", "0.812 ± 0.023"]
    assert rows["Log loss"] == ["4.568", "–"]
    assert rows["AICc"] == ["–", "–"]  # NaN: as many parameters as records
    assert rows["Records"] == ["30", "10"]


def test_replicate_table(written):
    _, result, page = written
    table = result.replicates[0].table
    head, *rows = page.table("Scores of each replicate")
    assert rows[3][3:] == ["–"] * (len(head) - 3)
    column = head.index("Test gain")
    values = np.array([row["test_gain"] for row in table[:3]])
    assert [float(row[column]) for row in rows[:3]] == pytest.approx(values, abs=5.1e-4)
    assert float(rows[4][column]) == pytest.approx(values.mean(), abs=5.1e-4)
    assert float(rows[5][column]) == pytest.approx(values.std(ddof=1), abs=5.1e-4)
    assert [rows[4][0], rows[5][0]] == ["mean", "SD"]
    assert rows[4][head.index("Training records")] == f"{np.mean([20, 21, 22, 30]):.1f}"


def test_variable_tables(written):
    _, _, page = written
    rows = page.table("Variables by contribution")[1:]
    assert [row[0] for row in rows] == [VARIABLES[1], VARIABLES[0], VARIABLES[2]]
    assert rows[1][2:] == ["20.5", "", "60.0 ± 3.0", "0.1235 ± 0.0100"]
    rows = page.table("Regularized training gain")[1:]
    assert [row[2:] for row in rows] == [
        *(["0.300", "1.150"], ["0.900", "1.100"], ["0.100", "0.400"]),
        ["1.200", ""],
    ]
    assert page.text_of["strong"].count(VARIABLES[1]) == 2  # best alone, and above its curve
    assert f"{VARIABLES[2]}" in page.text_of["strong"]  # the one that is missed most
    levels = page.table("Suitability by category")[1:]
    assert [row[0] for row in levels] == ["1", "2", "3"]
    assert levels[2][2] == "0.875 (0.438 to 0.975)"
    widths = re.findall(r'class="fill second" style="left:0\.00%;width:([\d.]+)%"', page.source)
    assert {"25.00", "50.00", "87.50"} <= set(widths)


def test_bars_have_the_length_of_their_numbers():
    from maxent.species.report.markup import bar

    text = bar(-0.5, (-1, 1), "main", interval=(-0.75, 0.5), mark=1)
    assert 'fill main" style="left:25.00%;width:25.00%"' in text
    assert 'whisker" style="left:12.50%;width:62.50%"' in text
    assert 'mark" style="left:100.00%;width:0.00%"' in text
    # a bar of AUC starts at 0.5, one below at its own value
    assert 'style="left:0.00%;width:50.00%"' in bar(0.7, (0.5, 0.9), "main")
    assert "fill" not in bar(float("nan"), (0, 1), "main", (float("nan"), 1.0))


def test_fitted_model(written):
    _, result, page = written
    weights = result.model.coef
    rows = page.table("Features by weight")[1:]
    expected = sorted(weights, key=lambda name: -abs(weights[name]))[:30]
    assert [row[0] for row in rows] == expected
    betas = dict(zip(weights, result.model.beta, strict=True))
    for name, _, weight, beta in rows:
        assert float(weight) == pytest.approx(weights[name], abs=5.1e-5)
        assert float(beta) == pytest.approx(betas[name], abs=5.1e-6)
    fit = dict(page.table("The fit"))
    assert float(fit["Regularized gain"]) == pytest.approx(
        result.model.certificate.gain, abs=5.1e-5
    )
    assert fit["Guarantee"] == result.bound
    assert fit["Solver"] == f"converged after {result.model.certificate.n_iter} iterations"
    settings = dict(page.table("Settings")[1:])
    assert settings == {
        **{"features": "lqhc", "thin": "none", "outputs": "cloglog", "clamp": "yes"},
        **{"study region": "all of the layers"},
    }
    assert page.table("Layers")[3] == [VARIABLES[2], "layers/2 & <co>.tif", "categorical"]
    assert page.table("Seconds by stage")[-1] == ["total", "1.75"]
    assert page.table("Data behind")[1] == ["thresholds", "tables/thresholds å.csv"]


def test_shares_of_extrapolated_cells(written):
    _, _, page = written
    said = page.text_of["p"]
    assert "540 (25.0\N{NO-BREAK SPACE}%) have a variable outside its range" in said
    assert "216 (10.0\N{NO-BREAK SPACE}%) have a variable that was held" in said
    assert "1 (less than 0.1\N{NO-BREAK SPACE}%) have a category without" in said
    assert "would have an AUC of 0.902" in said


# -- pictures ------------------------------------------------------------------------------------


def test_line_plots_hold_their_text_and_curves(written):
    _, result, page = written
    kind, data = decoded(page.image("ROC curves"))
    text = data.decode()
    assert kind == "data:image/svg+xml;base64"
    assert "training records, AUC 0.877" in text
    assert "test records, AUC 0.812" in text
    curve = re.search(r'<path d="(M[^"]+)"[^>]*stroke: #7c3aed', text).group(1)
    points = np.array(re.findall(r"([\d.]+) ([\d.]+)", curve), dtype=float)
    unit = (points - points[0]) / (points[-1] - points[0])  # from (0, 0) to (1, 1)
    rates = result.evaluation.roc["test"]
    expected = np.interp(unit[:, 0], rates["false_positive_rate"], rates["true_positive_rate"])
    np.testing.assert_allclose(unit[:, 1], expected, atol=0.01)
    text = decoded(page.image("Omission of the records"))[1].decode()
    for label in ("omission the model predicts", "background predicted", "omission, test records"):
        assert label in text


def test_response_curves_share_a_figure_but_not_their_data(tmp_path):
    """One set of axes draws all variables: nothing of the one before may stay."""
    needs("matplotlib")
    from maxent.species.report.figures import ResponseFigure, drawing

    x = np.linspace(0, 1, 30)
    first = results.Response("a", "marginal", False, x, x, x / 2, x)
    other = results.Response("b", "single", False, 100 + x, 1 - x)
    with drawing():
        sheet = ResponseFigure()
        both = sheet.draw({"marginal": first, "single": other}).data
        again = sheet.draw({"single": other}).data
        alone = ResponseFigure().draw({"single": other}).data
        assert sheet.draw({"marginal": first, "single": other}).data == both
    assert b"model of this variable alone" in again
    assert b"others held" not in again
    assert again == alone
    assert both.count(b"fill-opacity: 0.18") == 1  # one has a band, one has none


def picture_of(png):
    image = needs("PIL.Image").open(BytesIO(png))
    return image.size, np.asarray(image.convert("RGB")).astype(int)


def near(colours, colour, within=14):
    return (np.abs(colours - np.array(colour)).max(axis=-1) <= within).sum()


@pytest.mark.parametrize("way", ["north up", "south up", "turned"])
def test_map_shows_values_where_they_lie(tmp_path, monkeypatch, way):
    """A raster with its largest value in the north-east, whichever way it lies in the file."""
    needs("matplotlib")
    from maxent.species.report import maps
    from maxent.species.report.figures import drawing

    monkeypatch.setattr(maps, "world", lambda grid: None)  # lines would lie on the cells
    values = np.zeros((20, 30), dtype=np.float32)
    values[:10, 15:] = 1.0
    values[15:, :5] = -9999
    transform = (1000.0, 0.0, 5e5, 0.0, -1000.0, 4e6)
    if way == "south up":
        values, transform = values[::-1].copy(), (1000.0, 0.0, 5e5, 0.0, 1000.0, 4e6 - 20_000)
    elif way == "turned":  # columns run to the south, rows to the east
        values, transform = values.T.copy(), (0.0, 1000.0, 5e5, -1000.0, 0.0, 4e6)
    write_tif(tmp_path / "map.tif", values, transform, crs="EPSG:32633")
    raster = maps.read_raster(tmp_path / "map.tif")
    assert raster.unit == "metre"
    with drawing():
        picture = maps.picture(raster, "cloglog", dpi=100)
    _, colours = picture_of(picture.data)
    yellow = np.abs(colours - [253, 231, 37]).max(axis=-1) <= 6
    purple = np.abs(colours - [68, 1, 84]).max(axis=-1) <= 6
    grey = np.abs(colours - [0xD9, 0xDD, 0xDB]).max(axis=-1) <= 3
    body = slice(0, int(colours.shape[1] * 0.85))  # without the colour bar
    (top, bottom), (left, right) = (
        (np.flatnonzero(shown.any(axis=axis)).min(), np.flatnonzero(shown.any(axis=axis)).max())
        for axis, shown in ((1, (yellow | purple)[:, body]), (0, (yellow | purple)[:, body]))
    )
    middle, centre = (top + bottom) // 2, (left + right) // 2
    edge = 3  # pixels
    assert yellow[top + edge : middle - edge, centre + edge : right - edge].mean() > 0.99
    assert purple[top + edge : middle - edge, left + edge : centre - edge].mean() > 0.99
    assert purple[middle + edge : bottom - edge, centre + edge : right - edge].mean() > 0.99
    corner = grey[bottom - (bottom - top) // 6 : bottom - edge, left + edge :][
        :, : (right - left) // 8
    ]
    assert corner.mean() > 0.99
    assert (bottom - top) / (right - left) == pytest.approx(20 / 30, rel=0.02)


def test_map_of_degrees_is_as_wide_as_the_land(tmp_path):
    """At 60 degrees north a degree of longitude is half as long as one of latitude."""
    needs("matplotlib")
    from maxent.species.report import maps
    from maxent.species.report.figures import drawing

    write_tif(tmp_path / "map.tif", np.ones((40, 40), np.float32), (0.5, 0.0, 0.0, 0.0, -0.5, 70.0))
    with drawing():
        picture = maps.picture(maps.read_raster(tmp_path / "map.tif"), "cloglog", dpi=100)
    _, colours = picture_of(picture.data)
    yellow = (np.abs(colours - [253, 231, 37]).max(axis=-1) <= 6)[:, : int(colours.shape[1] * 0.78)]
    height = np.ptp(np.flatnonzero(yellow.any(axis=1)))
    width = np.ptp(np.flatnonzero(yellow.any(axis=0)))
    assert height / width == pytest.approx(2, rel=0.03)


def test_records_are_dots_at_their_places(written):
    from maxent.species.report.maps import BOX, DPI

    _, result, page = written
    (width, _), colours = picture_of(decoded(page.image(f"{len(result.records['x'])} records"))[1])
    across = BOX * DPI  # 15 degrees, and 10 degrees of latitude around 5 degrees south
    down = across * 10 / 15 / np.cos(np.radians(5))
    left, top = 0.68 * DPI, 0.12 * DPI
    assert left + across < width < left + 1.3 * across
    column = (left + (result.records["x"] + 60) / 15 * across).astype(int)
    row = (top - result.records["y"] / 10 * down).astype(int)
    dots, test = colours[row, column], result.records["test"]
    assert near(dots[test], (217, 70, 239)) == test.sum()
    assert near(dots[~test], (255, 255, 255)) >= 0.9 * (~test).sum()  # few lie under others
    for name in ("training records", "test records", "no data"):
        assert f"</span>{name}</li>" in page.source


def test_most_dissimilar_variable_has_a_colour_each(written):
    _, _, page = written
    _, colours = picture_of(decoded(page.image("Most dissimilar"))[1])
    legend = re.findall(r'background:(#\w{6})"></span>([^<]+)</li>', page.source)
    named = {text: colour for colour, text in legend}
    shown = {}
    for name in ("rain_&lt;i&gt;mm&lt;/i&gt;", "_temp &amp; co"):
        colour = named[name]
        shown[name] = near(colours, [int(colour[i : i + 2], 16) for i in (1, 3, 5)], 2)
    # 15 of the 60 columns have more than 0.75
    assert shown["rain_&lt;i&gt;mm&lt;/i&gt;"] / sum(shown.values()) == pytest.approx(
        0.25, abs=0.01
    )


def test_presence_map(written):
    _, _, page = written
    image = page.image("Presence and absence")
    assert image["alt"].endswith(": below the threshold, at or above it.")
    _, colours = picture_of(decoded(image)[1])
    absent, present = near(colours, (0xF2, 0xE3, 0xBC), 2), near(colours, (0x0F, 0x76, 0x6E), 2)
    # columns of linspace(0, 1, 60) from 0.8 on, of the 54 with data
    expected = (np.linspace(0, 1, 60)[6:] >= 0.8).mean()
    assert present / (absent + present) == pytest.approx(expected, abs=0.01)
    assert "Spread of the replicates. " in page.text_of["strong"]


def test_a_variable_keeps_its_colour_on_other_maps():
    needs("matplotlib")
    from maxent.species.report import maps
    from maxent.species.report.figures import drawing

    grid = Grid(None, (1.0, 0.0, 0.0, 0.0, -1.0, 0.0), 2, 2)
    classes = {1: "a", 2: "b", 3: "c"}
    with drawing():
        legends = [
            dict(maps.class_picture(maps.Raster(np.ma.array(values), grid, None), classes, 60)[1])
            for values in ([[1, 2], [3, 3]], [[3, 3], [3, 2]])
        ]
    assert list(legends[0].values()) == ["a", "b", "c"]
    assert list(legends[1].values()) == ["b", "c"]
    assert legends[1].items() <= legends[0].items()


def test_mess_is_white_at_zero(tmp_path):
    from maxent.species.report.maps import _scale

    name, (low, high) = _scale("mess", np.array([-500.0, -3.0, 0.0, 80.0]))
    assert name == "RdBu"
    assert -low == high == 100.0
    assert _scale("clamping", np.zeros(3))[1] == (0.0, 0.01)
    assert _scale("replicates_sd", np.array([0.1, 0.3]))[1] == (0.0, 0.3)
    assert _scale("cloglog", np.array([0.2, 0.3]))[1] == (0.0, 1.0)


def test_rasters_are_read_small(tmp_path):
    from maxent.species.report.maps import read_raster

    rng = np.random.default_rng(0)
    values = rng.random((60, 90)).astype(np.float32)
    values[:3, :3] = -9999
    classes = rng.integers(1, 9, (60, 90)).astype(np.uint8)
    transform = (2.0, 0.0, 10.0, 0.0, -2.0, 50.0)
    write_tif(tmp_path / "a.tif", values, transform, crs=None)
    write_tif(tmp_path / "c.tif", classes, transform, nodata=0)
    small = read_raster(tmp_path / "a.tif", side=30)
    means = np.ma.masked_equal(values, -9999).reshape(20, 3, 30, 3).mean(axis=(1, 3))
    assert small.values.mask[0, 0]
    assert np.ma.getmaskarray(small.values).sum() == 1
    np.testing.assert_allclose(small.values.compressed(), means.compressed(), rtol=1e-5)
    assert small.grid.transform == (6.0, 0.0, 10.0, 0.0, -6.0, 50.0)
    assert small.grid.bounds == (10.0, -70.0, 190.0, 50.0)
    assert small.unit is None
    whole = read_raster(tmp_path / "a.tif")
    np.testing.assert_array_equal(whole.values.filled(-9999), values)
    picked = read_raster(tmp_path / "c.tif", side=30, categorical=True).values
    blocks = classes.reshape(20, 3, 30, 3).swapaxes(1, 2).reshape(20, 30, 9)
    assert (picked.data[..., None] == blocks).any(axis=-1).all()
    with pytest.raises(FileNotFoundError, match=r"none\.tif.*not there"):
        read_raster(tmp_path / "none.tif")


def test_overviews_are_used(tmp_path):
    """A map is read from its overview: changed there, it shows."""
    rasterio = needs("rasterio")
    from maxent.species.report.maps import read_raster

    path = tmp_path / "map.tif"
    write_tif(path, np.ones((512, 512), np.float32), (2.0, 0, 0, 0, -2.0, 0), tiled=True)
    with rasterio.open(path, "r+") as file:
        file.build_overviews([4], rasterio.enums.Resampling.average)
    with rasterio.open(path, "r+") as file:
        file.write(np.zeros((512, 512), np.float32), 1)  # the overview stays as it was
    assert read_raster(path, side=128).values.mean() == 1
    assert read_raster(path, side=512).values.mean() == 0


@pytest.mark.parametrize("name", [NASTY, "蛇の目 <蝶>", " "])
def test_map_png(written, tmp_path, name):
    from maxent.species.report import write_map_png

    folder, result, _ = written
    shutil.copytree(folder / "maps", tmp_path / "maps")
    path = write_map_png(replace(result, species=name), tmp_path)
    assert path == tmp_path / "map.png"
    size, colours = picture_of(path.read_bytes())
    assert max(size) >= 1500
    assert near(colours, (253, 231, 37), 4) > 1000
    assert near(colours, (217, 70, 239), 4) > 20 * result.records["test"].sum()
    with pytest.raises(ValueError, match="no suitability map was written"):
        write_map_png(replace(result, maps=[]), tmp_path)


# -- parts that are missing ----------------------------------------------------------------------


def test_missing_parts_have_no_section(written, tmp_path):
    from maxent.species.report import write_report

    _, result, _ = written
    lean = replace(
        result,
        evaluation=results.Evaluation({"auc": 0.9}, None, {}, {}, [], {}, {}),
        **{"replicates": [], "responses": [], "maps": [], "notes": [], "cleaning": []},
        **{"importance": None, "jackknife": None, "tables": {}, "command": "", "bound": ""},
        **{"settings": {}, "seconds": {}, "layers": {}, "grid": None},
        records={"x": np.empty(0), "y": np.empty(0), "test": np.zeros(3, bool)},
    )
    page = Page(write_report(lean, tmp_path))
    assert page.sections == ["summary", "evaluation", "model"]
    assert page.problems == []
    assert [row[0] for row in page.table("All scores")[1:]] == ["AUC"]
    assert set(page.tables) == {"All scores", "The fit", "Features by weight"}
    assert page.images == []


def test_without_test_records(written, tmp_path):
    from maxent.species.report import write_report

    _, result, _ = written
    full = result.evaluation
    rules = [rule | {"test_omission": None, "p_value": None} for rule in full.thresholds]
    curves = {name: curve for name, curve in full.omission.items() if name != "test_omission"}
    evaluation = replace(
        full, test_scores=None, roc={"train": full.roc["train"]}, thresholds=rules, omission=curves
    )
    records = result.records | {"test": np.zeros(len(result.records["x"]), bool)}
    page = Page(
        write_report(
            replace(result, evaluation=evaluation, records=records, maps=[], responses=[]), tmp_path
        )
    )
    assert page.table("Threshold rules")[0][-1] == "Training omission rate"
    assert page.table("All scores")[0] == ["Score", "Training", "What it says"]
    text = decoded(page.image("Omission of the records"))[1].decode()
    assert "test records" not in text
    assert "used for the fit" in page.source


def test_saved_results_give_the_same_report(written, tmp_path):
    from maxent.species.report import write_report

    folder, result, page = written
    io.save(result, tmp_path / "result.json")
    shutil.copytree(folder, tmp_path / "copy")
    again = write_report(io.load(tmp_path / "result.json"), tmp_path / "copy")
    assert again.read_text("utf-8") == page.source


def test_a_large_map_makes_a_small_page(written, tmp_path):
    """Noise, which no compression makes smaller, on every map."""
    from maxent.species.report import write_report

    _, result, _ = written
    rng = np.random.default_rng(1)
    transform = (0.001, 0.0, -60.0, 0.0, -0.001, 0.0)
    for kind in ("cloglog", "mess"):
        scale = 1 if kind == "cloglog" else 100
        noise = (scale * rng.random((1200, 1200))).astype(np.float32)
        write_tif(tmp_path / f"{kind}.tif", noise, transform)
    files = {"cloglog": "cloglog.tif", "mess": "mess.tif"}
    maps = [results.MapFiles("training layers", files, 1_440_000)]
    maps += [results.MapFiles(f"year {i}", files, 1_440_000) for i in range(2)]
    path = write_report(replace(result, maps=maps, responses=[], replicates=[]), tmp_path)
    assert path.stat().st_size < 4e6


def test_maps_share_the_room_of_the_page():
    from maxent.species.report.maps import BOX, SMALL, shared_dpi

    assert shared_dpi(0) == shared_dpi(1) == SMALL / BOX
    few, many = shared_dpi(12), shared_dpi(24)
    assert many < few < SMALL / BOX
    assert 24 * many**2 == pytest.approx(12 * few**2)


def test_needs_matplotlib(written, tmp_path, monkeypatch):
    from maxent.species.report import write_report

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install maxent\[plot\]"):
        write_report(written[1], tmp_path)
    assert not (tmp_path / "report.html").exists()


# -- the index -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def index(written):
    from maxent.species.report import write_index, write_map_png

    folder, result, _ = written
    write_map_png(result, folder)
    scores = {"auc": 0.91234, "test_auc": None, "gain": 1.5, "gap": 2.1e-8, "seconds": 12.34}
    rows = [
        {"species": NASTY, "status": "ok", "report": "report.html", "thumbnail": "map.png"}
        | {"n_records": 1234, "error": None}
        | scores,
        {"species": "Zea", "status": "ok", "report": "report.html", "thumbnail": "gone.png"}
        | {"n_records": 56, "auc": 0.95, "test_auc": 0.7, "gain": 2.0, "gap": 0.0, "seconds": 1},
        {"species": "Aus bus", "status": "failed", "error": "a.csv: <2> records & no more"},
    ]
    path = write_index(rows, folder, title="Trees & <shrubs>")
    assert path == folder / "index.html"
    return Page(path)


def test_index(index, written):
    assert index.problems == []
    assert index.text_of["h1"] == "Trees & <shrubs>"
    assert "2 species fitted, 1 failed" in index.text_of["p"]
    assert index.links == ["data:,", "report.html", "map.png", "report.html"]
    head, first, second, failed = index.table("Species")
    cells = dict(zip(head, first, strict=True))
    assert cells["Species"] == NASTY
    assert [cells[name] for name in head[3:]] == [
        *("1,234", "0.912", "–", "1.500", "2e-8", "12.3"),
    ]
    assert second[-2:] == ["0", "1.0"]
    assert failed[0] == "Aus busa.csv: <2> records & no more"
    assert failed[2] == "failed"


# -- a real browser ------------------------------------------------------------------------------

MEASURE = """<script>
const said = [];
window.addEventListener("error", (event) => said.push(String(event.message)), true);
window.addEventListener("load", function () {
  const root = document.documentElement;
  const wide = Array.from(document.body.querySelectorAll("*")).filter(function (part) {
    const box = part.getBoundingClientRect();
    return box.width > 0 && box.right > root.clientWidth + 1 && !part.closest(".scroll *");
  });
  const contents = document.querySelector("details.contents");
  const button = document.querySelector("button[data-copy]");
  const facts = {
    page: "PAGE",
    width: innerWidth,
    scrollWidth: root.scrollWidth,
    clientWidth: root.clientWidth,
    wide: wide.map((part) => part.outerHTML.slice(0, 80)),
    images: document.images.length,
    broken: Array.from(document.images).filter((i) => !i.complete || !i.naturalWidth).length,
    small: Array.from(document.images).filter((i) => i.getBoundingClientRect().width < 90).length,
    outside: performance.getEntriesByType("resource").map((entry) => entry.name)
      .filter((name) => !name.startsWith("data:") && !name.startsWith("file:")),
    sections: document.querySelectorAll("section h2").length,
    open: contents && contents.open,
    scrolls: Array.from(document.querySelectorAll(".scroll"))
      .filter((box) => box.scrollWidth > box.clientWidth + 1).length,
  };
  if (button) {
    facts.button = !button.hidden && button.offsetWidth > 0;
    button.click();
    facts.selected = window.getSelection().toString();
    facts.after = button.textContent;
  }
  const names = () => Array.from(document.querySelectorAll("table.sortable tbody em"))
    .map((name) => name.textContent);
  const heads = document.querySelectorAll("table.sortable th button");
  if (heads.length) {
    facts.before = names();
    heads[3].click();
    facts.by_records = names();
    heads[0].click();
    facts.by_name = names();
    heads[0].click();
    facts.reversed = names();
  }
  facts.errors = said;
  parent.postMessage(JSON.stringify(facts), "*");
});
</script>"""
COLLECT = """<!DOCTYPE html><meta charset="utf-8"><pre id="facts"></pre><script>
const found = [];
window.addEventListener("message", function (event) {
  found.push(JSON.parse(event.data));
  document.getElementById("facts").textContent = JSON.stringify(found);
});
</script>"""


def chromium(folder, *arguments):
    """Run the browser on a file; what it prints."""
    program = needs_program("chromium")
    profile = folder / "profile"
    command = [
        *(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
        *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
        *("--disable-sync", f"--user-data-dir={profile}", *arguments),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    shutil.rmtree(profile, ignore_errors=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done


@pytest.fixture(scope="module")
def seen(written, index, tmp_path_factory):
    """What a browser says of both pages at the widths of a desktop and of a phone."""
    folder, _, page = written
    frames = COLLECT
    for name, source in (("index", index.source), ("report", page.source)):
        copy = folder / f"measured {name}.html"
        measure = MEASURE.replace("PAGE", name)
        copy.write_text(source.replace("<title>", f"{measure}<title>", 1), "utf-8")
        for width in (1280, 390):
            frames += f'<iframe src="measured {name}.html" width="{width}" height="900"></iframe>'
    (folder / "frames.html").write_text(frames, "utf-8")
    profile = tmp_path_factory.mktemp("browser")
    arguments = ("--window-size=1400,1000", "--virtual-time-budget=20000", "--dump-dom")
    done = chromium(profile, *arguments, (folder / "frames.html").as_uri())
    text = re.search(r'<pre id="facts">(.*?)</pre>', done.stdout, re.DOTALL).group(1)
    measured = json.loads(text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    return {(facts["page"], facts["width"]): facts for facts in measured}


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["report", "index"])
def test_layout_in_a_browser(seen, name, width):
    facts = seen[name, width]
    assert width - 20 < facts["scrollWidth"] <= facts["clientWidth"] <= width
    assert facts["wide"] == []
    assert facts["errors"] == []
    assert facts["broken"] == 0
    assert facts["small"] == 0
    assert facts["outside"] == []


def test_report_in_a_browser(seen, written):
    _, result, page = written
    desktop, phone = seen["report", 1280], seen["report", 390]
    for facts in (desktop, phone):
        assert facts["images"] == len(page.images) == 16
        assert facts["sections"] == len(SECTIONS)
        assert facts["button"]
        assert facts["selected"].strip() == result.command
        assert facts["after"] in ("Copied", "Selected: press Ctrl+C")
    assert desktop["open"]
    assert not phone["open"]
    assert desktop["scrolls"] == 0  # wide tables scroll in their own box, on a phone alone
    assert phone["scrolls"] > 3


def test_index_sorts_in_a_browser(seen):
    facts = seen["index", 1280]
    assert facts["images"] == 1
    assert facts["before"] == [NASTY, "Zea", "Aus bus"]
    assert facts["by_records"] == [NASTY, "Zea", "Aus bus"]  # falling, what is missing last
    assert facts["by_name"] == sorted(facts["before"], key=lambda n: n.replace("Æ", "Ae").lower())
    assert facts["reversed"] == facts["by_name"][::-1]


def test_report_prints(written, tmp_path):
    folder, _, _ = written
    target = tmp_path / "report.pdf"
    arguments = (f"--print-to-pdf={target}", "--no-pdf-header-footer")
    chromium(tmp_path, *arguments, (folder / "report.html").as_uri())
    data = target.read_bytes()
    assert data.startswith(b"%PDF-")
    assert data.rstrip().endswith(b"%%EOF")
    assert len(re.findall(rb"/Type\s*/Page\b", data)) >= 2


def test_settings_name_the_study_region():
    """Hull and buffer are asked for beside the settings, and listed with them."""
    from types import SimpleNamespace

    from maxent.species.report.sections.model import _settings

    hull = mx.species.StudyRegion(
        "hull", "the convex hull of 9 records, and 50 km around", None, (), 1234.4
    )
    asked = SimpleNamespace(settings={"seed": 0}, grid=object(), study=hull)
    assert _settings(asked)["study region"] == (
        "the convex hull of 9 records, and 50 km around, 1,234 km²"
    )


@pytest.fixture
def opened(written, browser):
    """The report at a width, in light or dark."""
    contexts = []

    def make(width, scheme):
        contexts.append(
            browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        )
        page = contexts[-1].new_page()
        page.goto((written[0] / "report.html").as_uri())
        return page

    yield make
    for one in contexts:
        one.close()


@pytest.mark.parametrize(("scheme", "paper"), [("light", 255), ("dark", 27)])
def test_paper_is_dark_in_the_dark(opened, scheme, paper):
    """The page, and the curves in it: white is nowhere left behind a curve."""
    page = opened(1280, scheme)
    background = page.locator("#summary").evaluate("s => getComputedStyle(s).backgroundColor")
    assert background.startswith(f"rgb({paper},")
    PIL = needs("PIL.Image")
    curve = page.locator("img[src^='data:image/svg']").first
    curve.scroll_into_view_if_needed()
    shot = PIL.open(BytesIO(curve.screenshot())).convert("RGB")
    assert shot.getpixel((3, 3))[0] == paper


def test_thresholds_fit_a_phone(opened):
    page = opened(390, "light")
    box = page.get_by_role("group", name="Threshold rules")
    assert box.evaluate("b => b.scrollWidth - b.clientWidth") <= 0
    first = box.locator("tbody tr").first
    labels = first.locator("td").evaluate_all("cells => cells.map(c => c.dataset.label)")
    assert labels[:2] == ["Cumulative threshold", "Cloglog threshold"]
    tops = first.locator("td, th").evaluate_all(
        "cells => cells.map(c => c.getBoundingClientRect().y)"
    )
    assert len(set(tops)) == len(tops)  # below each other


def test_printed_pages_are_full(opened):
    """Pages are as many as all that is printed needs, and one more at most for every six."""
    page = opened(1280, "light")
    data = page.pdf(format="A4", prefer_css_page_size=True)
    pages = len(re.findall(rb"/Type\s*/Page\b", data))
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 688, "height": 1017})  # A4 without its margins
    needed = page.evaluate("document.documentElement.scrollHeight") / 1017
    assert pages <= np.ceil(needed) + needed / 6


def test_pages_are_small_files(written):
    folder, _, _ = written
    assert Path(folder / "report.html").stat().st_size < 1.5e6
