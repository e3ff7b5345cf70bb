"""The command line: output, exit codes, one-line errors."""

import dataclasses
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

import numba
import pytest
import typer
from typer.testing import CliRunner

import maxent
from catalogue import ESTIMATORS
from maxent import cli
from maxent._support.compiling import kernels as compiling
from maxent._support.compiling import switches
from maxent._support.progress import EVENTS
from maxent.cli._console import one_line_errors
from maxent.cli._options import Fields
from maxent.cli._screen import Screen
from maxent.demo import learning as demo
from maxent.demo.first_fits import FITS
from maxent.species.fitting.options import GROUPS, options_of
from maxent.species.fitting.settings import Settings
from maxent.species.input.files import LayerFiles, RecordFile

SUMMARY = {
    "fits": [
        {
            "name": "a fit",
            "status": "converged",
            "seconds": 0.5,
            "n_iter": 7,
            "gap": 3e-9,
            "guarantee": "KL(p* || p) <= 3e-09",
            "result": "as [expected]",
        }
    ],
    "files": ["out/demo.png"],
}


@pytest.fixture
def run():
    return lambda *args: CliRunner().invoke(cli.main, args)


def test_version(run):
    result = run("--version")
    assert (result.exit_code, result.output) == (0, f"maxent {maxent.__version__}\n")


def test_info(run, monkeypatch):
    monkeypatch.setenv("MAXENT_NUM_THREADS", "3")
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/somewhere/kernels")
    real = importlib.util.find_spec
    hidden = {"rasterio", "matplotlib"}
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in hidden else real(name)
    )
    result = run("info")
    assert result.exit_code == 0
    lines = {line.split("  ")[0]: line for line in result.output.splitlines()}
    for name in ("maxent", "python", "numpy", "scipy", "numba", "scikit-learn"):
        assert any(character.isdigit() for character in lines[name])
    assert "3 (MAXENT_NUM_THREADS)" in lines["threads"]
    assert "/somewhere/kernels" in lines["kernel cache"]
    assert "missing matplotlib: pip install maxent[plot]" in lines["extra plot"]
    assert "missing rasterio" in lines["extra geo"]
    shown = {name.removeprefix("extra ") for name in lines if name.startswith("extra ")}
    pyproject = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert shown == set(pyproject["project"]["optional-dependencies"])
    assert "\x1b" not in result.output  # plain where it is not a terminal


def test_demo(run, monkeypatch, tmp_path):
    calls = []

    def fake(out, seed, quiet):
        calls.append((out, seed, quiet))
        return SUMMARY

    monkeypatch.setattr(demo, "run", fake)
    result = run("demo", "--learning", "-o", str(tmp_path), "--seed", "4")
    assert result.exit_code == 0
    for words in ("a fit", "3.0e-09", "KL(p* || p) <= 3e-09", "as [expected]", "out/demo.png"):
        assert words in result.output
    quiet = run("demo", "--learning", "-o", str(tmp_path), "--quiet")
    assert (quiet.exit_code, quiet.output) == (0, "")
    assert calls == [(tmp_path, 4, True), (tmp_path, 0, True)]


@pytest.mark.parametrize(
    "args",
    [("demo", "--nonsense"), ("nonsense",), ("demo", "-o", "x", "--seed", "-1"), ("--nonsense",)],
)
def test_wrong_usage(run, args):
    assert run(*args).exit_code == 2


def test_errors_are_one_line(run, monkeypatch, tmp_path):
    def fail(*args, **kwargs):
        raise OSError("no space\nleft [on] device")

    monkeypatch.setattr(demo, "run", fail)
    result = run("demo", "--learning", "-o", str(tmp_path))
    assert result.exit_code == 1
    assert result.stderr == "error: no space left [on] device\n"
    assert result.stdout == ""
    debug = run("--debug", "demo", "--learning", "-o", str(tmp_path))
    assert isinstance(debug.exception, OSError)
    assert (
        run("demo", "--learning", "-o", str(tmp_path)).exit_code == 1
    )  # the setting does not stick


