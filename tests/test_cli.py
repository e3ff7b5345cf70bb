"""The command line: output, exit codes, one-line errors."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

import maxent
from maxent import cli, demo

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
    real = cli.importlib.util.find_spec
    hidden = {"rasterio", "matplotlib"}
    monkeypatch.setattr(
        cli.importlib.util, "find_spec", lambda name: None if name in hidden else real(name)
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
    assert {"extra torch", "extra dask", "extra docs", "extra dev"} <= lines.keys()
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
        "import sys, maxent, maxent.demo, maxent.io; maxent.Problem; "
        "print([m for m in ('typer', 'rich', 'matplotlib', 'sklearn') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
