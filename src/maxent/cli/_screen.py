"""What commands on species show: how a run goes, and what came of it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from maxent._support.compiling import switches
from maxent._support.progress import Progress as LogLines
from maxent._support.progress import tell_event
from maxent._support.terminal import CAUTION, PARTLY
from maxent.cli._answers import answer, noted
from maxent.cli._console import compiling_words, complain, console

_TOLD = ("species", "status", "folder", "n_records", "auc", "test_auc", "gap", "seconds", "error")
_LOOSE = 1e-6  # a duality gap above it is worth a word


class Screen:
    """How a run goes, on standard error: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self, quiet: bool) -> None:
        screen = console(stderr=True)
        self._quiet = quiet
        self._bar = Progress(
            TextColumn("[bold]{task.fields[species]}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=screen,
            transient=True,
            disable=quiet or not screen.is_terminal,
        )
        self._log = LogLines("maxent", verbose=int(not quiet and not screen.is_terminal))
        self._task: Any = None
        self._done = self._total = 0

    def __enter__(self) -> Screen:
        self._bar.start()
        if switches.before_compiling is not None:
            switches.before_compiling = self._compiling
        self._task = self._bar.add_task("reading layers", total=None, species="")
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def _compiling(self, folder: str | None) -> None:
        text = compiling_words(folder)
        tell_event("note", text=text)
        self._bar.console.print(escape(text), soft_wrap=True)

    def note(self, text: str) -> None:
        """A line above the bar."""
        tell_event("note", text=text)
        noted([text])
        if not self._quiet:
            show_notes([text], self._bar.console)

    def begin(self, species: Sequence[str]) -> None:
        """Know how many there are."""
        tell_event("begin", species=list(species))
        self._total = len(species)
        self._bar.update(self._task, total=self._total, description="")

    def stage(self, species: str, name: str) -> None:
        """Show the step."""
        tell_event("stage", species=species, stage=name)
        self._bar.update(self._task, description=name, species=escape(species))
        self._log.update(f"{self._done} of {self._total} done, {species}: {name}")

    def done(self, row: dict[str, Any]) -> None:
        """Count it."""
        tell_event("done", **{key: row.get(key) for key in _TOLD})
        self._done += 1
        self._bar.update(self._task, advance=1, species=escape(row["species"]))
        self._log.update(f"{self._done} of {self._total} done")


def show_notes(notes: Iterable[str], screen: Console) -> None:
    """One line each; a caution stands out."""
    told = list(notes)
    noted(told)
    for note in told:
        loud = note.startswith(CAUTION)
        word = "[bold red]caution:[/]" if loud else "[yellow]note:[/]"
        screen.print(f"{word} {escape(note.removeprefix(CAUTION))}", soft_wrap=True)


def conclude(rows: Sequence[dict[str, Any]], out: Path, notes: Iterable[str], quiet: bool) -> None:
    """The scores of all species, and where to look; exits with its own code if some failed."""
    failed = [row for row in rows if row["status"] != "ok"]
    for row in failed:
        complain(f"{row['species']}: {row['error']}")
    fitted = [row for row in rows if row["status"] == "ok"]
    loose = [
        f"{row['species']}: solved to a gap of {row['gap']:.0e} only; see its report"
        for row in fitted
        if row["gap"] > _LOOSE
    ]
    told = list(dict.fromkeys([*notes, *_notes_of(fitted), *loose]))
    page = out / ("report.html" if len(rows) == 1 else "index.html")
    noted(told)
    answer({"out": out, "page": page, "species": list(rows)}, [page] if fitted else [])
    if not quiet:
        for note in told:
            tell_event("note", text=note)
        show_notes(told, console(stderr=True))
        if fitted:
            console().print(_scores(fitted))
        for row in fitted:
            for what in ("maps", "presence", "change"):
                for said in row.get(what, ()):
                    console().print(escape(f"{row['species']}, {said}"), soft_wrap=True)
        console().print(f"open {escape(str(page))}", soft_wrap=True)
    if failed:
        raise typer.Exit(PARTLY)


def _notes_of(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The notes of all species; those of one among several say whose they are."""
    known = Counter(note for row in rows for note in dict.fromkeys(row.get("notes", ())))
    for row in rows:
        for note in row.get("notes", ()):
            if len(rows) == 1 or known[note] > 1 or row["species"] in note:
                yield note
            else:
                loud = CAUTION if note.startswith(CAUTION) else ""
                yield f"{loud}{row['species']}: {note.removeprefix(CAUTION)}"


def _scores(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table()
    kinds = sorted({row["test_auc_of"] for row in rows if row.get("test_auc_of")})
    held_out = f"AUC, {kinds[0]}" if len(kinds) == 1 else "AUC held out"
    for name in ("species", "records", "AUC", held_out, "gain", "gap", "seconds"):
        table.add_column(name, justify="left" if name == "species" else "right")
    for row in rows:
        held = "" if row["test_auc"] is None else f"{row['test_auc']:.3f}"
        held += f" ({row['test_auc_of']})" if held and len(kinds) > 1 else ""
        kept = " (kept)" if row.get("resumed") else ""
        table.add_row(
            escape(row["species"]),
            str(row["n_records"]),
            f"{row['auc']:.3f}",
            held,
            "" if math.isnan(row["gain"]) else f"{row['gain']:.3f}",
            f"{row['gap']:.0e}",
            f"{row['seconds']:.1f}{kept}",
        )
    return table
