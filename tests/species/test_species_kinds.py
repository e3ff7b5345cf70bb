"""`maxent fit --survey --counts --kind`: presences, surveys and counts in one fit; bad input."""

import csv
import shutil

import numpy as np
import pandas as pd
import pytest

from maxent import cli, io, species
from maxent.datasets import virtual_landscape, virtual_visits, write_landscape
from maxent.species.fitting.kinds import check_kinds
from maxent.species.fitting.model import load_model
from maxent.species.fitting.results import read_result
from maxent.species.fitting.settings import Settings
from maxent.species.input.records.site_records import read_sites
from maxent.species.input.records.sizes import size_column
from maxent.species.input.source_settings import SourceSettings
from tools import needs

rasterio = needs("rasterio")

pytestmark = pytest.mark.usefixtures("sketches")

FAST = ["--permutations", "0", "--cv", "none", "-f", "lq"]
NAME = "Arbor fictus"
PER_KM2 = 2.0


@pytest.fixture(scope="module")
def call():
    from typer.testing import CliRunner

    return lambda *args: CliRunner().invoke(
        cli.main, [str(a) for a in args], env={"COLUMNS": "200"}
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Layers, presences along roads, a survey and counts, of a species that is known."""
    folder = tmp_path_factory.mktemp("kinds")
    island = virtual_landscape(height=40, width=52, n_occurrences=120, seed=2)
    write_landscape(island, folder)
    visits = virtual_visits(island, 400, 80, PER_KM2, seed=3)
    visits.write(folder)
    return folder, island, visits


@pytest.fixture(scope="module")
def fitted(files, call):
    """The results of all three kinds together."""
    folder = files[0]
    out = folder / "out"
    args = [folder / "occurrences.csv", folder / "layers", "-c", "biome"]
    args += ["--survey", folder / "sites.csv", "--counts", folder / "transects.csv"]
    args += ["--background-records", folder / "target_group.csv", "--output", "count"]
    args += ["--area", "0.25", "--permutations", "2", "-f", "lqc", "-o", out]
    done = call("fit", *args)
    assert done.exit_code == 0, done.output
    return out, done


def _table(files, name):
    return pd.read_csv(files[0] / name)


def _fails(call, files, *args):
    folder = files[0]
    done = call("fit", *args, folder / "layers", "-c", "biome", "-o", folder / "bad", *FAST)
    assert done.exit_code != 0, done.output
    assert not (folder / "bad").exists()
    return " ".join(done.output.replace("│", " ").split())


def _written(files, table, name):
    path = files[0] / name
    table.to_csv(path, index=False)
    return path


# -- all kinds together ----------------------------------------------------------------------------


def test_the_intensity_is_near_the_truth(files, fitted):
    out, _ = fitted
    with rasterio.open(out / "maps" / "intensity.tif") as file:
        intensity, tags = file.read(1), file.tags()
    truth = files[2].intensity
    known = np.isfinite(intensity) & np.isfinite(truth)
    assert tags["PER"] == "km2"
    assert np.corrcoef(intensity[known], truth[known])[0, 1] > 0.8
    assert intensity[known].mean() == pytest.approx(truth[known].mean(), rel=0.25)


def test_maps_are_of_one_intensity_and_the_area_asked_for(fitted):
    maps = {}
    for what in ("intensity", "probability", "count"):
        with rasterio.open(fitted[0] / "maps" / f"{what}.tif") as file:
            maps[what] = file.read(1)
            tags = file.tags()
    assert tags["AREA"] == "0.25 km2"
    np.testing.assert_allclose(maps["count"], 0.25 * maps["intensity"], rtol=1e-5)
    np.testing.assert_allclose(maps["probability"], -np.expm1(-maps["count"]), rtol=1e-4)


def test_the_expected_number_is_the_sum_over_the_map(fitted):
    from maxent.species.input.layers.geodesy import cell_areas
    from maxent.species.input.layers.grid import Window

    result = read_result(fitted[0])
    with rasterio.open(fitted[0] / "maps" / "intensity.tif") as file:
        intensity = file.read(1)
    grid = result.grid
    km2 = cell_areas(grid).read(Window(0, 0, grid.height, grid.width))
    assert result.maps[0].expected == pytest.approx(np.nansum(intensity * km2), rel=1e-5)


def test_everything_assumed_is_said(fitted):
    said = " ".join(fitted[1].output.split())
    assert "sites.csv: areas in ha, from column 'area_ha'" in said
    assert "transects.csv: areas in km2, from column 'area_km2'" in said
    assert "presence from 'presence'" in said
    assert "counts from 'count'" in said
    assert "The intensity is absolute, per km2, by sites.csv and transects.csv" in said
    assert "The sources agree" in said


def test_report_and_odmap_name_every_source(fitted):
    page = (fitted[0] / "report.html").read_text()
    assert 'id="kinds"' in page
    with open(fitted[0] / "tables" / "odmap.csv", newline="") as file:
        rows = {(r["subsection"], r["element"]): r["Value"] for r in csv.DictReader(file)}
    for name in ("presences", "sites.csv", "transects.csv"):
        assert name in page
        assert name in rows["Biodiversity data", "Response data type"]
        assert name in rows["Data partitioning", "Training data"]
    assert "visits in vain" in rows["Biodiversity data", "Absence data"]
    assert "intensity per km2" in rows["Prediction output", "Prediction unit"]


def test_the_gain_is_that_of_the_presences(fitted):
    """Not of the likelihood of all sources: ln N less the log loss, cells being about alike."""
    result = read_result(fitted[0])
    scores = result.evaluation.scores
    expected = np.log(result.model.n_points) - scores["log_loss"]
    assert scores["unregularized_gain"] == pytest.approx(expected, abs=0.01)
    assert np.isnan(scores["gain"])


def test_the_folder_is_read_back(fitted, call):
    model = load_model(fitted[0])
    result = read_result(fitted[0])
    assert [file.name for file in model.kinds.files] == ["presences", "sites.csv", "transects.csv"]
    assert result.kinds.agreement.names == ("presences", "sites.csv", "transects.csv")
    assert set(model.kinds.alone) == {"presences", "sites.csv", "transects.csv"}
    again = io.load(fitted[0] / "model.json")
    assert again.kinds.log_scale == model.kinds.log_scale
    assert call("report", fitted[0]).exit_code == 0


def test_a_source_apart_is_its_own_map_against_all(files, fitted):
    from maxent.species.input.layers.layers import Layers

    model = load_model(fitted[0])
    told = model.kinds
    with Layers.open(files[0] / "layers", categorical=("biome",)) as layers:
        X, known = layers.read_cells(np.arange(layers.grid.size))
    together = np.exp(model.density.scores(X[known]) - told.levels[""])
    alone = np.exp(told.alone["sites.csv"].scores(X[known]) - told.levels["sites.csv"])
    with rasterio.open(fitted[0] / "maps" / "apart_sites_csv.tif") as file:
        apart = file.read(1).ravel()[known]
    expected = np.log2((alone + 0.1) / (together + 0.1))
    np.testing.assert_allclose(apart, expected, atol=1e-4)
    assert np.abs(expected).max() > 0.1


def test_project_evaluate_explain_and_sites(files, fitted, call, tmp_path):
    folder, model = files[0], fitted[0] / "model.json"
    done = call("project", model, folder / "future", "-o", tmp_path / "f",
                "--output", "probability", "--area", "1")  # fmt: skip
    assert done.exit_code == 0, done.output
    with rasterio.open(tmp_path / "f" / "probability.tif") as file:
        assert file.tags()["AREA"] == "1 km2"
    done = call("project", model, folder / "future", "-o", tmp_path / "g", "--area", "1")
    assert done.exit_code != 0
    assert "--area has no effect" in done.output
    done = call("evaluate", model, folder / "sites.csv", folder / "layers")
    assert done.exit_code == 0, done.output
    assert "0.25 km2 holds the species" in " ".join(done.output.split())
    x, y = files[1].x[0], files[1].y[0]
    assert call("explain", model, folder / "layers", "--at", f"{x},{y}").exit_code == 0
    done = call("sites", model, folder / "layers", "-o", tmp_path / "s")
    assert done.exit_code != 0
    assert "surveys or counts" in " ".join(done.output.split())


def test_python_does_the_same(files, fitted):
    folder = files[0]
    result = species.fit(
        folder / "occurrences.csv",
        folder / "layers",
        categorical=("biome",),
        surveys=_table(files, "sites.csv"),
        counts=[folder / "transects.csv"],
        group=folder / "target_group.csv",
        features="lqc",
        permutations=0,
        cv="none",
    )
    there = read_result(fitted[0])
    assert result.kinds.log_scale == pytest.approx(there.kinds.log_scale, abs=1e-6)
    assert result.model.coef == pytest.approx(there.model.coef, abs=1e-6)
    assert [file.name for file in result.kinds.files] == ["presences", "frame", "transects.csv"]


def test_python_predicts_counts(fitted, files):
    model = load_model(fitted[0])
    values = {"biome": 2, "temperature": 17.0, "precipitation": 1200.0}
    X = pd.DataFrame({name: [values.get(name, 4.0)] for name in model.density.schema.names})
    one, four = (model.predict(X, "count", area=a) for a in (1.0, 4.0))
    assert four == pytest.approx(4 * one)


# -- one kind alone --------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "kind"), [("sites.csv", "survey"), ("transects.csv", "counts")])
def test_visits_alone(files, call, tmp_path, name, kind):
    folder = files[0]
    done = call("fit", folder / name, folder / "layers", "-c", "biome", "--kind", kind,
                "-o", tmp_path / "o", "--permutations", "2", "-f", "lq")  # fmt: skip
    assert done.exit_code == 0, done.output
    result = read_result(tmp_path / "o")
    assert [file.kind for file in result.kinds.files] == [kind]
    assert result.species == NAME
    assert result.kinds.agreement is None
    assert result.kinds.log_scale is not None
    table = _table(files, name)
    found = (table["presence" if kind == "survey" else "count"] > 0).sum()
    assert int(result.model.n_presences) == found
    assert result.n_background == len(table) - found
    assert result.replicates


def test_a_survey_alone_is_penalised_cloglog_regression(files):
    """The same as the sources' task of the same rows."""
    from maxent.density import Recipe, Source, SourcesTask
    from maxent.species.input.layers.layers import Layers

    folder = files[0]
    result = species.fit(
        folder / "sites.csv", folder / "layers", categorical=("biome",),
        sources=SourceSettings("survey"), features="lq", permutations=0, cv="none",
    )  # fmt: skip
    table = _table(files, "sites.csv")
    with Layers.open(folder / "layers", categorical=("biome",)) as layers:
        cells = layers.grid.cells_at(
            table["decimalLongitude"].to_numpy(), table["decimalLatitude"].to_numpy()
        )
        X, _ = layers.read_cells(cells)
    source = Source("survey", X, table["presence"], area=table["area_ha"] / 100)
    fit = SourcesTask.of([source], Recipe("lqc", categorical=("biome",))).fit()
    assert result.kinds.log_scale == pytest.approx(fit.log_scale, abs=1e-8)
    assert result.model.coef == pytest.approx(fit.density.coef)


# -- weights, effort, disagreement -----------------------------------------------------------------


def _fit(files, **how):
    folder = files[0]
    how = {"permutations": 0, "cv": "none", "features": "lq", "categorical": ("biome",)} | how
    records = how.pop("records", folder / "occurrences.csv")
    return species.fit(records, folder / "layers", **how)


def test_a_wrong_source_is_told_and_left_out_by_held_out_visits(files):
    survey = _table(files, "sites.csv")
    wrong = survey.assign(presence=1 - survey["presence"])
    result = _fit(files, records=survey, surveys=wrong,
                  sources=SourceSettings("survey", weigh="held-out"))  # fmt: skip
    assert result.kinds.agreement.p_value < 1e-6
    assert "The sources disagree" in result.kinds.agreement_in_words()
    assert result.kinds.chosen["weight"] < 1


def test_effort_layers_are_no_part_of_the_map(files):
    result = _fit(files, surveys=files[0] / "sites.csv",
                  sources=SourceSettings(effort_layers=("coast_distance",)))  # fmt: skip
    assert "coast_distance" not in result.model.schema.names
    (presences, _) = result.kinds.fits
    assert list(presences.effort) == ["coast_distance"]


def test_a_constant_effort_layer_is_said(files, tmp_path):
    layers = tmp_path / "layers"
    shutil.copytree(files[0] / "layers", layers)
    with rasterio.open(layers / "coast_distance.tif") as file:
        values, profile = file.read(1), file.profile
    with rasterio.open(layers / "even.tif", "w", **profile) as file:
        file.write(np.where(np.isfinite(values), np.float32(3), values), 1)
    result = species.fit(
        files[0] / "occurrences.csv", layers, surveys=files[0] / "sites.csv",
        sources=SourceSettings(effort_layers=("even",)),
        categorical=("biome",), permutations=0, cv="none", features="lq",
    )  # fmt: skip
    assert any("effort even is constant" in note for note in result.notes)
    assert result.kinds.fits[0].effort == {}


def test_sources_in_other_units_tell_where_there_are_more(files):
    hours = _table(files, "transects.csv").rename(columns={"area_km2": "hours"})
    result = _fit(files, surveys=files[0] / "sites.csv", counts=hours)
    survey, counts = result.kinds.fits[1:]
    assert (survey.own_scale, counts.own_scale) == (False, True)
    assert result.kinds.unit == "km2"
    assert any("its size is told in hours" in note for note in result.notes)


def test_visits_of_no_known_size_have_the_unit_of_a_visit(files):
    survey = _table(files, "sites.csv").drop(columns="area_ha")
    result = _fit(files, surveys=survey)
    assert (result.kinds.unit, result.kinds.per, result.kinds.area) == ("", "visit", 1.0)
    assert any("every visit counts alike" in note for note in result.notes)
    known = _fit(files, surveys=survey, sources=SourceSettings(site_area=10, area_unit="ha"))
    assert known.kinds.unit == "km2"
    assert known.kinds.files[1].median == pytest.approx(0.1)


def test_repeated_visits(files):
    survey = _table(files, "sites.csv").assign(visits=3)
    survey["presence"] *= 2
    result = _fit(files, surveys=survey)
    assert result.kinds.files[1].n_records == survey["presence"].sum()


# -- many species ----------------------------------------------------------------------------------


def test_species_missing_from_a_survey_are_fitted_without_it(files, call, tmp_path):
    folder = files[0]
    records = _table(files, "occurrences.csv")
    other = records.sample(60, random_state=0).assign(scientificName="Alter unus")
    both = _written(files, pd.concat([records, other]), "both.csv")
    done = call("fit", both, folder / "layers", "-c", "biome", "--survey", folder / "sites.csv",
                "-o", tmp_path / "o", "--no-maps", *FAST)  # fmt: skip
    assert done.exit_code == 0, done.output
    assert read_result(tmp_path / "o" / "Alter_unus").kinds is None
    assert read_result(tmp_path / "o" / "Arbor_fictus").kinds is not None
    assert "Arbor fictus: The intensity is absolute" in " ".join(done.output.split())
    assert "none of its visits names 'Alter unus'" in " ".join(done.output.split())
    nameless = _written(files, _table(files, "sites.csv").drop(columns="species"), "nameless.csv")
    said = _fails(call, files, both, "--survey", nameless)
    assert "nameless.csv has no column of species" in said
    done = call("fit", both, folder / "layers", "-c", "biome", "--survey", nameless,
                "-s", NAME, "-o", tmp_path / "one", "--no-maps", *FAST)  # fmt: skip
    assert done.exit_code == 0, done.output


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"count": -1}, ("row 2", "a count is -1, below 0")),
        ({"count": 1.5}, ("row 2", "not a whole number")),
        ({"area_km2": -1.0}, ("an area or effort below 0",)),
        ({"count": "many"}, ("'count' is 'many'", "expected a number")),
    ],
)
def test_counts_that_are_none(files, call, change, words):
    table = _table(files, "transects.csv").astype(object)
    for name, value in change.items():
        table.loc[0, name] = value
    said = _fails(call, files, files[0] / "occurrences.csv", "--counts",
                  _written(files, table, "wrong.csv"))  # fmt: skip
    assert all(word in said for word in words), said


