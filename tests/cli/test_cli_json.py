"""What ``maxent --json COMMAND`` prints, for every command there is."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import maxent
from maxent import cli
from maxent.cli._answers import FORMAT
from maxent.datasets.landscape import virtual_landscape, write_landscape
from maxent.demo import learning
from maxent.demo.first_fits import FITS

MEMBERS = [
    *("maxent", "format", "command", "status", "exit_code"),
    *("errors", "notes", "files", "result"),
]
SERVES = {"app"}  # until it is stopped
QUICK = [
    *("--features", "lq", "--cv", "none", "--bootstrap", "0", "--no-jackknife"),
    *("--permutations", "0", "--background", "300", "-q"),
]


def commands_of(group, above=()):
    """The words of every command there is."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands_of(command, (*above, name))
        else:
            yield " ".join((*above, name))


ALL = sorted(set(commands_of(typer.main.get_command(cli.main))) - SERVES)


@pytest.fixture(scope="module")
def runs(tmp_path_factory, sketches):
    """Command -> its arguments and its answer; each uses what the ones before it wrote."""
    here = tmp_path_factory.mktemp("answers")
    write_landscape(virtual_landscape(height=24, width=30, n_occurrences=50, seed=3), here)
    (here / "train.txt").write_text("the D\ncat N\n\na D\ndog N\n\n")
    records, layers, results = (here / n for n in ("occurrences.csv", "layers", "results"))
    model, explained = results / "model.json", f"--at={_first_place(records)}"
    tagger, train = here / "tagger.json", here / "train.txt"
    fit = [records, layers, "-c", "biome", "--project", here / "future", "-o", results]
    tune = [*(records, layers, "-c", "biome", "-o", here / "tuned"), "-f", "l", "-m", "1,2"]
    steps = {
        "info": [],
        "warm": ["densities"],
        "demo": ["--learning", "-o", here / "demo"],
        "check": [records, layers, "-c", "biome", "-o", here / "fates.csv"],
        "fit": [*fit, *QUICK],
        "report": [results],
        "project": [model, layers, "-o", here / "again.tif", "--threshold", "0.5"],
        "evaluate": [model, records, layers, "-o", here / "s.csv", "--json", here / "s.json"],
        "tune": [*tune, "--background", "300", "-q"],
        "explain": [model, layers, explained],
        "sites": [model, layers, "-o", here / "next", "--sites", "3"],
        "change": [results, "-o", here / "change"],
        "overlap": [results / "maps" / "cloglog.tif", here / "again.tif"],
        "tag train": [train, "-m", tagger],
        "tag predict": [tagger, train, "-o", here / "tagged.txt"],
        "tag evaluate": [tagger, train],
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(FITS, "densities", {"a fit": lambda: None})
        patch.setattr(learning, "run", lambda out, **how: {"fits": [], "files": ["demo.png"]})
        return {name: (args, call("--json", *name.split(), *args)) for name, args in steps.items()}


def _first_place(records: Path) -> str:
    _, x, y = records.read_text().splitlines()[1].split(",")[:3]
    return f"{x},{y}"


def call(*args):
    return CliRunner().invoke(cli.main, [str(arg) for arg in args])


@pytest.mark.parametrize("name", ALL)
def test_every_command_answers_with_one_object(name, runs):
    _, run = runs[name]
    assert run.exit_code == 0, run.output
    told = json.loads(run.stdout)
    assert list(told) == MEMBERS
    assert (told["maxent"], told["format"]) == (maxent.__version__, FORMAT)
    assert (told["command"], told["status"], told["exit_code"]) == (name, "done", 0)
    assert told["errors"] == []
    assert told["result"]
    if name != "demo":  # whose files were not written here
        assert all(Path(file).is_file() for file in told["files"]), told["files"]


def test_results_are_those_of_the_files(runs):
    """Of a fit, the folder; of an evaluation, its own file; of a map, the map."""
    told = {name: json.loads(run.stdout) for name, (_, run) in runs.items()}
    (row,) = told["fit"]["result"]["species"]
    folder = Path(told["fit"]["result"]["out"])
    summary = json.loads((folder / "summary.json").read_text())["row"]
    assert {name: row[name] for name in ("auc", "gain", "gap")} == {
        name: summary[name] for name in ("auc", "gain", "gap")
    }
    assert told["fit"]["files"] == [str(folder / "report.html")]
    assert told["project"]["result"]["map"]["files"].keys() >= {"cloglog", "mess", "presence"}
    scores = told["evaluate"]["result"]
    assert scores == json.loads(Path(told["evaluate"]["files"][-1]).read_text())
    assert told["overlap"]["result"]["schoener_d"] == pytest.approx(1.0)
    (tuned,) = told["tune"]["result"]
    assert [row["multiplier"] for row in tuned["rows"]] in ([1.0, 2.0], [2.0, 1.0])
    (species,) = told["check"]["result"]["records"]
    assert len(species["rows"]) == sum(species["counts"].values())
    assert told["tag evaluate"]["result"]["accuracy"] == 1.0
    assert told["tag train"]["result"]["tokens"] == 4


@pytest.mark.parametrize("name", ["explain", "sites"])
def test_json_after_the_command_is_the_result_alone(name, runs):
    args, run = runs[name]
    alone = call(name, *args, "--json", *(["--overwrite"] if name == "sites" else []))
    assert json.loads(alone.stdout) == json.loads(run.stdout)["result"]


def test_errors_are_answers_too(tmp_path):
    failed = call("--json", "report", tmp_path)
    told = json.loads(failed.stdout)
    assert (failed.exit_code, told["exit_code"], told["status"]) == (1, 1, "failed")
    (error,) = told["errors"]
    assert error in failed.stderr
    wrong = call("--json", "tag", "predict")
    told = json.loads(wrong.stdout)
    assert (wrong.exit_code, told["exit_code"], told["status"]) == (2, 2, "wrong usage")
    assert told["command"] == "tag predict"
    assert told["result"] is None


def test_an_interrupt_and_a_part_that_failed_are_told(tmp_path, monkeypatch, runs):
    def stop(*args, **how):
        raise KeyboardInterrupt

    monkeypatch.setattr(learning, "run", stop)
    told = json.loads(call("--json", "demo", "--learning", "-o", tmp_path).stdout)
    assert (told["status"], told["exit_code"]) == ("interrupted", 130)
    args, _ = runs["fit"]
    records = tmp_path / "two.csv"
    text = Path(args[0]).read_text()
    _, x, y = text.splitlines()[1].split(",")[:3]
    records.write_text(f"{text.rstrip()}\nToo few,{x},{y}\n")
    two = call("--json", "fit", records, args[1], "-c", "biome", "-o", tmp_path / "o", *QUICK)
    told = json.loads(two.stdout)
    assert (told["status"], told["exit_code"]) == ("partly", 3)
    assert told["errors"][0].startswith("Too few: ")
    assert [row["status"] for row in told["result"]["species"]] == ["ok", "failed"]


def test_what_serves_has_no_answer():
    run = call("--json", "app")
    assert run.exit_code == 2
    assert "--json has no effect on app" in json.loads(run.stdout)["errors"][0]


def test_quiet_is_of_no_harm_to_an_answer(runs):
    args, run = runs["overlap"]
    silent = call("--json", "overlap", *args, "--quiet")
    assert json.loads(silent.stdout)["result"] == json.loads(run.stdout)["result"]
    assert silent.stderr == ""
    assert call("overlap", *args, "--quiet").exit_code == 2  # would say nothing


def test_without_json_nothing_is_answered(tmp_path):
    assert call("report", tmp_path).stdout == ""
    assert call("--version").stdout == f"maxent {maxent.__version__}\n"
