"""Commands of an ecologist: check, fit, project, evaluate, tune, explain, sites and report."""

from __future__ import annotations

import typer

from maxent.cli.species.checking import check
from maxent.cli.species.evaluating import evaluate
from maxent.cli.species.explaining import explain
from maxent.cli.species.fitting import fit
from maxent.cli.species.projecting import project
from maxent.cli.species.reporting import report
from maxent.cli.species.surveying import sites
from maxent.cli.species.tuning import tune


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (check, fit, project, evaluate, tune, explain, sites, report):
        app.command()(command)