def test_areas_that_are_missing_or_0_are_left_out_and_said(files):
    table = _table(files, "sites.csv")
    table.loc[[3, 5], "area_ha"] = np.nan
    table.loc[[7], "area_ha"] = 0
    table.loc[[9], "presence"] = np.nan
    result = _fit(files, surveys=table)
    assert result.kinds.files[1].n_rows == len(table) - 4
    notes = " ".join(result.notes)
    assert "2 of 399 visits left out, as their area or effort is missing" in notes
    assert "1 of 397 visits left out, as their area or effort is 0" in notes
    assert "1 of 400 visits left out, as they do not say what was found" in notes
    assert sum(step.records for step in result.cleaning if step.what.startswith("frame")) == 4


def test_a_survey_of_absences_alone(files, call):
    survey = _table(files, "sites.csv").assign(presence=0)
    result = _fit(files, surveys=survey, counts=files[0] / "transects.csv")
    assert result.kinds.log_scale is not None  # absences and counts share a scale
    alone = _fit(files, surveys=survey)
    assert alone.kinds.log_scale is None
    assert alone.kinds.files[1].left_out
    assert any("found nothing anywhere" in note for note in alone.notes)
    path = _written(files, survey, "vain.csv")
    said = _fails(call, files, path, "--kind", "survey")
    assert "0 of 400 visits found it" in said


