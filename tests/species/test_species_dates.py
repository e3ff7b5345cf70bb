"""Dates: records and background with the layers of their own time."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import maxent as mx
from maxent import species
from maxent.species.input.layers.geodesy import cell_areas
from maxent.species.input.layers.grid import Grid, Window
from maxent.species.input.layers.layers import Layers
from maxent.species.input.records.occurrences import NO_DATE, NO_TIME, Occurrences
from maxent.species.input.times.dated_layers import DatedLayers, matched
from maxent.species.input.times.record_dates import dates_given, dates_in
from maxent.species.input.times.series import grouped, read_times
from maxent.species.input.times.spans import Length, Span, named_time, read_date
from tools import needs

rasterio = needs("rasterio")
xarray = needs("xarray")

pytestmark = pytest.mark.usefixtures("sketches")

OPTIMUM, WIDTH = 15.0, 1.2
YEARS = range(2000, 2013)
FAST = ["-f", "lq", "--bootstrap", "0", "--permutations", "0", "--no-jackknife", "--cv", "none"]
QUICK = {"features": "lq", "bootstrap": 0, "permutations": 0, "jackknife": False, "cv": "none"}
H, W = 40, 50
COLUMNS, ROWS = np.meshgrid(np.arange(W), np.arange(H))


def _warmth(year):
    """Warmer by 0.5 a year; colder to the north."""
    relief = np.sin(COLUMNS / 7) + np.cos(ROWS / 5)
    return 8 + 10 * ROWS / H - relief + 0.5 * (year - 2000)


def _rain():
    return 100 + 10 * np.cos(COLUMNS / 9)


def write(path, values, crs="EPSG:4326"):
    from rasterio.transform import from_origin

    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"driver": "GTiff", "height": H, "width": W, "count": 1, "dtype": "float32"}
    with rasterio.open(path, "w", **about, crs=crs, transform=from_origin(10, 50, 0.1, 0.1)) as f:
        f.write(np.asarray(values, np.float32), 1)


def _drawn(rng, per_year):
    """Records of a species that likes 15 degrees, wherever that is in a year."""
    rows = []
    for year in YEARS:
        liked = np.exp(-0.5 * ((_warmth(year) - OPTIMUM) / WIDTH) ** 2).ravel()
        for cell in rng.choice(H * W, per_year(year), p=liked / liked.sum()):
            row, column = divmod(cell, W)
            x, y = 10 + 0.1 * (column + rng.random()), 50 - 0.1 * (row + rng.random())
            rows.append(("Aa bb", round(x, 6), round(y, 6), f"{year}-{rng.integers(1, 13):02d}-15"))
    return pd.DataFrame(rows, columns=["species", "longitude", "latitude", "eventDate"])


@pytest.fixture(scope="module")
def moving(tmp_path_factory):
    """A folder with yearly layers of a climate that moves, and dated records of a species."""
    folder = tmp_path_factory.mktemp("moving")
    for year in YEARS:
        write(folder / "layers" / f"warmth_{year}.tif", _warmth(year))
    write(folder / "layers" / "rain.tif", _rain())
    records = _drawn(np.random.default_rng(1), lambda year: 30)
    records.to_csv(folder / "records.csv", index=False)
    return folder


def _best(result, name="warmth"):
    """Where the response to a variable is highest."""
    (curve,) = (c for c in result.responses if c.variable == name and c.kind == "marginal")
    return float(curve.x[np.argmax(curve.y)])


def _records(dates, source="r.csv"):
    n = len(dates)
    where = np.linspace(10.05, 14.9, n)
    names = np.full(n, "Aa bb", dtype=object)
    return Occurrences(names, where, np.full(n, 48.0), "EPSG:4326", np.arange(2, n + 2), source)


def _said(output):
    return " ".join(output.replace("│", " ").split())


# -- texts and names -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("2003", "2003"),
        ("2003-07", "2003-07"),
        ("2003-07-15", "2003-07-15"),
        ("2003-07-15T23:30:00-05:00", "2003-07-15"),
        ("2003-07-15 23:30:00", "2003-07-15"),
        ("20030715", "2003-07-15"),
        ("2003/7/5", "2003-07-05"),
        ("15 Jul 2003", "2003-07-15"),
        ("July 15, 2003", "2003-07-15"),
        ("July 2003", "2003-07"),
        ("2003-00-00", "2003"),
        ("2003-07-01/2003-08-31", "2003-07 to 2003-08"),
        ("2003-07-03/15", "2003-07-03 to 2003-07-15"),
        ("1999/2003", "1999-2003"),
    ],
)
def test_dates_are_read_however_they_are_written(text, label):
    assert read_date(text).label == label


@pytest.mark.parametrize(
    "text",
    ["", "spring", "2003-13", "2003-02-30", "0000-00-00", "03/04/2005", "2005/2003", "38000"],
)
def test_what_is_no_certain_date_is_none(text):
    assert read_date(text) is None


@pytest.mark.parametrize(
    ("name", "base", "label"),
    [
        ("tmax_2003", "tmax", "2003"),
        ("ndvi_2003-07", "ndvi", "2003-07"),
        ("ndvi_200307", "ndvi", "2003-07"),
        ("ndvi.2003.07.15", "ndvi", "2003-07-15"),
        ("bio_1970-2000", "bio", "1970-2000"),
        ("wc2.1_2.5m_tmax_2003-07", "wc2.1_2.5m_tmax", "2003-07"),
        ("TerraClimate_tmax_2003_2003-07", "TerraClimate_tmax", "2003-07"),
    ],
)
def test_names_of_layers_say_their_time(name, base, label):
    found, span = named_time(name)
    assert (found, span.label) == (base, label)


@pytest.mark.parametrize("name", ["bio_12", "rain", "2003", "band_9999", "tmax_2003-13"])
def test_names_without_a_time_stay_whole(name):
    assert named_time(name) is None


def test_layers_of_one_name_are_a_series():
    found = grouped(["a_2001", "rain", "a_2000", "soil_1999"])
    assert {name: [one.source for one in s] for name, s in found.series.items()} == {
        "a": ["a_2000", "a_2001"]
    }
    assert found.static == ("rain", "soil_1999")
    assert any("soil_1999: one time only" in note for note in found.notes)
    alone = grouped(["a_2050", "rain"], variables=["a", "rain"])
    assert list(alone.series) == ["a"]
    with pytest.raises(ValueError, match="'a' is there twice, or once with times"):
        grouped(["a", "a_2000", "a_2001"])
    with pytest.raises(ValueError, match="a is there twice at 2000: a_2000 and a-2000"):
        grouped(["a_2000", "a-2000", "a_2001"])


def test_a_window_reaches_back_from_the_end():
    def start(text, *day):
        return Span(Length.read(text).before(Span.of(*day).end), Span.of(*day).end).label

    assert start("5y", 2003) == "1999-2003"
    assert start("6m", 2003, 7) == "2003-02 to 2003-07"
    assert start("30 days", 2003, 7, 30) == "2003-07-01 to 2003-07-30"
    with pytest.raises(ValueError, match="window must be years, months or days"):
        species.TimeSettings("auto", window="long")


# -- columns and formats ---------------------------------------------------------------------------


def _in(header, rows, asked="auto"):
    records = _records([None] * len(rows))

    def column(place):
        return {i + 2: row[place] for i, row in enumerate(rows)}

    return dates_in(header, column, asked, records)


def test_columns_of_dates_are_recognised():
    header, rows = ["x", "eventDate", "year"], [["1", "2003-07-15", "1999"]]
    found = _in(header, rows)
    assert found.spans[0].label == "2003-07-15"
    assert found.columns == "'eventDate'"
    assert _in(header, rows, "year").spans[0].label == "1999"
    parts = [["2003", "7", "15"], ["2004", "7", ""], ["2005", "", "3"], ["2006.0", "", ""]]
    found = _in(["year", "month", "day"], parts)
    assert [span.label for span in found.spans] == ["2003-07-15", "2004-07", "2005", "2006"]
    assert "'year' and 'month' and 'day'" in found.notes[0]
    assert _in(["year", "month", "day"], parts, "year").spans[0].label == "2003"
    with pytest.raises(ValueError, match=r"no column of dates recognised among 'when'.*--date-col"):
        _in(["when"], [["2003"]])
    with pytest.raises(ValueError, match="no column 'born', as dates= "):
        _in(["when"], [["2003"]], "born")


def test_mixed_formats_are_read_where_they_are_certain():
    found = _in(["date"], [["2003-07-15"], ["15 Jul 2003"], ["25/07/2003"], ["04/07/2003"]])
    assert [s.label for s in found.spans] == ["2003-07-15"] * 2 + ["2003-07-25", "2003-07-04"]
    assert any("written in" in note for note in found.notes)
    assert any("day first (25/07/2003), as 1 of them can only be" in n for n in found.notes)
    american = _in(["date"], [["07/25/2003"], ["07/04/2003"]])
    assert [s.label for s in american.spans] == ["2003-07-25", "2003-07-04"]
    with pytest.raises(ValueError, match=r"mixed formats of dates: '25/07/2003' in row 2"):
        _in(["date"], [["25/07/2003"], ["07/26/2003"]])
    unclear = _in(["date"], [["04/07/2003"], ["05/05/2003"]])
    assert [s.label for s in unclear.spans] == ["2003", "2003-05-05"]
    assert any("may have the day or the month first" in note for note in unclear.notes)


def test_what_cannot_be_read_is_told():
    found = _in(["date"], [["spring 03"], [""], ["2003"], ["2003-12-31T23:59-09:00"]])
    assert [s and s.label for s in found.spans] == [None, None, "2003", "2003-12-31"]
    assert any("1 dates cannot be read and count as none (row 2: 'spring 03')" in n
               for n in found.notes)  # fmt: skip
    assert "the day as written counts, whatever the time and zone" in found.notes[0]
    with pytest.raises(ValueError, match=r"no date could be read in 'date' \(row 2: 'soon'\)"):
        _in(["date"], [["soon"]])


def test_dates_of_numpy_and_pandas_are_those_of_text():
    records = _records([None] * 3)
    days = np.array(["2003-07-15", "NaT", "2004-01-01"], "datetime64[D]")
    for values in (days, pd.Series(days), ["2003-07-15", None, "2004-01-01"]):
        spans = dates_given(values, records).spans
        assert [s and s.label for s in spans] == ["2003-07-15", None, "2004-01-01"]
    assert [s and s.label for s in dates_given([2003, np.nan, 2004], records).spans] == [
        "2003", None, "2004",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="dates= has 2 entries for 3 records"):
        dates_given([2003, 2004], records)


# -- matching --------------------------------------------------------------------------------------


def _monthly():
    """Values that say their year and month; a layer of two epochs; one without time."""
    times = pd.date_range("2000-01-01", "2003-12-01", freq="MS")
    value = np.array([t.year + t.month / 100 for t in times])
    shape = (len(times), 4, 5)
    axes = {"y": np.arange(4)[::-1] + 0.5, "x": np.arange(5) + 0.5}
    return xarray.Dataset(
        {
            "heat": (("time", "y", "x"), np.broadcast_to(value[:, None, None], shape)),
            "still": (("y", "x"), np.ones(shape[1:])),
        },
        {"time": times, **axes},
    )


def _value(layers, step):
    with layers.at(step) as opened:
        table, known = opened.read_cells(np.array([3]))
        assert known.all()
        assert (table["still"] == 1).all()
        return float(table["heat"].iloc[0])


def _layers(window=None):
    opened = Layers.from_xarray(_monthly())
    return DatedLayers.from_layers(opened, None if window is None else Length.read(window))


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        ("2001-03-02", 2001.03),
        ("2001-03", 2001.03),
        ("2001", 2001 + 6.5 / 100),  # the mean of its twelve months
        ("2001-03/2001-04", 2001.035),
        ("2000-01-01", 2000.01),
        ("2003-12-31", 2003.12),
    ],
)
def test_each_date_has_the_values_of_its_time(date, expected):
    layers = _layers()
    assert _value(layers, layers.step(read_date(date))) == pytest.approx(expected)


def test_a_window_is_the_mean_up_to_the_time():
    layers = _layers("3m")
    step = layers.step(read_date("2001-03-09"))
    assert step.label == "2001-03"
    assert _value(layers, step) == pytest.approx((2001.01 + 2001.02 + 2001.03) / 3)
    assert _value(layers, layers.step(read_date("2000-01"))) == pytest.approx(2000.01)


def test_gaps_take_the_nearest_time():
    opened = Layers.from_xarray(_monthly().isel(time=[0, 12, 13, 47]))
    layers = DatedLayers.from_layers(opened)
    made = matched(
        _records([0] * 3), _dates("2000-04-01", "2002-12-01", "2001-01-20"), layers,
        species.TimeSettings("auto"),
    )  # fmt: skip
    assert [made.steps[i].label for i in made.records.step] == ["2000-01", "2003-12", "2001-01"]
    assert any("2 records take the nearest time of heat, up to 364 days" in n for n in made.notes)


def _dates(*texts):
    return dates_given(list(texts), _records(texts))


def test_records_without_a_time_are_dropped_kept_or_refused():
    layers, dates = _layers(), _dates("2001-03-02", "", "1990", "2004-05-01")
    records = _records([0] * 4)
    made = matched(records, dates, layers, species.TimeSettings("auto"))
    assert made.records.step.tolist() == [0, NO_DATE, NO_TIME, NO_TIME]
    assert any("1 records have no date that can be read, left out" in note for note in made.notes)
    assert any("2 records have a date outside 2000-2003" in note for note in made.notes)
    kept = species.TimeSettings("auto", undated="mean", outside_times="nearest")
    made = matched(records, dates, layers, kept)
    assert [made.steps[i].label for i in made.records.step] == [
        "2001-03", "all times", "2000-01", "2003-12",
    ]  # fmt: skip
    every = np.mean([2000 + y + m / 100 for y in range(4) for m in range(1, 13)])
    assert _value(layers, made.steps[1]) == pytest.approx(every)
    with pytest.raises(ValueError, match="1 records are without a date, the first row 3"):
        matched(records, dates, layers, species.TimeSettings("auto", undated="refuse"))
    with pytest.raises(ValueError, match=r"2 records are outside 2000-2003.*first row 4, 1990"):
        matched(records, dates, layers, species.TimeSettings("auto", outside_times="refuse"))
    with pytest.raises(ValueError, match="no record has a date within the times of the layers"):
        matched(_records([0]), _dates("1990"), layers, species.TimeSettings("auto"))


def test_layers_must_have_times_in_common():
    with pytest.raises(ValueError, match="no layer has times"):
        DatedLayers.from_layers(Layers.from_xarray(_monthly()[["still"]])).check_dated()
    both = _monthly()[["heat"]].isel(time=slice(0, 3))
    opened = [
        *Layers.from_xarray(both).sources,
        *Layers.from_xarray(
            _monthly()[["heat"]].isel(time=slice(20, 23)).rename(heat="cold")
        ).sources,
    ]
    with pytest.raises(ValueError, match="no time in common: heat 2000-01 to 2000-03, cold"):
        _ = DatedLayers.from_layers(Layers(opened)).span


def test_categories_are_never_averaged():
    data = _monthly().rename(heat="cover")
    data["cover"] = data["cover"].round().astype(int)
    opened = Layers.from_xarray(data)
    layers = DatedLayers.from_layers(opened, Length.read("2y"), ["cover"])
    assert all(len(chosen) == 1 for step in layers.steps() for chosen in step.slices)
    assert any("categories have no mean" in note for note in layers.notes)


# -- fits ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted(moving, tmp_path_factory):
    from typer.testing import CliRunner

    from maxent import cli

    out = tmp_path_factory.mktemp("dated") / "out"
    args = ["fit", moving / "records.csv", moving / "layers", "--date-column", "auto", *FAST]
    done = CliRunner().invoke(cli.main, [str(a) for a in [*args, "--background", 2000, "-o", out]])
    assert done.exit_code == 0, done.output
    return out, _said(done.output)


def test_the_response_is_found_with_dates_and_not_without(moving, fitted):
    dated = mx.load(fitted[0] / "result.json")
    assert abs(_best(dated) - OPTIMUM) < 0.5
    of_today = [moving / "layers" / "rain.tif", moving / "layers" / "warmth_2012.tif"]
    undated = species.fit(moving / "records.csv", of_today, background=2000, **QUICK)
    assert abs(_best(undated, "warmth_2012") - OPTIMUM) > 1.5
    assert dated.evaluation.scores["auc"] > undated.evaluation.scores["auc"] + 0.05


def test_the_command_says_what_it_did_with_time(fitted):
    out, said = fitted
    assert "dates of 390 of 390 records from 'eventDate', 390 to the day" in said
    assert "warmth: a layer at 13 times, 2000, 2001, 2002, 2003 ... 2012" in said
    assert "background: 2000 cells drawn in time like the records, at 13 times" in said
    timing = mx.load(out / "model.json").timing
    assert (timing.series, timing.static) == ({"warmth": 13}, ("rain",))
    assert (timing.start, timing.end, timing.columns) == ("2000", "2012", "'eventDate'")
    report = (out / "report.html").read_text()
    assert "Over time" in report
    assert "Each record has the layers of its own time (nearest time)" in report
    odmap = (out / "tables" / "odmap.csv").read_text()
    assert "Temporal extent,2000 to 2012" in odmap
    assert "warmth at 13 times" in odmap


def test_python_gives_the_numbers_of_the_command(moving, fitted):
    result = mx.load(fitted[0] / "result.json")
    how = {"background": 2000, **QUICK}
    frame = pd.read_csv(moving / "records.csv")
    for records, dates in (
        (moving / "records.csv", "auto"),
        (frame, "eventDate"),
        (Occurrences.from_frame(frame), frame["eventDate"]),
    ):
        other = species.fit(records, moving / "layers", dates=dates, **how)
        assert other.model.coef == result.model.coef
    values = np.stack([_warmth(year) for year in YEARS]).astype(np.float32)
    data = xarray.Dataset(
        {"rain": (("y", "x"), _rain().astype(np.float32)), "warmth": (("t", "y", "x"), values)},
        {
            "t": pd.to_datetime([f"{year}-07-01" for year in YEARS]),
            "y": 50 - 0.1 * (np.arange(H) + 0.5),
            "x": 10 + 0.1 * (np.arange(W) + 0.5),
        },
    ).rio.write_crs("EPSG:4326")
    other = species.fit(frame, data, dates="eventDate", **how)
    assert other.model.coef == pytest.approx(result.model.coef)


def test_background_in_time_is_that_of_the_records_or_uniform(moving, tmp_path):
    early = _drawn(np.random.default_rng(2), lambda year: 40 if year < 2004 else 5)
    early.to_csv(tmp_path / "r.csv", index=False)
    how = {"background": 1300, **QUICK}
    like = species.fit(tmp_path / "r.csv", moving / "layers", dates="auto", **how).timing
    total = sum(step["records"] for step in like.steps)
    for step in like.steps:
        assert step["background"] == pytest.approx(1300 * step["records"] / total, abs=1)
    times = species.TimeSettings("auto", background_times="uniform")
    even = species.fit(tmp_path / "r.csv", moving / "layers", times=times, **how).timing
    assert {step["background"] for step in even.steps} == {100}
    group = species.fit(tmp_path / "r.csv", moving / "layers", dates="auto",
                        group=moving / "records.csv", **how)  # fmt: skip
    assert group.timing.background == "target group"
    counts = np.array([step["background"] for step in group.timing.steps])
    assert ((counts > 15) & (counts <= 30)).all()  # 30 records a year, some in one cell


@pytest.mark.parametrize("per_cell", [0, 1 << 30])
def test_background_is_even_over_the_known_cells_of_each_time(
    moving, tmp_path, monkeypatch, per_cell
):
    """In a pass over a grid, and of a large one cell by cell."""
    from maxent.species.study import in_time

    monkeypatch.setattr(in_time, "_PER_CELL", per_cell)
    for year in YEARS:
        values = _warmth(year)
        values[:, : W // 2] = np.nan if year == 2003 else values[:, : W // 2]
        write(tmp_path / "layers" / f"warmth_{year}.tif", values)
    files = species.LayerFiles((str(tmp_path / "layers"),))
    times = species.TimeSettings("auto")
    frame = pd.read_csv(moving / "records.csv")
    with DatedLayers.open(files, times) as layers:
        records = Occurrences.from_frame(frame)
        dates = dates_given(frame["eventDate"], records)
        (placed,), timed, _ = in_time.with_steps([(records, dates)], layers, times)
        settings = species.Settings(background=1300, verbose=0)
        found = in_time.cells_in_time(timed, placed.cells(layers.grid), settings)
    step, cell = np.divmod(found.cell[found.background], H * W)
    assert np.bincount(step).tolist() == [100] * len(YEARS)
    assert (cell[step == 3] % W >= W // 2).all()
    assert len(set(found.cell)) == len(found.cell)
    others = cell[step != 3] % W < W // 2
    assert abs(others.mean() - 0.5) < 4 * 0.5 / np.sqrt(others.size)
    year = step + YEARS[0]
    expected = [_warmth(y).ravel()[c] for y, c in zip(year, cell, strict=True)]
    np.testing.assert_allclose(found.X["warmth"][found.background], expected, rtol=1e-6)


def test_years_of_more_records_do_not_bias_the_response(moving, tmp_path):
    """Effort that grows with time: like the records it cancels, uniformly it does not."""
    late = _drawn(np.random.default_rng(3), lambda year: 4 + 8 * (year - 2000))
    late.to_csv(tmp_path / "r.csv", index=False)
    how = {"background": 3000, **QUICK}
    like = species.fit(tmp_path / "r.csv", moving / "layers", dates="auto", **how)
    assert abs(_best(like) - OPTIMUM) < 0.5


def test_cells_are_of_a_place_and_a_time(moving, tmp_path):
    """One place recorded in three years, twice in one of them: three rows."""
    frame = pd.read_csv(moving / "records.csv").iloc[:60]
    same = frame.iloc[[0] * 4].assign(eventDate=["2000", "2005", "2005-03-01", "2012"])
    pd.concat([frame.iloc[1:], same]).to_csv(tmp_path / "r.csv", index=False)
    result = species.fit(tmp_path / "r.csv", moving / "layers", dates="auto", background=500,
                         **QUICK)  # fmt: skip
    at = np.isclose(result.records["x"], frame["longitude"].iloc[0])
    assert at.sum() == 3
    assert len(set(result.records["step"][at])) == 3


# -- files -----------------------------------------------------------------------------------------


def test_a_table_says_what_names_do_not(moving, tmp_path, run):
    lines = ["layer,file,start,end", f"rain,{moving}/layers/rain.tif,,"]
    for year in YEARS:
        write(tmp_path / f"w{year % 100}.tif", _warmth(year))
        lines.append(f"warmth,w{year % 100}.tif,{year}-01-01,{year}-12-31")
    (tmp_path / "times.csv").write_text("\n".join(lines) + "\n")
    rows = read_times(str(tmp_path / "times.csv"))
    assert rows[1].span.label == "2000"
    done = run("fit", moving / "records.csv", "--date-column", "eventDate",
               "--layer-times", tmp_path / "times.csv", *FAST, "--background", 2000,
               "--no-maps", "-o", tmp_path / "out")  # fmt: skip
    assert done.exit_code == 0, done.output
    same = species.fit(moving / "records.csv", moving / "layers", dates="auto",
                       background=2000, **QUICK)  # fmt: skip
    assert mx.load(tmp_path / "out" / "result.json").model.coef == pytest.approx(same.model.coef)
    bad = {"warmth,w0.tif,soon,": "'soon' is no date", "warmth,,2000,": "no layer or no file",
           "warmth,w0.tif,2003,2001": "it ends"}  # fmt: skip
    for line, why in bad.items():
        (tmp_path / "bad.csv").write_text(f"layer,file,start,end\n{line}\n")
        with pytest.raises(ValueError, match=why):
            read_times(str(tmp_path / "bad.csv"))
    (tmp_path / "bad.csv").write_text("name,path\na,b\n")
    with pytest.raises(ValueError, match="headings layer, file, start"):
        read_times(str(tmp_path / "bad.csv"))


def test_the_time_axis_of_a_netcdf_is_read(tmp_path, moving):
    needs("scipy")
    values = np.stack([_warmth(year) for year in YEARS])
    data = xarray.Dataset(
        {"warmth": (("time", "lat", "lon"), values)},
        {
            "time": ("time", [365.25 * (y - 1970) + 180 for y in YEARS],
                     {"units": "days since 1970-01-01", "calendar": "standard"}),
            "lat": ("lat", 50 - 0.1 * (np.arange(H) + 0.5), {"units": "degrees_north"}),
            "lon": ("lon", 10 + 0.1 * (np.arange(W) + 0.5), {"units": "degrees_east"}),
        },
    )  # fmt: skip
    data.to_netcdf(tmp_path / "warmth.nc", engine="scipy")
    write(tmp_path / "rain.tif", _rain())
    result = species.fit(moving / "records.csv", [tmp_path / "warmth.nc", tmp_path / "rain.tif"],
                         dates="auto", background=2000, **QUICK)  # fmt: skip
    assert result.timing.series == {"warmth": 13}
    assert abs(_best(result) - OPTIMUM) < 0.5


def test_layers_that_look_dated_are_told_without_dates(moving, tmp_path, run):
    files = [moving / "layers" / f"warmth_{year}.tif" for year in (2000, 2001)]
    done = run("fit", moving / "records.csv", *files, *FAST, "--no-maps", "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "warmth_2000, warmth_2001 look like times of one layer" in _said(done.output)


def test_several_species_test_records_effort_and_regions(moving, tmp_path, run):
    """What a fit has besides, in time: each species around its own records."""
    frame = pd.read_csv(moving / "records.csv")
    other = frame.assign(species="Cc dd", eventDate=frame["eventDate"].str[:4])
    pd.concat([frame, other.iloc[::2]]).to_csv(tmp_path / "many.csv", index=False)
    frame.iloc[::5].to_csv(tmp_path / "test.csv", index=False)
    write(tmp_path / "effort.tif", 1 + COLUMNS)
    layers = [moving / "layers", "--date-column", "auto"]
    how = [*FAST, "--no-maps", "--background", 400]
    done = run("fit", tmp_path / "many.csv", *layers, *how, "--buffer", 100,
               "-o", tmp_path / "near")  # fmt: skip
    assert done.exit_code == 0, done.output
    near = mx.load(tmp_path / "near" / "Cc_dd" / "result.json")
    assert near.study is not None
    assert near.timing.series == {"warmth": 13}
    assert abs(_best(near) - OPTIMUM) < 1
    for bias_as in ("background", "prior"):
        done = run("fit", moving / "records.csv", *layers, *how, "--test", tmp_path / "test.csv",
                   "--bias", tmp_path / "effort.tif", "--bias-as", bias_as,
                   "-o", tmp_path / bias_as)  # fmt: skip
        assert done.exit_code == 0, done.output
        result = mx.load(tmp_path / bias_as / "result.json")
        assert result.evaluation.test_scores["auc"] > 0.7
        assert result.records["step"].size == result.records["x"].size
        table = pd.read_csv(tmp_path / bias_as / "tables" / result.tables["sample_predictions"][7:])
        assert len(table) == result.records["x"].size


def test_predictions_of_records_are_those_of_their_time(fitted):
    """A place that is recorded in two years has the prediction of each."""
    out, _ = fitted
    result = mx.load(out / "result.json")
    table = pd.read_csv(out / result.tables["sample_predictions"])
    label = {step["step"]: step["label"] for step in result.timing.steps}
    maps = {step: _read(out / "times" / name / "cloglog.tif") for step, name in label.items()}
    row = np.floor((50 - result.records["y"]) / 0.1).astype(int)
    column = np.floor((result.records["x"] - 10) / 0.1).astype(int)
    expected = [maps[s][r, c] for s, r, c in zip(result.records["step"], row, column, strict=True)]
    np.testing.assert_allclose(table["Cloglog prediction"], expected, atol=1e-6)


def test_checking_tells_the_fate_of_every_date(moving, tmp_path, run):
    frame = pd.read_csv(moving / "records.csv")
    frame.loc[:3, "eventDate"] = ["", "1990", "2005", "soon"]
    frame.to_csv(tmp_path / "r.csv", index=False)
    lines = ["layer,file,start", f"rain,{moving}/layers/rain.tif,"]
    lines += [f"warmth,{moving}/layers/warmth_{year}.tif,{year}" for year in YEARS]
    (tmp_path / "times.csv").write_text("\n".join(lines) + "\n")
    for given in ([moving / "layers"], ["--layer-times", tmp_path / "times.csv"]):
        done = run("check", tmp_path / "r.csv", *given, "--date-column", "eventDate",
                   "-o", tmp_path / "fates.csv", "--overwrite")  # fmt: skip
        assert done.exit_code == 0, done.output
        assert "warmth_2012" in done.output
        assert "layers with times are shown at their last time" in _said(done.output)
        fates = pd.read_csv(tmp_path / "fates.csv").set_index("row")["fate"]
        assert fates[2] == fates[5] == "without a date"
        assert fates[3] == "outside the times of the layers"
        assert fates[4] == "used"


# -- maps ------------------------------------------------------------------------------------------


def _read(path):
    with rasterio.open(path) as file:
        return file.read(1)


def test_every_time_has_a_map_and_the_trend_is_their_slope(fitted):
    out, _ = fitted
    result = mx.load(out / "result.json")
    found = result.over_time
    maps = [_read(out / found.files[f"map:{year}"]) for year in YEARS]
    years = np.array([row["year"] for row in found.rows])
    slopes = np.polyfit(years - years.mean(), np.stack(maps).reshape(len(maps), -1), 1)[0]
    np.testing.assert_allclose(_read(out / "times" / "trend.tif").ravel(), slopes, atol=1e-6)
    area = [row["suitable_km2"] for row in found.rows]
    assert found.slopes["suitable_km2"] == pytest.approx(np.polyfit(years, area, 1)[0])
    table = pd.read_csv(out / "times" / "times.csv")
    assert table["time"].tolist() == list(YEARS)
    np.testing.assert_allclose(table["mean"], [m.mean() for m in maps], rtol=1e-6)
    np.testing.assert_array_equal(maps[-1], _read(out / "maps" / "cloglog.tif"))
    cut = found.threshold
    assert table["suitable"].tolist() == [int((m >= np.float32(cut)).sum()) for m in maps]


def test_projecting_a_fit_in_time_draws_every_time(fitted, moving, tmp_path, run):
    out, _ = fitted
    done = run("project", out, moving / "layers", "-o", tmp_path / "p", "--no-similarity")
    assert done.exit_code == 0, done.output
    assert "suitable area changes by" in _said(done.output)
    for year in (2000, 2012):
        np.testing.assert_array_equal(
            _read(tmp_path / "p" / str(year) / "cloglog.tif"),
            _read(out / "times" / str(year) / "cloglog.tif"),
        )
    assert (tmp_path / "p" / "times.svg").read_text().startswith("<svg")
    again = run("project", out, moving / "layers", "-o", tmp_path / "p", "--no-similarity")
    assert again.exit_code == 1
    assert "--overwrite" in again.output
    single = run("project", out, moving / "layers", "-o", tmp_path / "p.tif")
    assert single.exit_code == 2
    assert "have 13 times, and each gets a map: give a folder" in _said(single.output)


def test_a_fit_in_time_is_projected_to_one_time(fitted, moving, tmp_path, run):
    out, _ = fitted
    for folder, name in (("far", "warmth_2050.tif"), ("plain", "warmth.tif")):
        write(tmp_path / folder / name, _warmth(2006))
        write(tmp_path / folder / "rain.tif", _rain())
        done = run("project", out, tmp_path / folder, "-o", tmp_path / f"{folder}-out")
        assert done.exit_code == 0, done.output
    expected = _read(out / "times" / "2006" / "cloglog.tif")
    np.testing.assert_array_equal(_read(tmp_path / "plain-out" / "cloglog.tif"), expected)
    np.testing.assert_array_equal(_read(tmp_path / "far-out" / "2050" / "cloglog.tif"), expected)
    bad = run("project", out, moving / "layers" / "rain.tif", "-o", tmp_path / "bad")
    assert bad.exit_code == 1
    assert "no layer 'warmth' among rain" in _said(bad.output)


def test_change_compares_times(fitted, tmp_path, run):
    out, _ = fitted
    done = run("change", out, "-o", tmp_path / "change")
    assert done.exit_code == 0, done.output
    assert "from 2000 to 2012" in _said(done.output)
    rows = pd.read_csv(tmp_path / "change" / "range_change.csv")
    found = mx.load(out / "result.json").over_time.rows
    before, after = (rows["kept_km2"] + rows[f"{what}_km2"] for what in ("lost", "gained"))
    assert before[0] == pytest.approx(found[0]["suitable_km2"], rel=1e-6)
    assert after[0] == pytest.approx(found[-1]["suitable_km2"], rel=1e-6)
    picked = run("change", out, "--time", 2003, "--time", 2001, "--time", 2009,
                 "-o", tmp_path / "three")  # fmt: skip
    assert picked.exit_code == 0, picked.output
    assert pd.read_csv(tmp_path / "three" / "range_change.csv")["scenario"].tolist() == [2001, 2009]
    for args, why in (
        ((out, "--time", 1999, "--time", 2000), "no map of '1999'; it has 2000"),
        ((out, "--time", 2000), "two different times or more"),
    ):
        bad = run("change", *args, "-o", tmp_path / "bad")
        assert bad.exit_code == 1
        assert why in _said(bad.output)


@pytest.fixture(scope="module")
def banded(moving, tmp_path_factory):
    """A fit in time with intervals."""
    from typer.testing import CliRunner

    from maxent import cli

    out = tmp_path_factory.mktemp("banded") / "out"
    args = ["fit", moving / "records.csv", moving / "layers", "--date-column", "auto", *FAST]
    asked = ["--background", 1000, "--intervals", "laplace", "--threshold", "0.5", "-o", out]
    done = CliRunner().invoke(cli.main, [str(a) for a in [*args, *asked]])
    assert done.exit_code == 0, done.output
    return out


def _drawn_maps(out, years):
    """Cloglog of the drawn maps of some times, (times, cells, maps), by the formula."""
    from maxent.species.fitting.model import load_model
    from maxent.species.judging import bands

    density = load_model(out).density
    found = []
    for year in years:
        rows = np.column_stack([_warmth(year).ravel(), _rain().ravel()]).astype(np.float32)
        table = pd.DataFrame(rows, columns=["warmth", "rain"])[list(density.schema.names)]
        cells = density.schema.read(table)
        eta = density.uncertainty.exponents(density, cells, bands.DRAWS, bands._SEED, True)
        found.append(-np.expm1(-np.exp(eta)))
    return np.array(found)


def test_trends_have_intervals(banded, moving, tmp_path, run):
    found = mx.load(banded / "result.json").over_time
    low, trend, high = (
        _read(banded / "times" / f"{name}.tif") for name in ("trend_lower", "trend", "trend_upper")
    )
    assert (low <= trend).all()
    assert (trend <= high).all()
    drawn, years = _drawn_maps(banded, YEARS), np.array([row["year"] for row in found.rows])
    slopes = np.polyfit(years - years.mean(), drawn.reshape(len(years), -1), 1)[0]
    ends = np.quantile(slopes.reshape(drawn.shape[1:]), (0.05, 0.95), axis=1)
    np.testing.assert_allclose(low.ravel(), np.minimum(ends[0], trend.ravel()), atol=1e-5)
    np.testing.assert_allclose(high.ravel(), np.maximum(ends[1], trend.ravel()), atol=1e-5)
    sure = [float((low > 0).mean()), float((high < 0).mean())]
    assert [found.slopes["surely_rising"], found.slopes["surely_falling"]] == pytest.approx(sure)
    means = np.polyfit(years - years.mean(), drawn.mean(axis=1), 1)[0]
    assert found.ends["mean"] == pytest.approx(np.quantile(means, (0.05, 0.95)), rel=1e-4)
    least, most = found.ends["suitable_km2"]
    assert least < found.slopes["suitable_km2"] < most
    assert f"({least:+,.0f} to {most:+,.0f})" in found.describe()
    assert "by their whole interval" in (banded / "report.html").read_text()
    assert found.files["trend_lower"] == "times/trend_lower.tif"
    with rasterio.open(banded / "times" / "trend_lower.tif") as file:
        assert file.tags()["LEVEL"] == "0.9"
    plain = run("project", banded, moving / "layers", "-o", tmp_path / "p", "--no-intervals",
                "--no-similarity")  # fmt: skip
    assert plain.exit_code == 0, plain.output
    assert (tmp_path / "p" / "trend.tif").exists()
    assert not (tmp_path / "p" / "trend_lower.tif").exists()


def test_change_of_times_has_intervals(banded, moving, tmp_path, run):
    times = ["--time", 2001, "--time", 2009, "--time", 2012]
    done = run("change", banded, *times, "-o", tmp_path / "change")
    assert done.exit_code == 0, done.output
    rows = pd.read_csv(tmp_path / "change" / "range_change.csv")
    assert rows["scenario"].tolist() == [2009, 2012]
    assert (rows["change_percent_low"] <= rows["change_percent"]).all()
    assert (rows["change_percent"] <= rows["change_percent_high"]).all()
    first, last = (maps >= 0.5 for maps in _drawn_maps(banded, (2001, 2012)))
    with rasterio.open(tmp_path / "change" / "change_2012.tif") as file:
        areas = cell_areas(Grid(file.crs.to_wkt(), tuple(file.transform)[:6], W, H))
    km2 = areas.read(Window(0, 0, H, W)).ravel()
    lost = np.quantile(km2 @ (first & ~last), (0.05, 0.95))
    assert rows["lost_km2_low"][1] == pytest.approx(min(lost[0], rows["lost_km2"][1]), rel=1e-6)
    assert rows["lost_km2_high"][1] == pytest.approx(max(lost[1], rows["lost_km2"][1]), rel=1e-6)
    (moving / "layers" / "warmth_2012.tif").rename(tmp_path / "away.tif")
    try:
        done = run("change", banded, *times, "-o", tmp_path / "again")
    finally:
        (tmp_path / "away.tif").rename(moving / "layers" / "warmth_2012.tif")
    assert done.exit_code == 0, done.output
    assert "intervals of the change are not known" in _said(done.output)
    assert "lost_km2_low" not in pd.read_csv(tmp_path / "again" / "range_change.csv")


def test_one_time_is_open_at_once(moving, monkeypatch):
    from maxent.species.input.layers import sources

    opened, most = set(), []
    real_dataset, real_close = sources._File.dataset, sources._File.close

    def dataset(self):
        opened.add(self.path)
        most.append(sum("warmth" in path for path in opened))
        return real_dataset(self)

    def close(self):
        opened.discard(self.path)
        return real_close(self)

    files = species.LayerFiles((str(moving / "layers"),))
    layers = DatedLayers.open(files, species.TimeSettings("auto"))
    layers.close()
    monkeypatch.setattr(sources._File, "dataset", dataset)
    monkeypatch.setattr(sources._File, "close", close)
    for step in layers.steps():
        with layers.at(step) as here:
            here.read_cells(np.arange(10))
    assert max(most) == 1


# -- bad input -------------------------------------------------------------------------------------


def test_options_of_time_need_dates(moving, tmp_path, run):
    for args in (["--window", "5y"], ["--undated", "mean"], ["--background-times", "uniform"]):
        done = run("fit", moving / "records.csv", moving / "layers", *args, "-o", tmp_path / "x")
        assert done.exit_code == 2, done.output
        assert re.search(rf"{args[0]} has no effect without the dates", _said(done.output))


def test_what_cannot_be_done_in_time_is_refused(moving, tmp_path, run):
    def why(*args, layers=moving / "layers"):
        done = run("fit", moving / "records.csv", layers, "--date-column", "auto", *FAST, *args,
                   "-o", tmp_path / "x")  # fmt: skip
        assert done.exit_code != 0
        return _said(done.output)

    assert "every cell at every time is no background" in why("--background", "all")
    assert "no layer has times, which the dates" in why(layers=moving / "layers" / "rain.tif")
    assert "no column 'born', as dates= (--date-column)" in why("--date-column", "born")
    pd.read_csv(moving / "records.csv").assign(eventDate="1990").to_csv(tmp_path / "old.csv")
    done = run("fit", tmp_path / "old.csv", moving / "layers", "--date-column", "auto", *FAST,
               "-o", tmp_path / "x")  # fmt: skip
    assert "no record has a date within the times of the layers, 2000-2012" in _said(done.output)


def test_swd_tables_have_no_times(moving, tmp_path, run):
    done = run("fit", moving / "records.csv", moving / "records.csv", "--swd",
               "--date-column", "auto", "-o", tmp_path / "x")  # fmt: skip
    assert done.exit_code == 2
    assert "--date-column has no effect with --swd" in _said(done.output)


def test_resuming_knows_what_was_asked_of_time(moving, tmp_path, run):
    args = ["fit", moving / "records.csv", moving / "layers", "--date-column", "auto", *FAST,
            "--no-maps", "-o", tmp_path / "out"]  # fmt: skip
    assert run(*args).exit_code == 0
    before = json.loads((tmp_path / "out" / "summary.json").read_text())["fingerprint"]
    done = run(*args, "--window", "2y", "--resume")
    assert done.exit_code == 1
    assert "come from other settings" in _said(done.output)
    assert run(*args, "--window", "2y", "--overwrite").exit_code == 0
    after = json.loads((tmp_path / "out" / "summary.json").read_text())["fingerprint"]
    assert before != after
