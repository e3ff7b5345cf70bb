"""Output folders: they appear whole or not at all, and one run at a time writes to them.

A folder is made beside its place and renamed. Where that cannot be (a mount point, a parent that
may not be written to, the folder one stands in) it is made inside, and its parts move at the end.
What else was in the folder stays there (``keeping.py``).
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from maxent._support.interrupts import held_back
from maxent.species.batch import earlier_maps, keeping, locks
from maxent.species.batch.keeping import SUMMARY, files_in

RESULT = "result.json"
MODEL = "model.json"
MARKS = (RESULT, "tuning.json", "landscape.json")  # any of them marks a folder as ours
_INSIDE_LOCK = ".lock"
_INSIDE = re.compile(r"\.[0-9a-f]{8}\.(partial|ready|old)")
_BESIDE = re.compile(r"\.(.+)\.[0-9a-f]{8}\.(partial|old)")


def resolved(folder: Path) -> Path:
    """The folder itself, whatever link or name leads to it."""
    return Path(os.path.realpath(folder))


def contents(folder: Path) -> list[Path]:
    """What a folder holds, but for what an unfinished run or the file system keeps there."""
    return [
        path
        for path in folder.iterdir()
        if path.name not in (_INSIDE_LOCK, "lost+found") and not _INSIDE.fullmatch(path.name)
    ]


@contextmanager
def staged(
    folder: Path, overwrite: bool = False, tell: Callable[[str], None] = lambda note: None
) -> Iterator[Path]:
    """A new folder to write to, which takes the place of ``folder`` at the end.

    Whatever goes wrong before that, Ctrl-C included, ``folder`` stays as it was. What it holds
    besides earlier results is in the new folder too, and ``tell`` is called with its names.
    """
    home = resolved(folder)
    check_free(home, overwrite)
    here = Path.cwd()
    inside = not _renamable(home) or home in (here, *here.parents)
    token = f"{secrets.token_hex(4)}.partial"
    stage = home / f".{token}" if inside else home.with_name(f".{home.name}.{token}")
    try:
        stage.mkdir(parents=True)
        yield stage
        written = files_in(stage)
        notes = _keep(home, stage) if home.is_dir() else []
        keeping.write_manifest(stage, written)
        _sync_all(stage)
        with held_back():
            (_fill if inside else _swap)(stage, home)
        sync(home)
        sync(home.parent)
        for note in notes:
            tell(note)
    except OSError as error:
        raise _explained(error, folder) from error
    finally:
        with held_back():
            shutil.rmtree(stage, ignore_errors=True)
            if inside:
                _settle(home)


def _keep(home: Path, stage: Path) -> list[str]:
    """Link what is not of a run to the new folder too; what there is to say about it."""
    kept = keeping.carry(home, stage, _names(home), keeping.link)
    replaced = (home / MODEL).is_file() and _another(home / SUMMARY, stage / SUMMARY)
    maps = earlier_maps.mark(stage, [*kept.besides, *kept.edited]) if replaced else []
    named = {*maps, *(n for n in kept.besides if Path(n).name == earlier_maps.MARK)}
    others, edited = ([n for n in names if n not in named] for names in (kept.besides, kept.edited))
    notes = []
    if edited:
        notes.append(
            f"kept in {home.name}, as it was edited since a run wrote it: "
            f"{keeping.summed_up(edited)}"
        )
    if others:
        notes.append(
            f"kept in {home.name}, as no earlier run wrote it: {keeping.summed_up(others)}"
        )
    if maps:
        notes.append(
            f"kept in {home.name}, and of the model that was there before: "
            f"{keeping.summed_up(maps)} (marked by {earlier_maps.MARK})"
        )
    return notes


def _another(old: Path, new: Path) -> bool:
    """Whether two summaries are those of runs that were given different things."""
    one, two = _fingerprint(old), _fingerprint(new)
    return one is None or one != two


def _fingerprint(summary: Path) -> str | None:
    """Of the run that wrote a summary, None where it is none of ours."""
    try:
        return str(json.loads(summary.read_text(encoding="utf-8"))["fingerprint"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _names(folder: Path) -> list[str]:
    return [path.name for path in contents(folder)]


def check_free(folder: Path, overwrite: bool = False) -> None:
    """Refuse to overwrite files that are not ours, or results that may still be wanted."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder} is a file; give a folder for the results")
    if not folder.is_dir() or not contents(folder):
        return
    ours = any((folder / mark).is_file() for mark in MARKS)
    if not ours and _fingerprint(folder / SUMMARY) is None:  # results without their result.json
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
def locked(folder: Path) -> Iterator[locks.Lock]:
    """Keep other runs out of a folder, which is shown to be one that can be written to.

    A folder that was not there before, and its parents, are gone again if nothing came of it.
    """
    home = resolved(folder)
    made = [f for f in (home, *home.parents) if not f.exists()]
    lock = None
    try:
        with held_back():
            path, lock = _taken(home, folder)
        tidy(home)
        yield lock
    finally:
        with held_back():
            if lock is not None:
                with suppress(OSError):
                    tidy(home)  # of workers that were stopped
                lock.release(path)
            for empty in made:
                with suppress(OSError):
                    empty.rmdir()