def test_a_survey_of_presences_alone(files, call):
    survey = _table(files, "sites.csv").assign(presence=1)
    alone = _fit(files, surveys=survey)
    assert alone.kinds.log_scale is None
    assert any("at every visit" in note for note in alone.notes)
    path = _written(files, survey, "everywhere.csv")
    assert "at every visit" in _fails(call, files, path, "--kind", "survey")


def test_sources_that_are_apart_in_space(files):
    records, survey = _table(files, "occurrences.csv"), _table(files, "sites.csv")
    middle = records["decimalLongitude"].median()
    west = records[records["decimalLongitude"] < middle]
    east = survey[survey["decimalLongitude"] > middle]
    result = _fit(files, records=west, surveys=east)
    assert result.kinds.log_scale is not None
    assert np.isfinite(result.model.weights).all()


def test_visits_outside_the_layers(files, call):
    table = _table(files, "sites.csv")
    table.loc[:9, "decimalLongitude"] = 10.0
    table.loc[10:11, "decimalLatitude"] = np.nan
    result = _fit(files, surveys=table)
    assert "10 of 398 visits left out, outside the layers" in " ".join(result.notes)
    assert "2 of 400 visits left out, as coordinates are missing" in " ".join(result.notes)
    far = _written(files, table.assign(decimalLongitude=10.0), "far.csv")
    said = _fails(call, files, files[0] / "occurrences.csv", "--survey", far)
    assert "none of its 400 visits lies on the layers" in said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--area", "2"], "--area has no effect without surveys or counts"),
        (["--weigh-sources", "held-out"], "--weigh-sources has no effect without surveys"),
        (["--output", "intensity"], "needs surveys or counts"),
        (["--survey", "sites.csv", "--area-column", "plot"], "no column 'plot'"),
        (["--survey", "sites.csv", "--count-column", "plot"], "no column 'plot'"),
        (["--counts", "transects.csv", "--visits-column", "n"], "visits are those of a survey"),
        (["--survey", "sites.csv", "--site-area", "2"], "--site-area) has no effect"),
        (["--survey", "sites.csv", "--area-unit", "ha"], "--area-unit) has no effect"),
        (["--survey", "sites.csv", "--count-size", "2"], "--count-size) has no effect"),
        (["--survey", "sites.csv", "--area", "0"], "--area must be a number above 0"),
        (["--survey", "sites.csv", "--effort-layer", "road"], "no layer 'road'"),
        (["--survey", "sites.csv", "--joint"], "--joint fits presences of many species"),
        (["--survey", "sites.csv", "--replicates", "3"], "--replicates draws presences anew"),
        (["--survey", "sites.csv", "--bootstrap", "3"], "--bootstrap is of presences alone"),
        (["--survey", "sites.csv", "--memory", "1GB", "--background", "all"], "--memory is for"),
        (["--counts", "sites.csv"], "give the file with --survey"),
        (["--survey", "transects.csv", "--presence-column", "no"], "no column 'no'"),
        (["--survey", "sites.csv", "--effort-layer", "biome"], "'biome' holds categories"),
        (["--survey", "sites.csv", "--survey", "sites.csv"], "sites.csv is given twice"),
        (["--survey", "occurrences.csv"], "is given as presences and as visits"),
        (["--survey", "sites.csv", "--date-column", "auto"], "leave out the dates, or the surveys"),
    ],
)
def test_options_that_have_no_effect_or_do_not_go_together(files, call, options, words):
    typed = [files[0] / w if w.endswith(".csv") else w for w in options]
    said = _fails(call, files, files[0] / "occurrences.csv", *typed)
    assert words in said, said


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"preset": "maxnet"}, "--preset makes one point of equal rows"),
        ({"entropy": "tsallis:1.5"}, "--entropy is of densities of presences"),
        ({"select": "forward"}, "--select forward adds variables by presences"),
        ({"cv": "blocks", "block_size": "residuals"}, "--block-size residuals is of presences"),
    ],
)
def test_settings_of_presences_are_refused(asked, words):
    with pytest.raises(ValueError, match=words):
        check_kinds(Settings(**asked), held_out=False, presences=True)
    check_kinds(Settings(), held_out=True, presences=True)
    with pytest.raises(ValueError, match="hold out presences"):
        check_kinds(Settings(), held_out=True, presences=False)