def _slip(out, **options):
    return [][len(str(out))]


def _uncompiled(out, **options):
    numba.njit(lambda x: x + "a")(1)


@pytest.mark.parametrize(
    ("fail", "words"),
    [
        (_slip, r"a fault of maxent \(IndexError: list index out of range, test_cli.py line \d+\)"),
        (_uncompiled, r"a fault of maxent \(TypingError: Failed in nopython mode.*line \d+\)"),
    ],
)
def test_faults_of_our_own_are_called_so(fail, words, run, monkeypatch, tmp_path):
    monkeypatch.setattr(demo, "run", fail)
    result = run("demo", "--learning", "-o", str(tmp_path))
    assert result.exit_code == 1
    assert re.fullmatch(rf"error: {words}; `maxent --debug` .*report it\n", result.stderr)
    assert len(result.stderr) < 300


@pytest.mark.skipif(os.name != "posix", reason="closes streams with a shell")
def test_closed_and_full_streams(tmp_path):
    """Real processes: a standard stream that is closed or full is no reason for a traceback."""
    command = f"{sys.executable} -m maxent"
    for line, code in (
        (f"{command} report {tmp_path} 2>&-", 1),
        (f"{command} report {tmp_path} >&-", 1),
        (f"{command} info >&- 2>&-", 0),
        (f"{command} info <&-", 0),
    ):
        done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
        assert done.returncode == code, line
        assert "Traceback" not in done.stderr, line
    if Path("/dev/full").exists():
        done = subprocess.run(f"{command} info > /dev/full", shell=True, stderr=subprocess.PIPE)
        assert done.returncode == 1
        assert done.stderr == b"error: No space left on device\n"


def test_a_file_in_the_way(run, tmp_path):
    (tmp_path / "file").write_text("")
    result = run("demo", "-o", str(tmp_path / "file"))
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")


