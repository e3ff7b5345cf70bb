"""maxent app: the whole workflow in a browser."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from maxent.cli._answers import asked
from maxent.cli._console import console, one_line_errors


@one_line_errors
def app(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Folders to open: with records and layers, or finished results. The page sees "
            "nothing outside them. [default: the current folder]"
        ),
    ] = None,
    port: Annotated[
        int, typer.Option(help="Listen on this port; 0 takes any that is free.", min=0, max=65535)
    ] = 0,
    demo: Annotated[
        bool,
        typer.Option(
            "--demo",
            help="Open the data of `maxent demo`, with everything chosen: they are written to the "
            "folder given, or to maxent-demo.",
        ),
    ] = False,
    browse: Annotated[bool, typer.Option(help="Open the browser.")] = True,
) -> None:
    """Open the whole workflow, or finished results, in a browser on this machine."""
    import importlib.util

    if asked():
        raise typer.BadParameter("--json has no effect on app, which serves a page until stopped")
    needed = ("starlette", "uvicorn", "rio_tiler", "pydantic")
    lacking = [name for name in needed if not importlib.util.find_spec(name)]
    if lacking:
        raise ImportError(f"the app needs {', '.join(lacking)}: pip install maxent[app]")
    from maxent.app.example import FOLDER, open_example
    from maxent.app.serving import open_folders, serve

    if demo and len(folders or []) > 1:
        raise ValueError(f"--demo writes its data to one folder, got {len(folders or [])}")
    places = folders or []
    opened = open_example([*places, Path(FOLDER)][0]) if demo else open_folders(places)
    with suppress(KeyboardInterrupt):  # the usual way to stop it
        serve(opened, port=port, browse=browse, tell=_show)


def _show(link: str) -> None:
    console().print(f"open {escape(link)}", soft_wrap=True)
    console().print("Ctrl-C stops it; fits that are running go on.")


def add_to(main: typer.Typer) -> None:
    """Register the command."""
    main.command()(app)