def _taken(home: Path, folder: Path) -> tuple[Path, locks.Lock]:
    """The lock of a folder, and its file."""
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        if home.is_dir() and not os.access(home, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        path = _lock_of(home)
        return path, locks.take(path, str(folder))
    except FileExistsError:
        raise
    except OSError as error:
        raise _explained(error, folder) from error


def tidy(folder: Path) -> None:
    """Clear away what killed runs left in and beside a folder; its lock must be held."""
    with suppress(PermissionError):
        for left in list(folder.parent.iterdir()):
            if _stage_of(left) == folder.name:
                _clear(left)
    if not folder.is_dir():
        return
    _settle(folder)
    for left in list(folder.iterdir()):
        name = _stage_of(left)
        if name is not None and locks.is_free(_lock_of(folder / name)):
            _clear(left)


def _lock_of(home: Path) -> Path:
    return home.with_name(f".{home.name}.lock") if _renamable(home) else home / _INSIDE_LOCK


def _renamable(home: Path) -> bool:
    """Whether another folder can take the place of this one, which need not be there."""
    if not home.is_dir():
        return True
    if os.path.ismount(home) or not os.access(home.parent, os.W_OK | os.X_OK):
        return False
    above = home.parent.stat()
    mine = not hasattr(os, "geteuid") or os.geteuid() in (0, above.st_uid, home.stat().st_uid)
    return mine or not above.st_mode & stat.S_ISVTX


def _stage_of(path: Path) -> str | None:
    """The folder that a leftover was meant to become, None for other files."""
    match = _BESIDE.fullmatch(path.name)
    return match[1] if match else None


def _clear(left: Path) -> None:
    home = left.with_name(_stage_of(left) or "")
    if left.suffix == ".old" and not home.exists():
        os.replace(left, home)  # killed between two renames: the earlier results come back
    elif left.suffix == ".old":
        _discard(left, home)
    else:
        shutil.rmtree(left, ignore_errors=True)


def _discard(old: Path, home: Path) -> None:
    """Delete earlier results, once all else that was beside them is in the new folder."""
    keeping.carry(old, home, _names(old), os.replace)
    shutil.rmtree(old, ignore_errors=True)


def _swap(stage: Path, home: Path) -> None:
    if not home.exists():
        os.replace(stage, home)
        return
    old = home.with_name(f".{home.name}.{secrets.token_hex(4)}.old")
    os.replace(home, old)
    try:
        os.replace(stage, home)
    except BaseException:
        os.replace(old, home)
        raise
    _discard(old, home)


def _fill(stage: Path, home: Path) -> None:
    """Move the parts of a stage to the folder that it is in, and those of before out of it."""
    old = stage.with_suffix(".old")
    old.mkdir()
    _move(contents(home), old)
    os.replace(stage, stage.with_suffix(".ready"))  # from here on forward, up to here back
    _settle(home)


def _settle(home: Path) -> None:
    """Bring what was begun inside a folder to one of its two ends: all new, or all as before."""
    left = [path for path in home.iterdir() if _INSIDE.fullmatch(path.name)]
    for ready in (path for path in left if path.suffix == ".ready"):
        _move(list(ready.iterdir()), home)
        if ready.with_suffix(".old").is_dir():
            _discard(ready.with_suffix(".old"), home)
        ready.rmdir()
    for path in left:
        if path.suffix == ".old" and path.exists():
            _move(list(path.iterdir()), home)
        shutil.rmtree(path, ignore_errors=True)


def _move(paths: Iterable[Path], folder: Path) -> None:
    for path in paths:
        os.replace(path, folder / path.name)


def sync(path: Path) -> None:
    """Have a file, or the names in a folder, on the disk itself, where the system can."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _sync_all(folder: Path) -> None:
    for path in (*folder.rglob("*"), folder):
        sync(path)


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
