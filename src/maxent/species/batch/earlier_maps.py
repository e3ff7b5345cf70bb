"""Maps that outlive the model that drew them: a text beside them says so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from maxent.species.libraries import geo

MARK = "of_an_earlier_model.txt"
_ABOUT = (
    "These maps were drawn by a model that has been replaced since ({when}).\n"
    "`maxent project --overwrite` draws them again, with the model of today.\n\n"
)


def mark(folder: Path, files: Sequence[str]) -> list[str]:
    """Mark those of the files that are maps of a model; their names."""
    maps = [name for name in files if _is_map(folder / name)]
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    for old in (folder / name for name in files if Path(name).name == MARK):
        old.unlink()
    for place in dict.fromkeys((folder / name).parent for name in maps):
        here = [Path(name).name for name in maps if (folder / name).parent == place]
        (place / MARK).write_text(_ABOUT.format(when=when) + _lines(here))
    return maps


def unmark(folder: Path, drawn: Iterable[str]) -> None:
    """Take maps that have been drawn again off the list beside them."""
    with suppress(OSError):
        about, _, listed = (folder / MARK).read_text().rpartition("\n\n")
        left = [name for name in listed.splitlines() if name not in {*drawn}]
        if left:
            (folder / MARK).write_text(f"{about}\n\n{_lines(left)}")
        else:
            (folder / MARK).unlink()


def _lines(names: Iterable[str]) -> str:
    return "".join(f"{name}\n" for name in names)


def _is_map(path: Path) -> bool:
    """Whether a file is a map that was drawn by a model, which its tags tell."""
    if path.suffix.lower() not in (".tif", ".tiff"):
        return False
    try:
        with geo("rasterio").open(path, driver="GTiff") as raster:
            return "LAYERS" in raster.tags()
    except (ImportError, OSError):  # nothing that can be read
        return False
