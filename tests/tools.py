"""Tools that tests need, and what is said where one is missing.

In a module of its own: rooms have conftest files, and ``import conftest`` finds the nearest.
"""

import importlib
import importlib.metadata
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import pytest

LONG = 0.06  # CPU seconds of a test that takes long
SHARED_LONG = 1.0  # and of a fixture of several tests, which take long with it


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


class Paper:
    """Axes, and all that is asked of them, on which nothing is drawn: to make some takes longer."""

    bounds = (0.0, 0.0, 1.0, 1.0)
    height = 1.0

    def __getattr__(self, name: str) -> "Paper":
        return self

    def __call__(self, *args, **how) -> "Paper":
        return self

    def __getitem__(self, key) -> "Paper":
        return self

    def __radd__(self, other) -> "Paper":
        return self

    def __iter__(self):
        return iter(())

    def get_xlim(self) -> tuple[float, float]:
        return (0.0, 1.0)

    get_ylim = get_xlim

    def get_figheight(self) -> float:
        return 1.0


def draw_nothing(patch: pytest.MonkeyPatch | None = None) -> None:
    """Reports without drawing, until the patch is undone; in a worker, as long as it lives."""
    patch = patch or pytest.MonkeyPatch()
    figure = importlib.import_module("matplotlib.figure")
    figures = importlib.import_module("maxent.species.report.figures")
    maps = importlib.import_module("maxent.species.report.maps")
    empty = figures.Picture("svg+xml", b'<svg xmlns="http://www.w3.org/2000/svg"/>', 100.0, 100.0)
    patch.setattr(figures, "_svg", lambda figure: empty)
    patch.setattr(maps, "_png", lambda figure, dpi, colours: empty)
    paper = Paper()
    for name in ("add_axes", "colorbar", "legend"):
        patch.setattr(figure.Figure, name, lambda self, *args, **how: paper)
    patch.setattr(figure.Figure, "axes", property(lambda self: paper, lambda self, axes: None))
    patch.setattr(figure.Figure, "savefig", lambda self, file, **how: file.write(b"a picture"))


def few_refits(patch: pytest.MonkeyPatch) -> None:
    """Two refits for the bands of response curves, which are most of a small fit's time."""
    judging = importlib.import_module("maxent.species.judging")
    responses = judging.responses
    patch.setattr(
        judging,
        "responses",
        lambda *of, bootstrap, **how: responses(*of, bootstrap=min(bootstrap, 2), **how),
    )


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


def shared_name(place: str, fixture: str) -> str:
    """Of a fixture that several tests share, among the names of tests."""
    return f"{place}::@{fixture}"


def is_slow(test: str, fixtures: Iterable[str], known: dict[str, float]) -> bool:
    """Whether the test or a fixture it shares is known to take long."""
    folders = [str(place) for place in PurePosixPath(test.split("::")[0]).parents]
    places = [test.split("::")[0], *folders]
    shared = (shared_name(place, fixture) for fixture in fixtures for place in places)
    return test in known or any(name in known for name in shared)


def long_tests(costs: dict[str, float]) -> dict[str, float]:
    """Tests and shared fixtures that take long; of each file the cheapest test stays fast."""
    tests = {name: t for name, t in costs.items() if "::@" not in name}
    cheapest: dict[str, str] = {}
    for name in sorted(tests, key=tests.__getitem__):
        cheapest.setdefault(name.split("::")[0], name)
    kept = set(cheapest.values())
    long = {name: t for name, t in tests.items() if t >= LONG and name not in kept}
    shared = costs.keys() - tests.keys()
    return long | {name: costs[name] for name in shared if costs[name] >= SHARED_LONG}


def renewed(
    known: dict[str, float], costs: dict[str, float], left_out: set[str]
) -> dict[str, float]:
    """The slow tests after a run: of files that did not run, and of tests left out, as before.

    So are fixtures that nobody asked for in a run of some tests.
    """
    files = {name.split("::")[0] for name in costs}
    apart = {name for name in known if name in left_out or (left_out and "::@" in name)}
    before = {name: t for name, t in known.items() if name in apart - costs.keys()}
    elsewhere = {name: t for name, t in known.items() if name.split("::")[0] not in files}
    return elsewhere | long_tests({**before, **costs})


def spread(things: list, few: int) -> list:
    """At most so many of them, evenly over the whole."""
    if len(things) <= few:
        return things
    return [things[(2 * i + 1) * len(things) // (2 * few)] for i in range(few)]
