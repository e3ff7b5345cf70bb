"""`maxent fit --joint`: species fitted together, their folders, what is told of them, bad input."""

import csv
import json
import shutil

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import maxent as mx
from maxent import cli, species
from maxent.datasets import virtual_community, virtual_landscape, write_landscape
from maxent.species.fitting.joint import OWN, SpeciesGroup, fit_group
from maxent.species.fitting.results import Borrowing, read_result
from maxent.species.fitting.settings import Settings
from maxent.species.report.sections import joint as section
from tools import needs

rasterio = needs("rasterio")

pytestmark = pytest.mark.usefixtures("sketches")

NUMBERS = (60, 25, 10, 4)
FAST = ["--bootstrap", "0", "--permutations", "0", "--no-jackknife"]
COMMON, RARE, OTHER = "Arbor fictus", "Arbor nusquam", "Frutex fictus"
LONE, SPARSE = "Solus unus", "Deest omnino"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Layers, and records of two families and of two species that are alone in theirs."""
    folder = tmp_path_factory.mktemp("community")
    island = virtual_landscape(height=36, width=45)
    write_landscape(island, folder)
    community = virtual_community(island, NUMBERS, families=2, likeness=0.95, seed=4)
    community.write(folder / "many.csv")
    table = pd.read_csv(folder / "many.csv")
    three = table["scientificName"].isin([COMMON, RARE, OTHER])
    table[three].to_csv(folder / "three.csv", index=False)
    extra = table.sample(9, random_state=0).assign(scientificName=LONE, family="Solaceae")
    few = table.sample(1, random_state=1).assign(scientificName=SPARSE, family="Arboraceae")
    pd.concat([table, extra, few]).to_csv(folder / "families.csv", index=False)
    return folder, island, community


@pytest.fixture(scope="module")
def call():
    def run(*args):
        return CliRunner().invoke(cli.main, [str(a) for a in args], env={"COLUMNS": "200"})

    return run


@pytest.fixture(scope="module")
def fitted(files, call):
    """The results of `fit --joint` on the species of both families."""
    folder, _, _ = files
    out = folder / "out"
    args = [folder / "many.csv", folder / "layers", "-c", "biome", "--project", folder / "future"]
    done = call("fit", *args, "--joint", "-o", out, *FAST)
    assert done.exit_code == 0, done.output
    return out, done


@pytest.fixture(scope="module")
def grouped(files, call):
    """The results by family, with a family of one and a species of too few records."""
    folder, _, _ = files
    out = folder / "grouped"
    args = [folder / "families.csv", folder / "layers", "-c", "biome", "--no-maps"]
    done = call("fit", *args, "--joint", "--group-column", "family", "-o", out, *FAST)
    assert done.exit_code == 3, done.output
    return out, done


def of(out, name):
    return out / name.replace(" ", "_")


def rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


# -- the command -----------------------------------------------------------------------------------


def test_every_species_gets_a_folder_as_always(fitted, files):
    out, _ = fitted
    _, _, community = files
    for name in community.species:
        folder = of(out, name)
        for file in ("report.html", "map.png", "model.json", "result.json", "maps/cloglog.tif"):
            assert (folder / file).is_file(), (name, file)
        assert (folder / "projections" / "future" / "cloglog.tif").is_file()
    assert (out / "richness_suitability.tif").is_file()
    joint = mx.load(out / "joint_model.json")
    assert joint.species == community.species
    assert 0 <= joint.certificate.gap <= 1e-6
    table = rows(out / "joint_correlations.csv")
    assert [row["species"] for row in table] == list(community.species)
    told = np.array([[float(row[name]) for name in community.species] for row in table])
    np.testing.assert_allclose(told, joint.correlations(), atol=1e-4)
    assert (out / "joint_tree.png").is_file()


def test_densities_are_those_of_the_joint_model(fitted, files):
    """And its places are the cells with records, whoever was recorded there."""
    out, _ = fitted
    folder, island, community = files
    joint = mx.load(out / "joint_model.json")
    cells = np.unique(island.grid.cells_at(community.x, community.y))
    with species.Layers.open(folder / "layers", categorical=["biome"]) as layers:
        X, known = layers.read_cells(cells)
    X = X[known]
    assert joint.n_points == len(X)
    for name in (COMMON, RARE):
        one = species.load_model(of(out, name)).density
        np.testing.assert_allclose(
            one.predict(X, "log"), joint.predict(X, "log", species=name)[:, 0], atol=1e-4
        )
    assert joint.own_share == OWN


def test_scores_of_both_ways_stand_in_table_index_and_report(fitted):
    out, done = fitted
    result = read_result(of(out, COMMON))
    told = result.borrowing
    assert (told.n_species, told.rounds, told.kind, told.folds) == (8, 3, "blocks", 4)
    lines = {row["Species"]: row for row in rows(out / "maxentResults.csv")}
    row = lines[COMMON]
    assert row["Species fitted together"] == "8"
    for way in ("alone", "joint"):
        scores = told.own if way == "alone" else told.joint
        assert float(row[f"Held-out gain {way}"]) == pytest.approx(scores["gain"])
        assert float(row[f"Held-out AUC {way}"]) == pytest.approx(scores["auc"])
    index = (out / "index.html").read_text(encoding="utf-8")
    assert "<td>8</td>" in index.replace(' class="n"', "") or ">8<" in index
    for text in ("Fitted together", "Duality gap", "joint_tree.png", f"{told.joint['auc']:.3f}"):
        assert text in index
    page = (of(out, COMMON) / "report.html").read_text(encoding="utf-8")
    for text in (
        "Fitted with other species",
        "tell where people looked",
        "It does not say that species affect each other",
        "From whom it borrowed",
        f"{told.own['gain']:.3f}",
    ):
        assert text in page
    assert f"{COMMON}: fitted jointly with 7 other species" in done.output
    odmap = {(r["element"], r["value"]) for r in _odmap(of(out, COMMON))}
    assert ("Modelling techniques", "maximum entropy (Maxent), 8 species fitted jointly") in odmap
    assert any("75% of the joint fit of 8 species" in value for _, value in odmap)


def _odmap(folder):
    with open(folder / "tables" / "odmap.csv", newline="", encoding="utf-8") as file:
        return [{k.lower(): v for k, v in row.items()} for row in csv.DictReader(file)]


def test_a_rare_species_borrows_from_its_family_and_is_nearer_to_the_truth(fitted, files):
    out, _ = fitted
    folder, island, community = files
    told = read_result(of(out, RARE)).borrowing
    assert next(iter(told.alike)).startswith("Arbor")
    with species.Layers.open(folder / "layers", categorical=["biome"]) as layers:
        X, known = layers.read_cells(np.flatnonzero(island.land))
    joint = mx.load(out / "joint_model.json")

    def agreement(name, density):
        truth = community.truth[community.species.index(name)][island.land][known]
        ranks = (pd.Series(v).rank() for v in (truth, density.predict(X[known], "log")))
        return np.corrcoef(*ranks)[0, 1]

    rare = [name for name in community.species if name.endswith(("imaginatus", "nusquam"))]
    joined = np.mean([agreement(name, joint.density(name)) for name in rare])
    alone = np.mean([agreement(name, joint.own[joint.index(name)]) for name in rare])
    assert joined > alone + 0.05


def test_models_are_used_as_any_other(fitted, files, call, tmp_path):
    out, _ = fitted
    folder, _, _ = files
    model = of(out, RARE) / "model.json"
    done = call("project", model, folder / "layers", "-o", tmp_path / "again.tif")
    assert done.exit_code == 0, done.output
    with (
        rasterio.open(tmp_path / "again.tif") as again,
        rasterio.open(of(out, RARE) / "maps" / "cloglog.tif") as drawn,
    ):
        np.testing.assert_allclose(again.read(1), drawn.read(1), atol=1e-6)
    done = call("evaluate", model, folder / "many.csv", folder / "layers", "-s", RARE)
    assert done.exit_code == 0, done.output
    done = call("report", of(out, RARE))
    assert done.exit_code == 0, done.output
    done = call("sites", model, folder / "layers", "-o", tmp_path / "sites", "--sites", "3")
    assert done.exit_code == 0, done.output
    assert "nan" not in done.output


def test_resume_and_two_processes_give_the_same(fitted, files, call, tmp_path):
    out, _ = fitted
    folder, _, community = files
    again = tmp_path / "again"
    shutil.copytree(out, again)
    before = species.load_model(of(out, RARE)).density
    shutil.rmtree(of(again, RARE))
    args = [folder / "many.csv", folder / "layers", "-c", "biome", "--project", folder / "future"]
    done = call("fit", *args, "--joint", "-o", again, *FAST, "--resume", "-j", "2")
    assert done.exit_code == 0, done.output
    assert done.output.count("(kept)") == len(community.species) - 1
    made = species.load_model(of(again, RARE)).density
    np.testing.assert_allclose(made.weights, before.weights, rtol=0, atol=1e-6)
    assert "Fitted together" in (again / "index.html").read_text(encoding="utf-8")
    # records of another species are part of what a species depends on
    table = pd.read_csv(folder / "many.csv").iloc[3:]
    table.to_csv(tmp_path / "fewer.csv", index=False)
    done = call("fit", tmp_path / "fewer.csv", *args[1:], "--joint", "-o", again, *FAST, "--resume")
    assert done.exit_code == 1
    assert "other settings, files or records" in done.output


# -- groups ----------------------------------------------------------------------------------------


def test_each_group_is_a_fit_of_its_own(grouped):
    out, _ = grouped
    arbor = mx.load(out / "joint_model_Arboraceae.json")
    assert {name.split()[0] for name in arbor.species} == {"Arbor"}
    assert (out / "joint_tree_Fruticaceae.png").is_file()
    told = read_result(of(out, COMMON)).borrowing
    assert (told.group, told.n_species) == ("Arboraceae", 4)
    assert set(told.alike) < set(arbor.species)
    assert told.n_places == arbor.n_points
    # the places of a family are the cells with its records alone
    assert told.n_places < read_result(of(out, LONE)).borrowing.n_places


def test_a_group_of_one_and_a_species_of_too_few_records_are_told(grouped):
    out, done = grouped
    assert f"Solaceae: {LONE} is its only species, so it is fitted by itself" in done.output
    assert f"{SPARSE}: 1 of 1 records can be used, at least 3 are needed" in done.output
    told = read_result(of(out, LONE)).borrowing
    assert (told.n_species, told.rounds, told.alike) == (1, 0, {})
    page = (of(out, LONE) / "report.html").read_text(encoding="utf-8")
    assert "this is the only species of Solaceae" in page
    assert not (out / "joint_tree_Solaceae.png").exists()
    index = (out / "index.html").read_text(encoding="utf-8")
    assert "nobody to borrow from" in index
    summary = json.loads((of(out, LONE) / "summary.json").read_text())
    assert summary["row"]["joint"]["files"]["model"] == "joint_model_Solaceae.json"


def test_a_column_of_groups_must_say_one_group_of_each_species(files, call, tmp_path):
    folder, _, _ = files
    table = pd.read_csv(folder / "many.csv")
    args = [folder / "layers", "--joint", "--group-column", "family", "-o", tmp_path / "out"]
    torn = table.assign(family=np.where(np.arange(len(table)) == 0, "Palmaceae", table["family"]))
    torn.to_csv(tmp_path / "torn.csv", index=False)
    done = call("fit", tmp_path / "torn.csv", *args)
    assert done.exit_code == 1
    assert f"{COMMON} is in several groups by 'family'" in done.output
    table.loc[table["scientificName"] == RARE, "family"] = ""
    table.to_csv(tmp_path / "blank.csv", index=False)
    done = call("fit", tmp_path / "blank.csv", *args)
    assert done.exit_code == 1
    assert f"no entry of 'family' (--group-column) for '{RARE}'" in done.output
    done = call("fit", folder / "many.csv", *args[:-3], "clan", *args[-2:])
    assert done.exit_code == 1
    assert "no column 'clan'" in done.output


# -- wrong usage, and records that say little ------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--group-column", "family"], "has no effect by itself"),
        (["--joint", "-s", COMMON], "there is one: Arbor fictus"),
        (["--joint", "--target-group"], "--target-group has no effect with --joint"),
        (["--joint", "--background", "500"], "--background has no effect with --joint"),
        (["--joint", "--entropy", "tsallis:1.5"], "entropy shannon"),
        (["--joint", "--select", "vif"], "same variables for all species"),
        (["--joint", "--buffer", "50"], "gives each its own"),
        (["--joint", "--cv", "blocks", "--block-size", "residuals"], "give km, or layers"),
        (["--joint", "--lambdas"], "kernels have no place in a .lambdas file"),
    ],
)
def test_options_that_do_not_go_together(files, call, tmp_path, options, said):
    folder, _, _ = files
    done = call("fit", folder / "many.csv", folder / "layers", "-o", tmp_path / "out", *options)
    assert done.exit_code != 0
    assert said in " ".join(done.output.replace("│", " ").split())
    assert not (tmp_path / "out").exists() or not any((tmp_path / "out").iterdir())


@pytest.fixture(scope="module")
def tables(files):
    """Tables with data: all places with any record as background, and the records of three."""
    folder, _, _ = files
    table = pd.read_csv(folder / "three.csv")
    with species.Layers.open(folder / "layers", categorical=["biome"]) as layers:
        cells = layers.grid.cells_at(table["decimalLongitude"], table["decimalLatitude"])
        X, known = layers.read_cells(cells)
        x, y = layers.grid.centres(cells)
    assert known.all()
    rows = X.assign(species=table["scientificName"], x=x, y=y)[["species", "x", "y", *X.columns]]
    rows = rows.drop_duplicates(["species", "x", "y"])  # as of layers, where a cell counts once
    samples, background = folder / "samples.csv", folder / "background.csv"
    rows.to_csv(samples, index=False)
    rows.drop_duplicates(["x", "y"]).assign(species="background").to_csv(background, index=False)
    return samples, background


def test_tables_with_data_give_what_the_layers_give(files, call, tables, tmp_path):
    folder, _, _ = files
    outs = tmp_path / "tables", tmp_path / "layers"
    given = [*tables, "--swd"], [folder / "three.csv", folder / "layers", "--no-maps"]
    said = []
    for out, args in zip(outs, given, strict=True):
        done = call("fit", *args, "-c", "biome", "--joint", "--cv", "random", "-o", out, *FAST)
        assert done.exit_code == 0, done.output
        said.append(" ".join(done.output.split()))
    assert "different rows of background.csv and samples.csv" in said[0]
    with species.Layers.open(folder / "layers", categorical=["biome"]) as layers:
        X, _ = layers.read_cells(np.arange(0, layers.grid.size, 7))
    X = X.dropna()
    one, other = (mx.load(out / "joint_model.json") for out in outs)
    assert one.species == other.species
    assert one.n_points == other.n_points
    np.testing.assert_array_equal(one.n_presences, other.n_presences)
    a, b = one.predict(X, "log"), other.predict(X, "log")
    assert np.abs(a - b).max() < 0.02  # float32 layers, digits of the table, both within their gap
    told = json.loads((of(outs[0], RARE) / "summary.json").read_text())["row"]["joint"]
    assert told["joint"]["gain"] > told["own"]["gain"]
    assert {"joint_model.json", "joint_correlations.csv"} <= {p.name for p in outs[0].iterdir()}


def test_tables_with_records_held_out(call, tables, tmp_path):
    out = tmp_path / "out"
    args = [*tables, "--swd", "-c", "biome", "--joint", "--test-share", "0.3", "--cv", "none"]
    done = call("fit", *args, "-o", out, *FAST, "-s", COMMON, "-s", OTHER)
    assert done.exit_code == 0, done.output
    told = read_result(of(out, COMMON))
    assert 0.25 < told.records["test"].mean() < 0.35
    assert told.evaluation.test_scores["auc"] > 0.5


@pytest.mark.parametrize("option", [["--spatial"], ["--group-column", "family"]])
def test_what_tables_do_not_hold_is_refused(call, tables, tmp_path, option):
    done = call("fit", *tables, "--swd", "--joint", *option, "-o", tmp_path / "out")
    assert done.exit_code != 0
    assert "has no effect with --swd" in " ".join(done.output.split())


def records_of(files, **changes):
    """A frame of the records of the community; some species replaced by places, (n, 2)."""
    folder, _, _ = files
    table = pd.read_csv(folder / "many.csv")
    for name, places in changes.items():
        table = table[table["scientificName"] != name]
        places = np.asarray(places, dtype=float)
        more = pd.DataFrame(
            {"scientificName": name, "family": "x"}
            | {"decimalLongitude": places[:, 0], "decimalLatitude": places[:, 1]}
        )
        table = pd.concat([table, more])
    return table


def fit_one(files, table, name, **settings):
    how = {"jackknife": False, "bootstrap": 0, "permutations": 0, "joint": True} | settings
    folder, _, _ = files
    layers = folder / "layers"
    return species.fit(table, layers, species=name, categorical=["biome"], **how)


def test_one_call_gives_the_species_of_the_command(files, fitted):
    out, _ = fitted
    result = fit_one(files, records_of(files), RARE)
    expected = species.load_model(of(out, RARE)).density
    np.testing.assert_allclose(result.model.weights, expected.weights, atol=1e-4)
    assert result.borrowing.n_species == 8
    assert "of a model of the species' own records" in " ".join(result.notes)


def test_few_records_one_cell_and_twins(files):
    table = records_of(files)
    first = table[["decimalLongitude", "decimalLatitude"]].to_numpy()
    common = first[(table["scientificName"] == COMMON).to_numpy()]
    changed = records_of(
        files, **{"Una nota": common[:1], "Unus locus": np.repeat(common[1:2], 5, 0)}
    )
    twin = table[table["scientificName"] == COMMON].assign(scientificName="Arbor gemina")
    changed = pd.concat([changed, twin])
    one = fit_one(files, changed, "Una nota", minimum=1, cv="none")
    assert one.model.n_presences == 1
    assert np.isfinite(one.evaluation.scores["auc"])
    # five records in one cell are one record of the place
    with pytest.raises(ValueError, match="all 5 records lie in one cell"):
        fit_one(files, changed, "Unus locus")
    same = fit_one(files, changed, "Unus locus", keep_duplicates=True, cv="none", minimum=1)
    assert same.model.n_presences == 5
    twins = [fit_one(files, changed, name, cv="none") for name in (COMMON, "Arbor gemina")]
    assert twins[0].borrowing.alike["Arbor gemina"] == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(twins[0].model.weights, twins[1].model.weights, atol=1e-4)


def test_records_without_places_are_left_out_and_none_left_is_told(files):
    table = records_of(files, **{"Nusquam est": np.full((4, 2), np.nan)})
    with pytest.raises(ValueError, match="Nusquam est: none of 4 records can be used: 4 missing"):
        fit_one(files, table, "Nusquam est")
    result = fit_one(files, table, RARE, cv="none")
    assert result.borrowing.n_species == 8  # without it


def test_only_one_species_is_no_group(files):
    table = records_of(files)
    with pytest.raises(ValueError, match="joint lends strength between several species"):
        fit_one(files, table[table["scientificName"] == COMMON], COMMON)
    with pytest.raises(ValueError, match="Occurrences have none"):
        fit_one(files, species.Occurrences.from_frame(table), COMMON, group_column="family")


# -- the fit ---------------------------------------------------------------------------------------


def test_a_fold_hides_its_places_from_all_species(files):
    """Held-out scores know nothing of the block: a species that lives there alone cannot tell."""
    folder, _, _ = files
    settings = Settings(verbose=0, cv="blocks")
    records = species.Occurrences.from_frame(records_of(files))
    with species.Layers.open(folder / "layers", categorical=["biome"]) as layers:
        region = species.survey(layers, records, settings, group=records)
    samples = {
        name: species.prepare(region, records.of_species(name), settings).train
        for name in records.names()
    }
    group = SpeciesGroup.from_region("", region, samples)
    assert np.array_equal(group.counts.sum(axis=0), [s.counts.sum() for s in samples.values()])
    _, parts = fit_group(group, settings)
    for part in parts.values():
        assert len(part.folds) == 4
        for split, density in part.folds:
            hidden = ~split.domain
            assert not split.train[hidden].any()
            assert not split.test[split.domain].any()
            if density is not None:
                assert density.n_points == split.domain.sum()
                assert density.n_presences == split.train.sum()
                assert density.schema == part.density.schema  # also levels that are hidden
    tests = sum(split.test for split, _ in parts[COMMON].folds)
    assert np.array_equal(tests, np.asarray(group.counts[:, [0]].todense()).ravel())


# -- with the coordinates --------------------------------------------------------------------------


def test_with_places_maps_are_drawn_and_projections_are_warned_of(files, call, tmp_path):
    folder, _, _ = files
    out = tmp_path / "out"
    args = [folder / "three.csv", folder / "layers", "-c", "biome", "--joint", "--spatial"]
    done = call("fit", *args, "--project", folder / "future", "-o", out, *FAST)
    assert done.exit_code == 0, done.output
    assert "not for other times or places" in done.output
    model = of(out, COMMON) / "model.json"
    density = species.load_model(model).density
    assert {"place x", "place y"} < set(density.schema.names)
    told = read_result(of(out, COMMON))
    assert told.borrowing.spatial
    assert told.borrowing.own["gain"] != told.borrowing.joint["gain"]
    page = (of(out, COMMON) / "report.html").read_text(encoding="utf-8")
    assert "do not project it" in page
    # the map is the density at the coordinates of the cells
    with rasterio.open(of(out, COMMON) / "maps" / "cloglog.tif") as file:
        drawn, valid = file.read(1), file.read_masks(1) > 0
    with species.Layers.open(folder / "layers", categorical=["biome"]) as layers:
        X, known = layers.read_cells(np.flatnonzero(valid))
        x, y = layers.grid.centres(np.flatnonzero(valid))
    assert known.all()
    X = X.assign(**{"place x": x, "place y": y})
    np.testing.assert_allclose(drawn[valid], density.predict(X, "cloglog"), atol=1e-5)
    # environment and space are its log density, less that of the mean place
    parts = []
    for name in ("environment", "space"):
        with rasterio.open(of(out, COMMON) / "maps" / f"{name}.tif") as file:
            parts.append(file.read(1)[valid].astype(float))
    told = density.explain(X)
    np.testing.assert_allclose(sum(parts), told.exponent - told.base, atol=1e-4)
    assert parts[1].std() > 0.01
    assert "Of the environment" in page
    assert "space.tif" in page
    elsewhere = X.assign(**{"place x": x[0], "place y": y[0]})
    there = density.predict(elsewhere, "log") - density.predict(X, "log")
    np.testing.assert_allclose(there, parts[1][0] - parts[1], atol=1e-4)
    # the species' own part does not look at places
    joint = mx.load(out / "joint_model.json")
    moved = X.assign(**{"place x": x + 3, "place y": y - 2})
    for own in joint.own:
        np.testing.assert_array_equal(own.predict(X), own.predict(moved))
    assert np.abs(density.predict(X, "log") - density.predict(moved, "log")).max() > 0.05
    done = call("project", model, folder / "future", "-o", tmp_path / "later.tif")
    assert done.exit_code == 0, done.output
    assert "not for other times or places" in done.output
    done = call("evaluate", model, folder / "many.csv", folder / "layers", "-s", COMMON)
    assert done.exit_code == 0, done.output


def test_coordinates_of_another_crs_are_refused(files, tmp_path):
    folder, _, _ = files
    result = fit_one(files, records_of(files), RARE, spatial=True, cv="none")
    model = species.SpeciesModel(RARE, result.model, crs="EPSG:4326")
    with species.Layers.open(folder / "layers") as layers:
        grid = layers.grid
    assert model.check_places(grid)[0].startswith("caution")
    metres = type(grid)("EPSG:3857", grid.transform, grid.width, grid.height)
    with pytest.raises(ValueError, match="give layers in the same CRS"):
        model.check_places(metres)
    plain = species.SpeciesModel(RARE, fit_one(files, records_of(files), RARE, cv="none").model)
    assert plain.check_places(metres) == []


def test_space_needs_a_joint_fit():
    with pytest.raises(ValueError, match="spatial has no effect by itself"):
        Settings(spatial=True)


@pytest.mark.parametrize(
    ("own", "joint", "said"),
    [
        (-1.0, -0.5, "neither is better than an even map"),
        (0.5, -0.1, "the joint model is no better than an even map"),
        (0.1, 0.2, "the joint model does better."),
        (0.3, 0.2, "no better than the species&#x27; own"),
    ],
)
def test_scores_are_judged_in_words(own, joint, said):
    scores = ({"gain": gain, "auc": 0.6} for gain in (own, joint))
    told = Borrowing("", 2, 90, 50, 40, 3, OWN, 1e-9, True, {"Aa bb": 0.5}, "blocks", 4, *scores)
    assert said in section._scores(told)
