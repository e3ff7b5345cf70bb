"""Output folders: they appear whole or not at all, and one run at a time writes to them."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

RESULT = "result.json"
MODEL = "model.json"
MARKS = (RESULT, "tuning.json", "landscape.json")  # any of them marks a folder as ours
_LOCK = ".{}.lock"


@contextmanager
def staged(folder: Path, overwrite: bool = False) -> Iterator[Path]:
    """A new folder to write to, which takes the place of ``folder`` at the end.

    Whatever goes wrong before that, Ctrl-C included, ``folder`` stays as it was.
    """
    check_free(folder, overwrite)
    stage = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.partial")
    _make(stage)
    try:
        yield stage
        _swap(stage, folder)
    except OSError as error:
        raise _explained(error, folder) from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def check_free(folder: Path, overwrite: bool = False) -> None:
    """Refuse to overwrite files that are not ours, or results that may still be wanted."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder} is a file; give a folder for the results")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if not any((folder / mark).is_file() for mark in MARKS):
        raise FileExistsError(
            f"{folder} holds other files; give an empty or a new folder for the results"
        )
    if not overwrite:
        raise FileExistsError(
            f"{folder} holds the results of an earlier run; overwrite them with --overwrite, or "
            "give another folder"
        )


def check_unread(out: Path, read: Iterable[str | os.PathLike[str]]) -> None:
    """Refuse to replace a file, or a folder with a file, that is read, whatever it is called."""
    target = Path(os.path.realpath(out))
    for path in read:
        real = Path(os.path.realpath(path))
        linked = real.is_file() and target.is_file() and real.samefile(target)
        if linked or real == target or target in real.parents:
            raise FileExistsError(
                f"{path} is read and would be written over; give another place for the results (-o)"
            )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other runs out of a folder: a lock file beside it names the run that has it."""
    folder = Path(os.path.abspath(folder))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _explained(error, folder) from error
    lock = folder.with_name(_LOCK.format(folder.name))
    _take(lock, folder)
    try:
        tidy(folder)
        yield
    finally:
        with suppress(OSError):
            lock.unlink()


def tidy(folder: Path) -> None:
    """Clear away what killed runs left in and beside a folder; its lock must be held."""
    beside = [p for p in folder.parent.glob(f".{folder.name}.*") if _stage_of(p) == folder.name]
    inside = [p for p in folder.glob(".*") if _stage_of(p)] if folder.is_dir() else []
    for left in (*beside, *inside):
        home = left.with_name(_stage_of(left) or "")
        if left.suffix == ".old" and not home.exists():
            os.replace(left, home)  # killed between two renames: the earlier results come back
        else:
            shutil.rmtree(left, ignore_errors=True)


def _stage_of(path: Path) -> str | None:
    """The folder that a leftover was meant to become, None for other files."""
    match = re.fullmatch(r"\.(.+)\.[0-9a-f]{8}\.(partial|old)", path.name)
    return match[1] if match else None


def _take(lock: Path, folder: Path) -> None:
    mine = f"{socket.gethostname()} {os.getpid()}"
    for _ in range(2):
        try:
            with open(lock, "x") as file:
                file.write(mine)
            return
        except FileExistsError:
            host, _, process = lock.read_text().partition(" ")
            if host == socket.gethostname() and not _alive(process):
                with suppress(OSError):  # left by a run that was killed
                    lock.unlink()
                continue
            raise FileExistsError(
                f"another run (process {process or 'unknown'} on {host or 'unknown'}) is writing "
                f"to {folder}; wait for it or give another folder. If no such run is left, delete "
                f"{lock}"
            ) from None
        except OSError as error:
            raise _explained(error, folder) from error
    raise FileExistsError(f"cannot take the lock {lock}; delete it if no other run is left")


def _alive(process: str) -> bool:
    if not process.isdigit():
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _make(stage: Path) -> None:
    try:
        stage.mkdir(parents=True)
    except OSError as error:
        raise _explained(error, stage.parent) from error


def _swap(stage: Path, folder: Path) -> None:
    if not folder.exists():
        os.replace(stage, folder)
        return
    old = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.old")
    os.replace(folder, old)
    try:
        os.replace(stage, folder)
    except BaseException:
        os.replace(old, folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _explained(error: OSError, folder: Path) -> OSError:
    """The same error in words that say what to do."""
    if error.errno == errno.ENOSPC:
        text = f"no space left on the disk of {folder}: free some or give another folder (-o)"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        text = f"cannot write to {folder}: {error.strerror}; give a folder you may write to (-o)"
    elif error.errno == errno.ENOTDIR:
        text = f"cannot make the folder {folder}: a part of its path is a file; give another (-o)"
    elif error.errno is None:
        return error
    else:
        text = f"cannot write to {folder}: {error.strerror}; give another folder (-o)"
    return OSError(error.errno, text)
