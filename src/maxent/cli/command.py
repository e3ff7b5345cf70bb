"""The ``maxent`` command. The only package that imports typer and rich.

Exit codes: 0 done, 1 an error (one line; the traceback with ``maxent --debug``), 2 wrong usage,
3 some of many species failed, 130 interrupted.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from maxent._support.compiling import switches
from maxent._version import __version__
from maxent.cli import app, compare, species, tag
from maxent.cli._answers import FORMAT, Answering, answer
from maxent.cli._console import console, one_line_errors, recorded_warnings, settings
from maxent.cli._screen import Screen, show_notes

main = typer.Typer(
    name="maxent",
    help="Maximum-entropy learning as one convex problem, with a duality gap for every fit.",
    cls=Answering,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# what each extra brings, by the names under which it is imported
_EXTRAS = {
    "geo": ("rasterio", "xarray", "rioxarray", "geopandas"),
    "torch": ("torch",),
    "transformers": ("torch", "transformers"),
    "app": ("starlette", "uvicorn", "rio_tiler", "pydantic"),
    "dask": ("dask", "distributed", "cryptography"),
    "plot": ("matplotlib",),
}


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"maxent {__version__}")
        raise typer.Exit


@main.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print one JSON object for programs: result, files, notes and errors."
        ),
    ] = False,
) -> None:
    settings["debug"] = debug


@main.command()
@one_line_errors
def info() -> None:
    """Show versions, threads, the kernel cache and which extras are installed."""
    from maxent._support.threads import num_threads

    packages = ("numpy", "scipy", "numba", "scikit-learn")
    lacking = {
        extra: [name for name in needed if importlib.util.find_spec(name) is None]
        for extra, needed in _EXTRAS.items()
    }
    answer(
        {
            "maxent": __version__,
            "format": FORMAT,
            "python": platform.python_version(),
            "executable": sys.executable,
            "platform": platform.platform(),
            "packages": {name: importlib.metadata.version(name) for name in packages},
            "threads": num_threads(),
            "kernel_cache": _kernel_cache(),
            "lacking": lacking,
        }
    )
    screen = console()
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    table.add_row("maxent", __version__)
    table.add_row("python", f"{platform.python_version()} ({platform.platform()})")
    for package in packages:
        table.add_row(package, importlib.metadata.version(package))
    setting = os.environ.get("MAXENT_NUM_THREADS")
    source = "MAXENT_NUM_THREADS" if setting else "every core; set MAXENT_NUM_THREADS to change it"
    table.add_row("threads", f"{num_threads()} ({source})")
    table.add_row("kernel cache", escape(_kernel_cache()))
    for extra, lack in lacking.items():
        advice = f"[yellow]missing[/] {', '.join(lack)}: pip install {escape(f'maxent[{extra}]')}"
        table.add_row(f"extra {extra}", advice if lack else "[green]installed[/]")
    screen.print(table)


def _kernel_cache() -> str:
    """Where numba keeps compiled kernels: by the setting, beside the sources, or in the home."""
    from maxent.features.kernels.scores import fill_guide

    setting, path = os.environ.get("NUMBA_CACHE_DIR"), fill_guide.stats.cache_path
    if path is None:
        return "none: no folder can be written to (set NUMBA_CACHE_DIR)"
    if not os.path.isdir(path):
        above = next(folder for folder in Path(path).parents if folder.is_dir())
        path = f"nothing compiled yet; the first fit does so, in a folder inside {above}"
    if not setting:
        return f"{path} (set NUMBA_CACHE_DIR to move it)"
    used = Path(setting).resolve() in Path(fill_guide.stats.cache_path).resolve().parents
    return f"{path} (NUMBA_CACHE_DIR{'' if used else f', {setting}, cannot be written to'})"


class Kind(StrEnum):
    """Of jobs that kernels are compiled for."""

    species = "species"
    densities = "densities"
    classifiers = "classifiers"
    tagging = "tagging"
    structures = "structures"


@contextmanager
def _all_kernels() -> Iterator[None]:
    """Small problems run on the kernels of larger ones."""
    switches.spare_small_problems = False
    try:
        yield
    finally:
        switches.spare_small_problems = True


@main.command()
@one_line_errors
def warm(
    kinds: Annotated[
        list[Kind] | None, typer.Argument(help="What to make ready; all kinds by default.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    """Compile what fits run on, by small fits of every kind: the first real one begins at once."""
    from maxent.demo.first_fits import FITS

    needed = (*_EXTRAS["geo"], *_EXTRAS["plot"])
    lacking = [name for name in needed if importlib.util.find_spec(name) is None]
    compiled = []
    for kind in kinds or list(Kind):
        if kind is Kind.species and lacking:
            show_notes(["species: pip install 'maxent[geo,plot]' first"], console(stderr=True))
            continue
        for name, run in FITS[kind.value].items():
            begin = perf_counter()
            with recorded_warnings(), _all_kernels():  # warnings of data as small as these
                run()
            seconds = perf_counter() - begin
            compiled.append({"kind": kind.value, "name": name, "seconds": seconds})
            if not quiet:
                console().print(f"{kind.value}: {name}, {seconds:.1f} s")
    answer(compiled)
    if not quiet:
        console().print(f"kept in {escape(_kernel_cache())}", soft_wrap=True)


@main.command()
@one_line_errors
def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the data, the map and the report.")
    ] = Path("out/demo"),
    learning: Annotated[
        bool,
        typer.Option(
            "--learning", help="Fit densities and a sparse classifier instead of a species."
        ),
    ] = False,
    kinds: Annotated[
        bool,
        typer.Option("--kinds", help="Fit presences, a survey with absences and counts together."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
    seed: Annotated[int, typer.Option(help="Generate the data from this seed.", min=0)] = 0,
) -> None:
    """Fit a virtual species on a generated landscape: map, report, and how close to the truth."""
    if learning and kinds:
        raise typer.BadParameter("--learning and --kinds are two demonstrations; choose one")
    if learning:
        from maxent.demo import learning as densities

        summary = densities.run(out, seed=seed, quiet=True)
        answer(summary, summary["files"])
        if not quiet:
            _show_fits(summary)
    else:
        from maxent.demo import species as virtual

        with Screen(quiet) as screen:
            run = virtual.run_kinds if kinds else virtual.run
            summary = run(out, seed=seed, listener=screen)
        answer(summary, [out / "results" / "report.html"])
        for line in () if quiet else summary["lines"]:
            console().print(escape(line), soft_wrap=True)


def _show_fits(summary: dict[str, Any]) -> None:
    screen = console()
    table = Table(title="Every fit with its certificate", title_justify="left")
    for name in ("fit", "status", "seconds", "steps", "duality gap", "guaranteed", "result"):
        right = name in ("seconds", "steps", "duality gap")
        table.add_column(name, justify="right" if right else "left")
    for fit in summary["fits"]:
        table.add_row(
            escape(fit["name"]),
            fit["status"],
            f"{fit['seconds']:.2f}",
            str(fit["n_iter"]),
            f"{fit['gap']:.1e}",
            escape(fit["guarantee"]),
            escape(fit["result"]),
        )
    screen.print(table)
    for path in summary["files"]:
        screen.print(f"wrote {escape(path)}", soft_wrap=True)


species.add_to(main)
compare.add_to(main)
tag.add_to(main)
app.add_to(main)
