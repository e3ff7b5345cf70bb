"""The folders that a user opened: every path that the page names lies inside one of them."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from maxent.species.batch.outputs import RESULT

EVALUATIONS, OVERLAPS, SURVEYS = "evaluations", "overlaps", "surveys"  # beside the results
STATE = ".maxent-app"  # draft and jobs of the page, in the first folder
_RECORDS = {
    *(".csv", ".tsv", ".txt", ".gz", ".zip"),
    *(".gpkg", ".geojson", ".json", ".shp", ".parquet"),
}
_RASTERS = {".tif", ".tiff", ".asc", ".grd", ".bil", ".img", ".vrt", ".nc", ".flt", ".sdat"}
_NAME = re.compile(r"[^\w.() -]", re.ASCII)
_LISTED = 2000  # entries of one folder that are shown
_DEPTH = 3  # folders below an opened one in which results are looked for
_VISITED = 5000  # folders that are looked into for results at most


class OutsideError(ValueError):
    """A path that leads out of the folders that were opened."""


@dataclass(frozen=True)
class Folders:
    """Opened folders, as real paths; the first is where commands run and where files are written.

    ``started_in`` is where the server was started: results name files as they were typed there.

    >>> folders = Folders.opened(["."])
    >>> folders.find("../secret.csv")
    Traceback (most recent call last):
    maxent.app.folders.OutsideError: '../secret.csv' is not in the folders that were opened
    """

    roots: tuple[Path, ...]
    started_in: Path = field(default_factory=Path.cwd)

    @classmethod
    def opened(cls, given: Sequence[str | os.PathLike[str]]) -> Folders:
        """The folders of these paths, which must be there."""
        roots = []
        for path in given:
            root = Path(os.path.realpath(path))
            if not root.is_dir():
                raise NotADirectoryError(f"{path}: no such folder; give one to open")
            roots.append(root)
        for path in (roots[0] / STATE, roots[0] / STATE / "jobs"):
            if path.is_symlink():  # what the page keeps would be written elsewhere
                raise OutsideError(f"{path} is a link, which the page does not follow; remove it")
        return cls(tuple(dict.fromkeys(roots)))

    @property
    def home(self) -> Path:
        """Where commands run."""
        return self.roots[0]

    @property
    def state(self) -> Path:
        """Where the page keeps what was chosen, and its jobs."""
        return self.home / STATE

    @property
    def viewing(self) -> bool:
        """Whether a finished result was opened: nothing is written there."""
        return (self.home / RESULT).is_file()

    def find(self, name: str) -> Path:
        """The real path of a name, relative to the first folder or absolute, inside a folder."""
        if "\0" in name:
            raise OutsideError("a path holds a zero byte")
        path = Path(os.path.realpath(self.home / name))
        if not any(path == root or root in path.parents for root in self.roots):
            raise OutsideError(f"{name!r} is not in the folders that were opened")
        return path

    def holds(self, path: str | os.PathLike[str]) -> bool:
        """Whether a path lies inside."""
        try:
            self.find(str(path))
        except OutsideError:
            return False
        return True

    def locate(self, name: str) -> Path:
        """A file that a result names: from the first folder, or from where the server started."""
        there = [p for base in (self.home, self.started_in) if (p := base / name).exists()]
        if not there:
            raise FileNotFoundError(f"{Path(name).name}: not where the fit read it")
        inside = [p for p in there if self.holds(p)]
        return self.find(str(inside[0] if inside else there[0]))

    def name(self, path: Path) -> str:
        """As it is typed in the first folder: relative where it lies inside, else whole."""
        real = Path(os.path.realpath(path))
        if real == self.home:
            return "."
        return real.relative_to(self.home).as_posix() if self.home in real.parents else str(real)

    def without_paths(self, text: str) -> str:
        """A message without the places of the folders on this machine."""
        for root in self.roots:
            text = text.replace(f"{root}{os.sep}", "").replace(str(root), root.name or "folder")
        return text.replace(str(Path.home()), "~")

    # -- what is there -------------------------------------------------------------------------

    def listing(self, name: str = ".", kind: str = "records") -> dict[str, Any]:
        """Folders, and the files of a kind ("records" or "layers"), for a chooser."""
        folder = self.find(name)
        if not folder.is_dir():
            raise FileNotFoundError(f"{name!r}: no such folder")
        wanted = _RASTERS if kind == "layers" else _RECORDS
        folders, files = [], []
        for path in sorted(folder.iterdir(), key=lambda p: p.name.lower())[:_LISTED]:
            if path.name.startswith(".") or not self.holds(path):
                continue
            if path.is_dir():
                rasters = sum(1 for p in _entries(path) if p.suffix.lower() in _RASTERS)
                folders.append({"name": path.name, "path": self.name(path), "rasters": rasters})
            elif path.suffix.lower() in wanted:
                size = path.stat().st_size
                files.append({"name": path.name, "path": self.name(path), "bytes": size})
        above = folder.parent if self.holds(folder.parent) and folder not in self.roots else None
        return {
            "folder": self.name(folder),
            "above": None if above is None else self.name(above),
            "roots": [self.name(root) for root in self.roots],
            "folders": folders,
            "files": files,
        }

    def results(self) -> list[Path]:
        """The folders of fitted species, the latest first."""
        return self.holding(RESULT)

    def holding(self, name: str) -> list[Path]:
        """The folders that hold a file of this name, the latest first."""
        found: list[Path] = []
        for root in self.roots:
            waiting, visited = [(root, 0)], 0
            while waiting and visited < _VISITED:
                folder, depth = waiting.pop(0)
                visited += 1
                if (folder / name).is_file() and self.holds(folder / name):
                    found.append(folder)
                    continue
                if depth < _DEPTH:
                    waiting += [
                        (path, depth + 1)
                        for path in _entries(folder)
                        if path.is_dir() and not path.name.startswith(".") and self.holds(path)
                    ]
        return sorted(dict.fromkeys(found), key=lambda f: -(f / name).stat().st_mtime)

    # -- what is brought -----------------------------------------------------------------------

    def place_for(self, name: str, into: str) -> Path:
        """Where an uploaded file goes: a harmless name in a folder of its own."""
        plain = _NAME.sub("_", Path(name.replace("\\", "/")).name).strip(". ")
        if not plain or Path(plain).suffix.lower() not in _RECORDS | _RASTERS | _BESIDE:
            raise ValueError(f"{name!r:.80} is neither a table of records nor a raster")
        folder = _NAME.sub("_", into).strip(". ") or "files"
        return self.find(f"uploads/{folder}/{plain}")


_BESIDE = {".prj", ".hdr", ".dbf", ".shx", ".cpg", ".xml", ".ovr", ".gri", ".ige", ".tfw", ".clr"}


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())[:_LISTED]
    except OSError:  # a folder that may not be read
        return []


def fresh(path: Path) -> Path:
    """The path, or the first of its name with a number that is not there yet."""
    if not path.exists():
        return path
    suffix = "" if path.is_dir() else path.suffix
    stem = path.name.removesuffix(suffix) if suffix else path.name
    for number in range(2, 10_000):
        other = path.with_name(f"{stem}-{number}{suffix}")
        if not other.exists():
            return other
    return path.with_name(f"{stem}-{secrets.token_hex(4)}{suffix}")