def test_options_of_presences_are_refused_without_any(files, call):
    sites = files[0] / "sites.csv"
    for flag, value in (("--bias", "x.tif"), ("--background", "100"), ("--thin", "3")):
        said = _fails(call, files, sites, "--kind", "survey", flag, value)
        assert f"{flag} is for presences" in said
    said = _fails(call, files, sites, "--kind", "survey", "--weigh-sources", "held-out")
    assert "has no effect on one kind of records" in said


def test_with_tables_of_data_there_are_no_surveys(call, files):
    folder = files[0]
    done = call("fit", folder / "sites.csv", folder / "transects.csv", "--swd",
                "--survey", folder / "sites.csv")  # fmt: skip
    assert done.exit_code != 0
    assert "--survey has no effect with --swd" in " ".join(done.output.split())


def test_resuming_takes_up_the_same_visits_alone(files, call, tmp_path):
    folder = files[0]
    sites = tmp_path / "sites.csv"
    shutil.copy(folder / "sites.csv", sites)
    args = [folder / "occurrences.csv", folder / "layers", "-c", "biome", "--survey", sites]
    args += ["-o", tmp_path / "o", "--no-maps", *FAST]
    assert call("fit", *args).exit_code == 0
    assert call("fit", *args, "--resume").exit_code == 0
    table = pd.read_csv(sites)
    table.loc[0, "presence"] = 1 - table.loc[0, "presence"]
    table.to_csv(sites, index=False)
    done = call("fit", *args, "--resume")
    assert done.exit_code != 0
    assert "--overwrite" in done.output


