"""Commands of an ecologist: fit, project, evaluate, tune and report."""

from __future__ import annotations

import typer

from maxent.cli.species.evaluating import evaluate
from maxent.cli.species.fitting import fit
from maxent.cli.species.projecting import project
from maxent.cli.species.reporting import report
from maxent.cli.species.tuning import tune


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (fit, project, evaluate, tune, report):
        app.command()(command)
