"""The maps in folders that ``maxent fit`` wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from maxent.density import OUTPUTS
from maxent.species.comparing.map_files import on_one_grid
from maxent.species.fitting.results import MapFiles, read_result
from maxent.species.input.file_access import open_raster

DEFAULT_RULE = "10 percentile training presence"
OUTPUT = "cloglog"
_KINDS = (*OUTPUTS, "presence")


def maps_of(folder: Path) -> tuple[Path, dict[str, Path]]:
    """The map of the training layers, and those of projections by name."""
    found = [written for written in read_result(folder).maps if OUTPUT in written.files]
    now = [written for written in found if written.training]
    others = [written for written in found if not written.training]
    if not now:
        raise ValueError(f"{folder} has no map of {OUTPUT}: fit again with maps")
    if not others:
        raise ValueError(
            f"{folder} has no projection to compare with: fit with --project FOLDER, or give maps"
        )
    return _path(folder, now[0]), {written.name: _path(folder, written) for written in others}


def maps_of_times(folder: Path, times: Sequence[str] = ()) -> tuple[str, Path, dict[str, Path]]:
    """The first of some times of a fit in time, its map, and the maps of the others by name.

    Without any, the first and the last that it has.
    """
    found = read_result(folder).over_time
    if found is None:
        raise ValueError(
            f"{folder} has no maps of times: fit with --date-column and maps, or give maps"
        )
    drawn = {what.removeprefix("map:"): f for what, f in found.files.items() if ":" in what}
    labels = list(drawn)
    times = times or [labels[0], labels[-1]]
    odd = next((time for time in times if time not in drawn), None)
    if odd is not None:
        raise ValueError(
            f"{folder} has no map of {odd!r}; it has {labels[0]}, {', '.join(labels[1:10])}"
            + (f" ... {labels[-1]}" if len(labels) > 10 else "")
        )
    if len(dict.fromkeys(times)) < 2:
        raise ValueError(f"{folder}: two different times or more are compared, got {times[0]}")
    first, *others = dict.fromkeys(times)
    return first, folder / drawn[first], {time: folder / drawn[time] for time in others}


def map_of(place: Path, output: str = OUTPUT) -> Path:
    """A map itself, or that of the training layers of a folder, of an output."""
    if not place.is_dir():
        return place
    for written in read_result(place).maps:
        if written.training and output in written.files:
            return place / written.files[output]
    how = "with maps" if output == OUTPUT else f"with --output {output}"
    raise ValueError(f"{place} has no map of {output}: fit again {how}")


def output_of(path: Path) -> str:
    """The output that a map holds, as its band says, "" where it does not."""
    with open_raster(path) as file:
        said = file.descriptions[0] or ""
    return said if said in OUTPUTS else ""


def _path(folder: Path, written: MapFiles) -> Path:
    return folder / written.files[OUTPUT]


def similarities(now: Path, others: Mapping[str, Path]) -> dict[str | None, Path]:
    """The maps of MESS that were written beside maps, by scenario, and by None that of the first.

    ``cloglog.tif`` has ``mess.tif`` beside it, ``future.tif`` has ``future_mess.tif``.
    """
    found: dict[str | None, Path] = {}
    for name, path in ((None, now), *others.items()):
        stem = "mess" if path.stem in _KINDS else f"{path.stem}_mess"
        beside = path.with_name(f"{stem}{path.suffix}")
        if path.is_file() and beside.is_file() and on_one_grid(path, beside):
            found[name] = beside
    return found


def named(maps: Sequence[Path]) -> dict[str, Path]:
    """Maps by the shortest end of their paths that tells them apart.

    A file named after what it holds is known by its folder.

    >>> list(named([Path("a/2050/cloglog.tif"), Path("a/hot.tif")]))
    ['2050', 'hot']
    >>> list(named([Path("2050/cloglog.tif"), Path("2050/raw.tif")]))
    ['cloglog', 'raw']
    """
    by_folder = [
        path.parts[:-1] if path.stem in _KINDS and path.parent.name else _parts(path)
        for path in maps
    ]
    for parts in (by_folder, [_parts(path) for path in maps]):
        for depth in range(1, max(map(len, parts)) + 1):
            names = ["/".join(one[-depth:]) for one in parts]
            if len(set(names)) == len(names):
                return dict(zip(names, maps, strict=True))
    raise ValueError(f"{maps[0]} is given twice")


def _parts(path: Path) -> tuple[str, ...]:
    return (*path.parts[:-1], path.stem)