def test_dates_are_refused_with_visits(files):
    sites = files[0] / "sites.csv"
    for how in ({"surveys": sites}, {"records": sites, "sources": SourceSettings("survey")}):
        with pytest.raises(ValueError, match="leave out the dates, or the surveys and counts"):
            _fit(files, dates="auto", **how)


def test_a_survey_may_have_a_column_of_its_own_for_what_was_found(files, call, tmp_path):
    own = _table(files, "sites.csv").rename(columns={"presence": "seen_it"})
    own = _written(files, own, "own.csv")
    done = call("fit", files[0] / "occurrences.csv", files[0] / "layers", "-c", "biome",
                "--survey", own, "--presence-column", "seen_it", "-o", tmp_path / "o",
                "--no-maps", *FAST)  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "presence from 'seen_it'" in " ".join(done.output.split())


def test_units_that_may_be_wrong_are_said(files):
    survey = _table(files, "sites.csv").rename(columns={"area_ha": "area_km2"})
    survey["area_km2"] *= 1000
    result = _fit(files, surveys=survey, counts=files[0] / "transects.csv")
    notes = " ".join(result.notes)
    assert "by itself transects.csv tells of" in notes
    assert "times as many per km2 as frame: check the units of both" in notes
    assert "frame: half of the visits are of 1e+04 km2 or more" in notes
    right = _fit(files, surveys=files[0] / "sites.csv", counts=files[0] / "transects.csv")
    assert "check the unit" not in " ".join(right.notes)


