"""maxent report: the page of a result, written again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from maxent.cli._answers import answer
from maxent.cli._console import console, one_line_errors
from maxent.cli.species.arguments import (
    Quiet,
)
from maxent.species.input.file_access import limited


@one_line_errors
def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a fitted species.")],
    quiet: Quiet = False,
) -> None:
    """Write the report of a fitted species again."""
    from maxent.species.batch import job

    with limited(vrt=False, network=False):
        path = job.rewrite_report(folder)
    answer({"page": path}, [path])
    if not quiet:
        console().print(f"wrote {escape(str(path))}", soft_wrap=True)
