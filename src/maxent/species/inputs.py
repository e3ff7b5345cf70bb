"""The files that a fit reads, and how: rasters, and tables of records."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from maxent.species.layers.naming import named_layers
from maxent.species.options import DATA, check_options, option

if TYPE_CHECKING:
    from maxent.species.layers.grid import Grid
    from maxent.species.layers.layers import Layers
    from maxent.species.records.occurrences import Occurrences


def _nodata(typed: Sequence[str]) -> tuple[float, ...] | None:
    if list(typed) == ["none"]:
        return None
    try:
        return tuple(float(word) for word in typed)
    except ValueError:
        raise ValueError(f"nodata is a number, or none, got {', '.join(typed)}") from None


@dataclass(frozen=True)
class LayerFiles:
    """Which rasters to open, and how; see ``Layers.open``."""

    sources: tuple[str, ...]
    categorical: tuple[str, ...] = option(
        (), "A layer of categories; repeat.", DATA, "--categorical", "-c"
    )
    align: str = option(
        "refuse",
        "Layers on other grids: refuse, or resample to the grid of the first, finest or coarsest "
        "layer.",
        DATA,
        choices=("refuse", "first", "finest", "coarsest"),
    )
    resampling: str = option("bilinear", "How to resample; categories: nearest.", DATA)
    crs: str | None = option(
        None, "CRS of layers that do not say, such as .asc.", DATA, "--layers-crs"
    )
    nodata: tuple[float, ...] | None = option(
        (),
        "Value that means no data, besides what the files state; repeat. none: recognise no usual "
        "one, such as -9999, in files that state none.",
        DATA,
        read=_nodata,
    )
    layer: tuple[str, ...] = option(
        (),
        "NAME=FILE[:BAND]: a layer by another name, or one band of a file; or a .csv table of "
        "name, file and band. Repeat.",
        DATA,
    )

    def __post_init__(self) -> None:
        check_options(self)
        files = [named.path for named in named_layers(self.layer)]
        object.__setattr__(self, "sources", tuple(dict.fromkeys([*self.sources, *files])))

    def typed(self) -> list[str]:
        """The options that say the same on the command line, but for the files."""
        words = [word for name in self.categorical for word in ("-c", name)]
        words += [word for text in self.layer for word in ("--layer", text)]
        values = ["none"] if self.nodata is None else [f"{value!r}" for value in self.nodata]
        words += [word for value in values for word in ("--nodata", value)]
        words += ["--align", self.align] if self.align != "refuse" else []
        words += ["--resampling", self.resampling] if self.resampling != "bilinear" else []
        return words + (["--layers-crs", self.crs] if self.crs is not None else [])

    def open(self, like: Grid | None = None, only: Sequence[str] | None = None) -> Layers:
        """The layers."""
        from maxent.species.layers.layers import Layers

        return Layers.open(
            self.sources,
            categorical=self.categorical,
            align=self.align,
            like=like,
            resampling=self.resampling,
            crs=self.crs,
            only=only,
            nodata=self.nodata,
            named=named_layers(self.layer),
        )


@dataclass(frozen=True)
class RecordFile:
    """A file of records and the names of its columns, where they are not to be guessed."""

    path: str
    species: str | None = option(None, "Column of names.", DATA, "--species-column")
    x: str | None = option(None, "Column of longitude or x.", DATA)
    y: str | None = option(None, "Column of latitude or y.", DATA)
    crs: str | None = option(None, "CRS of the records, whatever the file says.", DATA)

    def read(self, grid: Grid) -> tuple[Occurrences, list[str]]:
        """The records in the CRS of the grid, and notes on how they got there."""
        from maxent.species.records.locating import located
        from maxent.species.records.occurrences import read_occurrences

        records = read_occurrences(
            self.path, species=self.species, x=self.x, y=self.y, crs=self.crs
        )
        return located(records, grid)


def check_there(
    *tables: str | os.PathLike[str] | None, rasters: Iterable[str | os.PathLike[str] | None] = ()
) -> None:
    """Refuse files that are not there, before anything is loaded that could read them."""
    named = [(path, "check its name") for path in tables]
    named += [(path, "give raster files or folders of them") for path in rasters]
    for path, advice in named:
        if path is not None and not os.path.exists(path):
            raise FileNotFoundError(f"{path}: no such file; {advice}")


def raster_parts(sources: Iterable[str | os.PathLike[str]]) -> list[str]:
    """The files behind rasters and folders of them: masks, statistics, parts of mosaics too."""
    from maxent.species.extras import geo
    from maxent.species.layers.sources import raster_files

    given = list(sources)
    if not given:
        return []
    rasterio = geo("rasterio")
    rasters = [str(path) for path in raster_files(given)]
    waiting, parts = list(rasters), []
    while waiting:
        path = waiting.pop()
        if path in parts or not os.path.isfile(path):
            continue
        parts.append(path)
        if path in rasters or path.lower().endswith(".vrt"):
            # a damaged one is for the reader of the layers to complain of
            with suppress(rasterio.errors.RasterioIOError), rasterio.open(path) as raster:
                waiting += raster.files
    return parts


def chosen_species(present: Sequence[str], wanted: Sequence[str], path: str) -> list[str]:
    """The species of a file, or those asked for."""
    lacking = [name for name in wanted if name not in present]
    if lacking:
        some = ", ".join(map(repr, present[:10]))
        raise ValueError(f"{path}: no species {lacking[0]!r}; it has {some}")
    return [name for name in present if not wanted or name in wanted]