def test_effort_in_minutes_and_in_hours_is_of_one_unit(files):
    survey = _table(files, "sites.csv").rename(columns={"area_ha": "minutes"})
    counts = _table(files, "transects.csv").rename(columns={"area_km2": "hours"})
    survey["minutes"] *= 60 / 100  # as many hours as km2
    result = _fit(files, surveys=survey, counts=counts)
    assert [fit.own_scale for fit in result.kinds.fits[1:]] == [False, False]
    assert result.kinds.scale_in_words().startswith("The intensity is absolute, per hour, by")
    km2 = _fit(files, surveys=files[0] / "sites.csv", counts=files[0] / "transects.csv")
    assert result.kinds.log_scale == pytest.approx(km2.kinds.log_scale, abs=1e-6)


def test_a_weight_that_nothing_is_weighed_against_is_said(files):
    result = _fit(files, surveys=_table(files, "sites.csv").assign(presence=0),
                  sources=SourceSettings(weigh="held-out"))  # fmt: skip
    assert any("held-out has no effect: presences alone tells" in note for note in result.notes)


# -- columns ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "unit", "factor", "known"),
    [
        ("area_km2", "km2", 1.0, True),
        ("Area (ha)", "km2", 0.01, True),
        ("plotSizeM2", "km2", 1e-6, True),
        ("area", "area", 1.0, False),
        ("effort_hours", "hours", 1.0, True),
        ("effort", "effort", 1.0, False),
        ("transect length (km)", "km", 1.0, True),
        ("minutes", "hours", 1 / 60, True),
        ("transect length (m)", "km", 1e-3, True),
    ],
)
def test_sizes_are_recognised(name, unit, factor, known):
    found = size_column(["species", "x", name])
    assert (found.position, found.unit, found.factor, found.known) == (2, unit, factor, known)


