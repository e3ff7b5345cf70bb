"""The ``maxent`` command. The only module that imports typer and rich.

Exit codes: 0 done, 1 an error (one line; the traceback with ``maxent --debug``), 2 wrong usage.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from maxent._version import __version__

main = typer.Typer(
    name="maxent",
    help="Maximum-entropy learning as one convex problem, with a duality gap for every fit.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

# what each extra brings, by the names under which it is imported
_EXTRAS = {
    "geo": ("rasterio", "xarray", "rioxarray", "geopandas"),
    "torch": ("torch",),
    "dask": ("dask", "distributed"),
    "plot": ("matplotlib",),
    "docs": ("sphinx", "myst_parser", "furo"),
    "dev": ("pytest", "xdist", "hypothesis", "ruff", "mypy", "cvxpy"),
}
_settings = {"debug": False}


def _console(stderr: bool = False) -> Console:
    """Made at each use: tests and pipes change the streams. No wrapping where nobody looks."""
    console = Console(stderr=stderr, highlight=False)
    return console if console.is_terminal else Console(stderr=stderr, highlight=False, width=200)


def _one_line_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Turn an exception of a command into one line and exit code 1."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except Exception as error:
            if _settings["debug"]:
                raise
            text = " ".join(str(error).split()) or type(error).__name__
            _console(stderr=True).print(f"[bold red]error:[/] {escape(text)}", soft_wrap=True)
            raise typer.Exit(1) from None

    return wrapped


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
) -> None:
    _settings["debug"] = debug


@main.command()
@_one_line_errors
def info() -> None:
    """Show versions, threads, the kernel cache and which extras are installed."""
    from maxent._threads import num_threads

    console = _console()
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    table.add_row("maxent", __version__)
    table.add_row("python", f"{platform.python_version()} ({platform.platform()})")
    for package in ("numpy", "scipy", "numba", "scikit-learn"):
        table.add_row(package, importlib.metadata.version(package))
    setting = os.environ.get("MAXENT_NUM_THREADS")
    source = "MAXENT_NUM_THREADS" if setting else "every core; set MAXENT_NUM_THREADS to change it"
    table.add_row("threads", f"{num_threads()} ({source})")
    table.add_row("kernel cache", escape(_kernel_cache()))
    for extra, packages in _EXTRAS.items():
        lack = [name for name in packages if importlib.util.find_spec(name) is None]
        advice = f"[yellow]missing[/] {', '.join(lack)}: pip install {escape(f'maxent[{extra}]')}"
        table.add_row(f"extra {extra}", advice if lack else "[green]installed[/]")
    console.print(table)


def _kernel_cache() -> str:
    """Where numba keeps compiled kernels: the setting, or beside the source files."""
    setting = os.environ.get("NUMBA_CACHE_DIR")
    if setting:
        return f"{setting} (NUMBA_CACHE_DIR)"
    return f"{Path(__file__).parent / '_kernels' / '__pycache__'} (set NUMBA_CACHE_DIR to move it)"


@main.command()
@_one_line_errors
def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the plot and the models.")
    ] = Path("out/demo"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the generated data.", min=0)] = 0,
) -> None:
    """Fit a density and a sparse classifier, print their duality gaps, save a plot."""
    from maxent import demo as demonstration

    summary = demonstration.run(out, seed=seed, quiet=True)
    if not quiet:
        _show_fits(summary)


def _show_fits(summary: dict[str, Any]) -> None:
    console = _console()
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
    console.print(table)
    for path in summary["files"]:
        console.print(f"wrote {escape(path)}", soft_wrap=True)


if __name__ == "__main__":
    main()
