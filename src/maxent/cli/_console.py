"""What every command shares: streams, errors in one line, exit codes."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from maxent._support.compiling import switches
from maxent._support.interrupts import held_back, insisted
from maxent._support.terminal import FAILED, INTERRUPTED, in_words, printable
from maxent.cli._answers import asked, complained

settings = {"debug": False}


class _Plain(Console):
    """Shows control characters in names instead of sending them to the terminal."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)


def console(stderr: bool = False) -> Console:
    """Made at each use: tests and pipes change the streams. No wrapping off a terminal.

    Nothing but its answer goes to a program that asked for JSON.
    """
    silent = asked() and not stderr
    made = _Plain(stderr=stderr, highlight=False, quiet=silent)
    if made.is_terminal:
        return made
    return _Plain(stderr=stderr, highlight=False, width=200, quiet=silent)


def complain(text: str) -> None:
    """One line on standard error."""
    complained(text)
    console(stderr=True).print(f"[bold red]error:[/] {escape(text)}", soft_wrap=True)


@contextmanager
def recorded_warnings() -> Iterator[list[str]]:
    """The texts of warnings, each once, to be shown as notes; filled at the end.

    Recording changes the whole process. Only a command may do so: it has the process to itself.
    """
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)  # deprecations are not for users
        yield notes
    notes += dict.fromkeys(str(warning.message) for warning in caught)


def one_line_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Turn an exception of a command into one line and an exit code."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        quiet = kwargs.get("quiet", False)
        switches.before_compiling = None if quiet else _tell_of_compiling
        try:
            command(*args, **kwargs)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except (KeyboardInterrupt, Exception) as error:
            interrupted = insisted()  # the error may be what foreign code made of the Ctrl-C
            if interrupted or isinstance(error, KeyboardInterrupt):
                with held_back():  # people press it twice
                    complain("interrupted; nothing half-written was left behind")
                raise typer.Exit(INTERRUPTED) from None
            if settings["debug"]:
                raise
            complain(in_words(error))
            raise typer.Exit(FAILED) from None
        finally:
            switches.before_compiling = None

    return wrapped


def compiling_words(folder: str | None) -> str:
    """What a command says, once, before it compiles: a path of the machine is for maxent info."""
    if folder is None:
        return "compiling for this computer, at every start: see maxent info"
    path, home = Path(folder), Path(os.path.expanduser("~"))
    kept = "for later runs (maxent info says where)"
    if path.is_relative_to(home):
        kept = f"in ~/{path.relative_to(home).as_posix()}"
    return f"compiling for this computer, once; kept {kept}"


def _tell_of_compiling(folder: str | None) -> None:
    console(stderr=True).print(escape(compiling_words(folder)), soft_wrap=True)


def check_free_file(path: Path, read: Sequence[str | Path], overwrite: bool) -> None:
    """A file to write must not be one that is read, nor be there without --overwrite."""
    from maxent.species.batch.outputs import check_unread

    check_unread(path, read)
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} is there already; replace it with --overwrite")
