"""Tools that tests need, and what is said where one is missing.

In a module of its own: rooms have conftest files, and ``import conftest`` finds the nearest.
"""

import importlib
import importlib.metadata
import os
import shutil
import sys
from pathlib import Path

import pytest

LONG = 0.06  # CPU seconds of a test that takes long


def needs(module: str):
    """Import an optional tool of the tests."""
    try:
        return importlib.import_module(module)
    except ImportError:
        lacking(f"{module} is not installed: pip install {module}")


def needs_program(name: str, package: str | None = None) -> str:
    """The path of a program of the system, and of its package where that has another name."""
    found = shutil.which(name)
    if found is None:
        lacking(f"{name} is not installed: apt-get install {package or name}")
    return found


def needs_node_modules() -> Path:
    """What web/package-lock.json names, installed by the Makefile."""
    needs_program("node")
    found = Path(__file__).parent.parent / "web" / "node_modules"
    if not found.is_dir():
        lacking("web/node_modules is not installed: make web/node_modules")
    return found


# numpy and Triton, as far as their second number: exact, so that a new one of either is tried
_NO_INTERPRETER = {
    ("2.5", "3.6"): "Triton's own code takes arrays of one number for scalars, which NumPy refuses"
}


def skip_without_interpreter(numpy: str | None = None, triton: str | None = None) -> None:
    """Skip where Triton's CPU interpreter cannot work; versions not given are those installed."""
    numpy = numpy or importlib.metadata.version("numpy")
    triton = triton or importlib.metadata.version("triton")
    series = tuple(".".join(version.split(".")[:2]) for version in (numpy, triton))
    if reason := _NO_INTERPRETER.get(series):
        together = f"the interpreter of Triton {triton} does not work with NumPy {numpy}"
        pytest.skip(f"{together}: {reason}", allow_module_level=True)


def draw_nothing(patch: pytest.MonkeyPatch | None = None) -> None:
    """Reports without drawing, until the patch is undone; in a worker, as long as it lives."""
    patch = patch or pytest.MonkeyPatch()
    figure = importlib.import_module("matplotlib.figure")
    figures = importlib.import_module("maxent.species.report.figures")
    maps = importlib.import_module("maxent.species.report.maps")
    empty = figures.Picture("svg+xml", b'<svg xmlns="http://www.w3.org/2000/svg"/>', 100.0, 100.0)
    patch.setattr(figures, "_svg", lambda figure: empty)
    patch.setattr(maps, "_png", lambda figure, dpi, colours: empty)
    patch.setattr(figure.Figure, "savefig", lambda self, file, **how: file.write(b"a picture"))


def docs_extension(name: str):
    """A module of docs/_ext, which is in no package."""
    folder = str(Path(__file__).parents[1] / "docs" / "_ext")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(name)


def lacking(reason: str) -> None:
    """Skip, or fail where nothing may be missing."""
    if os.environ.get("MAXENT_REQUIRE_ALL") == "1":
        pytest.fail(reason)
    pytest.skip(reason, allow_module_level=True)


def long_tests(costs: dict[str, float]) -> dict[str, float]:
    """Those that take long; of a file that has no others, the cheapest stays with the fast ones."""
    cheapest: dict[str, str] = {}
    for name in sorted(costs, key=costs.__getitem__):
        cheapest.setdefault(name.split("::")[0], name)
    kept = set(cheapest.values())
    return {name: t for name, t in costs.items() if t >= LONG and name not in kept}


def renewed(
    known: dict[str, float], costs: dict[str, float], left_out: set[str]
) -> dict[str, float]:
    """The slow tests after a run: of files that did not run, and of tests left out, as before."""
    files = {name.split("::")[0] for name in costs}
    before = {name: t for name, t in known.items() if name in left_out and name not in costs}
    elsewhere = {name: t for name, t in known.items() if name.split("::")[0] not in files}
    return elsewhere | long_tests({**before, **costs})