def test_no_size_is_found_where_there_is_none():
    assert size_column(["species", "x", "y", "m", "remarks", "elevation"]) is None


def test_sizes_of_darwin_core():
    table = {"x": [1, 2], "y": [1, 2], "individualCount": [0, 3]}
    table |= {"sampleSizeValue": [100, 1], "sampleSizeUnit": ["square metre", "hectare"]}
    read = read_sites(table, "counts")
    assert read.unit == "km2"
    np.testing.assert_allclose(read.size, [1e-4, 1e-2])
    with pytest.raises(ValueError, match="expected units of area"):
        read_sites(table | {"sampleSizeUnit": ["ha", "dozen"]}, "counts")


def test_presence_in_words_and_counts_as_presence():
    table = {"x": [1, 2, 3], "y": [1, 2, 3], "occurrenceStatus": ["present", "absent", ""]}
    read = read_sites(table, "survey")
    assert read.value.tolist() == [1, 0]
    read = read_sites({"x": [1, 2], "y": [1, 2], "count": [4, 0]}, "survey")
    assert read.value.tolist() == [1, 0]
    assert "is above 0" in read.places.columns
    with pytest.raises(ValueError, match="expected presence"):
        read_sites({"x": [1], "y": [1], "presence": ["perhaps"]}, "survey")
    with pytest.raises(ValueError, match="Individuals are counts"):
        read_sites({"x": [1, 2], "y": [1, 2], "presence": [3, 0]}, "survey")


def test_surveys_that_may_mean_something_else_are_said():
    table = {"x": [1, 2, 3], "y": [1, 2, 3], "visits": [3, 3, None], "presence": [0, 1, 1]}
    read = read_sites(table, "survey")
    assert "(1 of them blank, taken as 1)" in read.places.columns
    assert any("1 is taken as found by one of the visits" in note for note in read.notes)
    assert not any(
        "1 is taken" in n for n in read_sites(table | {"presence": [0, 2, 1]}, "survey").notes
    )
    read = read_sites({"x": [1, 2], "y": [1, 2], "presence": [1, 1]}, "survey")
    assert any("this is no survey but presences" in note for note in read.notes)
    both = table | {"area_ha": [1, 1, 1], "hours": [1, 1, 1]}
    assert any("'hours' could be the size" in note for note in read_sites(both, "survey").notes)
    asked = read_sites(both, "survey", SourceSettings(area_column="area_ha"))
    assert not any("could be the size" in note for note in asked.notes)


def test_a_column_named_for_the_first_file_may_lack_in_the_second(files):
    from maxent.species.input.files import RecordFile

    read = read_sites(RecordFile(str(files[0] / "sites.csv"), x="lon_of_records"), "survey")
    assert any("no column 'lon_of_records'" in note for note in read.notes)