def test_module_runs():
    result = subprocess.run(
        [sys.executable, "-m", "maxent.cli", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout == f"maxent {maxent.__version__}\n"


def test_rich_and_typer_stay_in_the_command():
    code = (
        "import sys, maxent, maxent.demo.learning, maxent.io; maxent.Problem; "
        "print([m for m in ('typer', 'rich', 'matplotlib', 'sklearn') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


# -- options that come from fields ----------------------------------------------------------------


def _options(command):
    """The options of a command by their first flag; a flag that stands twice fails."""
    listed = [(p.opts[0], p) for p in typer.main.get_command(cli.main).commands[command].params]
    assert len(dict(listed)) == len(listed)
    return dict(listed)


def _flag(name, option):
    return option.flags[0] if option.flags else f"--{name.replace('_', '-')}"


@pytest.mark.parametrize("cls", [Settings, LayerFiles, RecordFile])
def test_every_field_is_one_option_of_fit(cls):
    shown, fields = _options("fit"), options_of(cls)
    for name, option in fields.items():
        parameter = shown[_flag(name, option)]
        assert parameter.help == option.help
        assert parameter.rich_help_panel == option.group
        assert option.group in GROUPS
    required = {f.name for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING}
    rest = {f.name for f in dataclasses.fields(cls)} - fields.keys() - required
    assert rest == ({"diagnostic_cells", "verbose"} if cls is Settings else set())


@pytest.mark.parametrize(
    ("command", "other"),
    [
        ("fit", ()),
        ("tune", ("--features",)),  # several to try
        ("evaluate", ()),
        ("project", ("--output", "--threshold", "--intervals")),  # none forced; those of the model
    ],
)
def test_defaults_are_those_of_the_fields(command, other):
    shown = _options(command)
    typed = {parameter.name: parameter.default for parameter in shown.values()}
    classes = {Settings: (), LayerFiles: (("layers",),), RecordFile: ("records.csv",)}
    for cls, given in classes.items():
        flags = {name: _flag(name, option) for name, option in options_of(cls).items()}
        names = [name for name, flag in flags.items() if flag in shown and flag not in other]
        if names:
            assert Fields(cls, *names).maker(typed)(*given) == cls(*given)


TYPED = {
    "--features": ("lq", "lq"),
    "--potential": ("elastic", "elastic"),
    "--entropy": ("tsallis:1.5", "tsallis:1.5"),
    "--multiplier": ("2.5", 2.5),
    "--preset": ("maxnet", "maxnet"),
    "--select": ("vif=7.5", "vif=7.5"),
    "--background": ("all", None),
    "--bias-as": ("prior", "prior"),
    "--bias-kernel": ("50", "50"),
    "--keep-duplicates": (None, True),
    "--clean": (None, True),
    "--thin": ("3.5", 3.5),
    "--minimum": ("7", 7),
    "--test-share": ("0.25", 0.25),
    "--cv": ("blocks", "blocks"),
    "--folds": ("5", 5),
    "--block-size": ("layers", "layers"),
    "--replicates": ("6", 6),
    "--replicate-type": ("subsample", "subsample"),
    "--no-jackknife": (None, False),
    "--bootstrap": ("8", 8),
    "--permutations": ("9", 9),
    "--prevalence": ("0.4", 0.4),
    "--output": ("raw", ("cloglog", "raw")),
    "--no-clamp": (None, False),
    "--mask": ("exdet", "exdet"),
    "--extent": ("frame.gpkg", "frame.gpkg"),
    "--threshold": ("0.3", "0.3"),
    "--seed": ("11", 11),
}


TOGETHER = {  # which do not go with some of the others
    "--intervals": ("laplace", "laplace"),
    "--joint": (None, True),
    "--group-column": ("family", "family"),
    "--spatial": (None, True),
}


@pytest.fixture
def calls(monkeypatch):
    """What `maxent fit` was asked for."""
    from maxent.species.batch import workflow

    made = []

    def fake(records, layers, out, settings, **others):
        made.append((records, layers, out, settings, others))
        return []

    monkeypatch.setattr(workflow, "fit_files", fake)
    monkeypatch.setattr("maxent.cli.species.fitting.check_there", lambda *tables, rasters: None)
    return made


def test_what_is_typed_of_species_fitted_together_reaches_the_fit(run, calls):
    args = [w for flag, (text, _) in TOGETHER.items() for w in (flag, text) if w is not None]
    result = run("fit", "records.csv", "a.tif", *args)
    assert result.exit_code == 0, result.output
    ((_, _, _, settings, others),) = calls
    assert (settings.joint, settings.group_column, settings.spatial) == (True, "family", True)
    assert others["group"] is None


def test_what_is_typed_reaches_the_fit(run, calls):
    args = [word for flag, (text, _) in TYPED.items() for word in (flag, text) if word is not None]
    args += ["--x", "east", "--y", "north", "--species-column", "taxon", "--crs", "EPSG:3035"]
    args += ["-c", "soil", "-c", "biome", "--align", "finest", "--resampling", "average"]
    args += ["--layers-crs", "EPSG:4326", "--project", "future", "-o", "out"]
    args += ["--background-records", "records.csv"]
    result = run("fit", "records.csv", "a.tif", "b.tif", *args)
    assert result.exit_code == 0, result.output
    ((records, layers, out, settings, others),) = calls
    for name, option in options_of(Settings).items():
        flag = _flag(name, option)
        if flag in TOGETHER:
            continue
        text, value = TYPED[flag if flag in TYPED else flag.replace("--", "--no-", 1)]
        assert getattr(settings, name) == value
        assert value != getattr(Settings(), name), f"{flag} {text} is the default"
    opened = LayerFiles(("a.tif", "b.tif"), ("soil", "biome"), "finest", "average", "EPSG:4326")
    assert records == RecordFile("records.csv", "taxon", "east", "north", "EPSG:3035")
    assert (layers, out) == (opened, Path("out"))
    assert others["projections"] == [dataclasses.replace(opened, sources=("future",))]
    assert others["group"] == records


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (("--bias-as", "both"), "--bias-as must be one of background, prior, got 'both'"),
        (("--replicate-type", "x"), "--replicate-type must be one of bootstrap, subsample"),
        (("--background", "few"), "--background is a number of cells or all, got 'few'"),
        (("--align", "x"), "--align must be one of refuse, first, finest, coarsest, got 'x'"),
        (("--test-share", "1"), "0.99"),
        (("--threshold", "best"), "--threshold must be a number from 0 to 1 (cloglog) or"),
    ],
)
def test_what_a_field_refuses_is_wrong_usage(run, typed, message):
    result = run("fit", "records.csv", "layers", *typed)
    assert result.exit_code == 2
    said = " ".join(result.output.replace("│", " ").split())
    assert message in said


def test_letters_and_potentials_are_those_of_their_tables():
    from maxent.core.potentials import BY_NAME
    from maxent.features.letters import ALL
    from maxent.species import Settings

    Settings(features=ALL)
    for name in BY_NAME:
        Settings(potential=name)
    for wrong in ({"features": ALL + "x"}, {"potential": "l1"}):
        with pytest.raises(ValueError, match=ALL if "features" in wrong else "smooth-box, laplace"):
            Settings(**wrong)


def test_warm_tells_what_it_compiles_and_where_it_is_kept(run, monkeypatch):
    done = []
    for fits in FITS.values():
        for name in fits:
            monkeypatch.setitem(fits, name, partial(done.append, name))
    result = run("warm", "classifiers")
    assert done == list(FITS["classifiers"])
    told = [line for line in result.stdout.splitlines() if line.startswith("classifiers: ")]
    assert [line.split(": ")[1].split(",")[0] for line in told] == done
    assert "kept in " in result.stdout
    done.clear()
    assert run("warm", "--quiet").output == ""
    assert done == [name for fits in FITS.values() for name in fits]


def test_warm_compiles_what_small_problems_do_without(run, monkeypatch):
    seen = []
    for name in FITS["tagging"]:
        monkeypatch.setitem(
            FITS["tagging"], name, lambda: seen.append(switches.spare_small_problems)
        )
    run("warm", "tagging")
    assert seen == [False] * len(FITS["tagging"])
    assert switches.spare_small_problems


def test_every_estimator_has_a_first_fit():
    names = {name for fits in FITS.values() for name in fits} - {"maxent fit"}
    names -= {"IntegratedDensity"}  # fitted to sources, which scikit-learn's checks have not
    assert names == {type(estimator).__name__ for estimator in ESTIMATORS}


@pytest.mark.parametrize("quiet", [False, True])
def test_a_command_says_once_that_it_compiles(quiet, capsys):
    @one_line_errors
    def command(quiet):
        for _ in range(2):
            compiling._tell("a folder")

    command(quiet=quiet)
    words = "compiling for this computer, once; kept for later runs (maxent info says where)\n"
    assert capsys.readouterr().err == ("" if quiet else words)
    compiling._tell("a folder")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("place", ["home", "elsewhere"])
def test_where_kernels_are_kept_is_told_without_a_path_of_the_machine(
    place, tmp_path, monkeypatch, capsys
):
    """In the terminal, and in the events that the page shows as notes."""
    for variable in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(variable, str(tmp_path / "home"))
    monkeypatch.setenv(EVENTS, str(tmp_path / "events.jsonl"))

    @one_line_errors
    def command():
        with Screen(quiet=False):
            compiling._tell(str(tmp_path / place / ".cache" / "numba"))

    command()
    (event,) = map(json.loads, (tmp_path / "events.jsonl").read_text().splitlines())
    kept = "in ~/.cache/numba" if place == "home" else "for later runs (maxent info says where)"
    assert event["text"] == f"compiling for this computer, once; kept {kept}"
    assert event["text"] in capsys.readouterr().err
