"""What a folder of results holds besides what a run wrote: it stays when results are replaced.

A run lists its files in ``manifest.json``, with their digests: one that was edited since stays, by
another name. Folders of earlier versions have no manifest: there the list in ``summary.json``
counts, or else the names that runs write.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any

from maxent.io import write_atomically

MANIFEST = "manifest.json"
SUMMARY = "summary.json"
_WRITTEN = (  # by `fit`, by `tune` and by the demonstration, before there were manifests
    *("report.html", "map.png", "model.json", "result.json", SUMMARY, "*.lambdas"),
    *("maps/*.tif", "change/*", "tables/*"),
    *("tuning.json", "*_tuning.csv", "*_folds.csv", "*_null_models.csv", "*_null_test.csv"),
    *("*_tuning.png", "*_tuning.html"),
    *("landscape.json", "occurrences.csv", "target_group.csv", "effort.tif", "truth.tif"),
    *("layers/*.tif", "future/*.tif"),
)
_EARLIER, _EDITED = "earlier", "edited"  # what a file that is kept is called by
_SHOWN = 8  # names that a message has


def files_in(folder: Path) -> list[str]:
    """The files of a folder and of those below, by their names from there."""
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def write_manifest(folder: Path, files: Sequence[str]) -> None:
    """Say which files a run wrote, and what they hold."""
    digests = {name: _digest(folder / name) for name in files}
    (folder / MANIFEST).write_bytes(_manifest(digests))


def renew_manifest(folder: Path, names: Iterable[str]) -> None:
    """Tell that files of a run were made again."""
    listed = _listed(folder, (MANIFEST,))
    if listed is not None:
        del listed[MANIFEST]
        again = {n: _digest(folder / n) for n in names if n in listed and (folder / n).is_file()}
        write_atomically(folder / MANIFEST, _manifest(listed | again))


def _manifest(digests: Mapping[str, str | None]) -> bytes:
    known = {name: digest for name, digest in digests.items() if digest is not None}
    return (json.dumps({"files": list(digests), "sha256": known}, indent=1) + "\n").encode()


@dataclass(frozen=True)
class Kept:
    """Names of files that stay: those that no run wrote, and those that were edited since."""

    besides: list[str] = field(default_factory=list)
    edited: list[str] = field(default_factory=list)


def carry(
    source: Path, target: Path, names: Iterable[str], put: Callable[[Path, Path], Any]
) -> Kept:
    """Give a new folder what the old one holds besides its results; their names in the new one.

    ``names`` are those at the top of the old folder that are looked at, and ``put`` links or moves
    a file; where it cannot, the file stays where it is. A file whose name the new run needs gets
    another one, and so does a file of the earlier run that was edited.
    """
    listed = _listed(source)
    kept = Kept()
    for path in _walked(source, names):
        name = path.relative_to(source).as_posix()
        if name == MANIFEST:
            continue
        edited = listed is not None and _is_edited(path, listed.get(name))
        if not edited and (name in listed if listed is not None else _is_written(name)):
            continue
        word = _EDITED if edited else ""
        place = _place(path, PurePosixPath(name), target, word, renamed=listed is not None)
        if place is None:
            continue
        (kept.edited if edited else kept.besides).append(place.relative_to(target).as_posix())
        if not os.path.lexists(place):
            with suppress(OSError, NotImplementedError):
                place.parent.mkdir(parents=True, exist_ok=True)
                put(path, place)
    return kept


def link(path: Path, place: Path) -> None:
    """The same file under a second name."""
    if path.is_dir() and not path.is_symlink():
        place.mkdir()
    else:
        os.link(path, place, follow_symlinks=False)


def summed_up(names: Sequence[str]) -> str:
    """A few of the names, and how many more there are."""
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _listed(
    folder: Path, lists: Sequence[str] = (MANIFEST, SUMMARY)
) -> dict[str, str | None] | None:
    """The files that a run wrote and their digests, if known; None where nothing says so."""
    for name in lists:
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            listed = json.loads((folder / name).read_text(encoding="utf-8"))
            files, digests = listed["files"], listed.get("sha256", {})
            if isinstance(files, list) and all(isinstance(file, str) for file in files):
                return {file: digests.get(file) for file in (*files, name)}
    return None


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_edited(path: Path, written: str | None) -> bool:
    """Whether a file is not what a run wrote, as far as that is known."""
    try:
        return written is not None and _digest(path) != written
    except OSError:  # a link or a folder took its place, or nobody may read it
        return True


def _is_written(name: str) -> bool:
    depth = name.count("/")
    return any(fnmatchcase(name, p) and p.count("/") == depth for p in _WRITTEN)


def _walked(folder: Path, names: Iterable[str]) -> Iterator[Path]:
    """Files, links and empty folders."""
    for path in (folder / name for name in sorted(names)):
        if not path.is_dir() or path.is_symlink():
            yield path
            continue
        inside = [entry.name for entry in path.iterdir()]
        if inside:
            yield from _walked(path, inside)
        else:
            yield path


def _place(
    path: Path, name: PurePosixPath, target: Path, word: str, *, renamed: bool
) -> Path | None:
    """Where a file goes in the new folder; None where a file of the new run takes its place.

    Its name gets the word, or where there is none and the name is taken, another word.
    """
    for number in count(1 if word else 0):
        other = "" if number == 0 else f".{word or _EARLIER}{'' if number == 1 else f'-{number}'}"
        place = target / name.with_name(f"{name.stem}{other}{name.suffix}")
        if any(p.exists() and not p.is_dir() for p in place.parents if target in p.parents):
            name = PurePosixPath(name.as_posix().replace("/", "_"))  # a file where a folder was
            return _place(path, name, target, word, renamed=True)
        if number and os.path.lexists(path.with_name(place.name)):
            continue  # of another file that is kept
        if not os.path.lexists(place) or os.path.samestat(path.lstat(), place.lstat()):
            return place
        if path.is_dir() or not renamed:
            break
    return None
