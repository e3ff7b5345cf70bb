"""What ``maxent --json COMMAND ...`` prints: one JSON object, whatever became of the command.

docs/programs.md says what is in it. Commands hand over their results with :func:`answer`; notes and
errors come from where they are shown. Without ``--json`` nothing of this does anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from maxent._support.terminal import FAILED, INTERRUPTED, PARTLY
from maxent._version import __version__

FORMAT = 1  # a program that knows it can read all later answers of the same number
USAGE = 2
STATUS = {
    0: "done",
    FAILED: "failed",
    USAGE: "wrong usage",
    PARTLY: "partly",
    INTERRUPTED: "interrupted",
}


@dataclass
class _Answer:
    """What is known of the running command."""

    command: list[str] = field(default_factory=list)
    result: Any = None
    files: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def told(self, code: int) -> dict[str, Any]:
        """The object that is printed."""
        return {
            "maxent": __version__,
            "format": FORMAT,
            "command": " ".join(self.command),
            "status": STATUS[code],
            "exit_code": code,
            "errors": self.errors,
            "notes": list(dict.fromkeys(self.notes)),
            "files": self.files,
            "result": self.result,
        }


_current: list[_Answer] = []  # one while a command runs that was asked for JSON


def asked() -> bool:
    """Whether the running command answers a program: then nothing else goes to standard output."""
    return bool(_current)


def answer(result: Any, files: Iterable[str | Path] = ()) -> None:
    """What came of the command, and the files it wrote."""
    for one in _current:
        one.result = result
        one.files += [str(path) for path in files]


def noted(notes: Iterable[str]) -> None:
    """Notes are part of the answer."""
    for one in _current:
        one.notes += notes


def complained(error: str) -> None:
    """So are errors."""
    for one in _current:
        one.errors.append(error)


def print_json(value: Any) -> None:
    """Print one value by itself, as ``COMMAND --json`` does where a command has that option."""
    if not asked():
        typer.echo(_text(value))


def _text(value: Any) -> str:
    from maxent.species.report.tables.text import plain_json

    return json.dumps(plain_json(value), allow_nan=False, indent=1)


class Commands(TyperGroup):
    """A group of commands that knows which one was called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        found = super().resolve_command(ctx, args)
        for one in _current:
            one.command.append(str(found[0]))
        return found


class Answering(Commands):
    """All commands, with what they answer where ``--json`` is typed before their names."""

    def invoke(self, ctx: Any) -> Any:
        if not ctx.params["as_json"]:
            return super().invoke(ctx)
        _current[:] = [_Answer()]
        try:
            return self._answered(super().invoke, ctx)
        finally:
            _current.clear()

    def _answered(self, invoke: Callable[[Any], Any], ctx: Any) -> Any:
        try:
            value = invoke(ctx)
        except typer.Exit as left:
            self._print(left.exit_code)
            raise
        except Exception as error:
            if hasattr(error, "format_message"):  # wrong usage, whose class typer may bring itself
                complained(error.format_message())
                self._print(USAGE)
            raise
        self._print(0)
        return value

    def _print(self, code: int) -> None:
        (one,) = _current
        typer.echo(_text(one.told(code)))
