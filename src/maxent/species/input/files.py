"""The files that a fit reads, and how: rasters, and tables of records."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from maxent.species.fitting.options import ALWAYS, BACKGROUND, DATA, FOR_MAPS, check_options, option
from maxent.species.input.layers.naming import named_layers
from maxent.species.input.layers.remote import check_address, is_address
from maxent.species.input.records.rows import rows_named

if TYPE_CHECKING:
    from maxent.species.input.layers.grid import Grid
    from maxent.species.input.layers.layers import Layers
    from maxent.species.input.layers.sources import FileSource
    from maxent.species.input.records.occurrences import Occurrences
    from maxent.species.input.records.study_files import StudyChoice
    from maxent.species.input.records.swd import SWD


def _nodata(typed: Sequence[str]) -> tuple[float, ...] | None:
    if list(typed) == ["none"]:
        return None
    try:
        return tuple(float(word) for word in typed)
    except ValueError:
        raise ValueError(f"nodata is a number, or none, got {', '.join(typed)}") from None


def _typed_nodata(values: tuple[float, ...] | None) -> list[str]:
    return ["none"] if values is None else [repr(value) for value in values]


@dataclass(frozen=True)
class LayerFiles:
    """Which rasters to open, and how; see ``Layers.open``.

    Parameters
    ----------
    sources : tuple of str
        Files and folders.
    categorical : tuple of str, default ()
        Names of the layers that hold categories.
    align : "refuse", "first", "finest" or "coarsest", default "refuse"
        What to do with layers on other grids: "refuse" them, or resample all to the grid of that
        layer.
    resampling : str, default "bilinear"
        How to resample, a method of GDAL; categories are always "nearest".
    crs : str, default None
        CRS of files that do not state theirs, such as .asc.
    nodata : tuple of float or None, default ()
        Values that mean no data, besides what the files state. By default usual ones, such as
        -9999, are recognised in files that state none; None recognises none.
    layer : tuple of str, default ()
        NAME=FILE[:BAND]: layers by another name, or one band of a file; or .csv tables of name,
        file and band.
    without : tuple of str, default ()
        Names of layers to leave out.
    """

    sources: tuple[str, ...]
    categorical: tuple[str, ...] = option(
        (),
        "Treat this layer as categories; repeat for more.",
        DATA,
        "--categorical",
        "-c",
        with_swd=ALWAYS,
    )
    align: str = option(
        "refuse",
        "Refuse layers on other grids, or resample them to that of the first, finest or coarsest "
        "layer.",
        DATA,
        choices=("refuse", "first", "finest", "coarsest"),
        with_swd=FOR_MAPS,
    )
    resampling: str = option(
        "bilinear", "Resample this way (categories always by nearest).", DATA, with_swd=FOR_MAPS
    )
    crs: str | None = option(
        None,
        "Assume this CRS for layers that state none, such as .asc.",
        DATA,
        "--layers-crs",
        with_swd=FOR_MAPS,
    )
    nodata: tuple[float, ...] | None = option(
        (),
        "Take this value for no data, besides what the files state; repeat for more. With none, "
        "no usual value, such as -9999, is recognised in files that state none.",
        DATA,
        read=_nodata,
        write=_typed_nodata,
        with_swd=FOR_MAPS,
    )
    layer: tuple[str, ...] = option(
        (),
        "Read a layer by another name, or one band of a file, as NAME=FILE[:BAND]; or a .csv "
        "table of name, file and band. Repeat for more.",
        DATA,
    )
    without: tuple[str, ...] = option(
        (), "Leave out this layer of the files and folders; repeat for more.", DATA
    )

    def __post_init__(self) -> None:
        check_options(self)
        files = [named.path for named in named_layers(self.layer)]
        object.__setattr__(self, "sources", tuple(dict.fromkeys([*self.sources, *files])))

    @classmethod
    def stored(cls, fields: Mapping[str, Any]) -> LayerFiles:
        """From fields that were saved, whose tuples are lists."""
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()
        }
        return cls(**values)

    def bands(self) -> list[FileSource]:
        """The layers as the files hold them, each on its own grid."""
        from maxent.species.input.layers.layers import bands_given

        return bands_given(
            self.sources, crs=self.crs, named=named_layers(self.layer), without=self.without
        )

    def open(self, like: Grid | None = None, only: Sequence[str] | None = None) -> Layers:
        """The layers."""
        from maxent.species.input.layers.layers import Layers
        from maxent.species.input.layers.places import PLACE

        names = only
        if only is not None:  # places are no files
            only = [name for name in only if name not in PLACE]
        layers = Layers.open(
            self.sources,
            categorical=self.categorical,
            align=self.align,
            like=like,
            resampling=self.resampling,
            crs=self.crs,
            only=only,
            nodata=self.nodata,
            named=named_layers(self.layer),
            without=self.without,
        )
        return layers if names is None or names == only else layers.with_places(names)


def by_folder(given: Sequence[LayerFiles]) -> dict[str, LayerFiles]:
    """Sets of layers by the name of their folder, or by its whole path where two share a name.

    >>> list(by_folder([LayerFiles(("a/wet",)), LayerFiles(("b/wet",)), LayerFiles(("dry",))]))
    ['a/wet', 'b/wet', 'dry']
    """
    names = [os.path.basename(os.path.normpath(files.sources[0])) for files in given]
    return {
        name if names.count(name) == 1 else files.sources[0]: files
        for name, files in zip(names, given, strict=True)
    }


@dataclass(frozen=True)
class RecordFile:
    """A file of records and the names of its columns, where they are not to be guessed.

    Parameters
    ----------
    path : str
        The file.
    species : str, default None
        Name of the column of species, see ``read_occurrences``.
    x : str, default None
        Name of the column of x or longitude.
    y : str, default None
        Name of the column of y or latitude.
    crs : str, default None
        CRS of the coordinates.
    presence : str, default None
        Name of the column of presence (1) and absence (0), as for ``read_occurrences``.
    basis : tuple of str, default ()
        Bases of record to use; all of them if empty.
    max_uncertainty : float, default None
        Metres; records known to be less certain of their place are left out.
    leave_out : tuple of str, default ()
        Rows of the file to leave out, as messages count them: "12", "30-35" or "12,40".
    """

    path: str
    species: str | None = option(
        None, "Read species from this column.", DATA, "--species-column", with_swd=ALWAYS
    )
    x: str | None = option(None, "Read longitude or x from this column.", DATA, with_swd=ALWAYS)
    y: str | None = option(None, "Read latitude or y from this column.", DATA, with_swd=ALWAYS)
    crs: str | None = option(None, "Read the records in this CRS, whatever the file says.", DATA)
    presence: str | None = option(
        None,
        "Read presence (1) and absence (0) from this column; none: every record is a presence.",
        DATA,
        "--presence-column",
        with_swd=ALWAYS,
    )
    basis: tuple[str, ...] = option(
        (), "Use only records of this basis; repeat for more.", DATA, "--basis"
    )
    max_uncertainty: float | None = option(
        None, "Leave out records whose place is less certain than this many metres.", DATA
    )
    leave_out: tuple[str, ...] = option(
        (),
        "Leave out these rows of the file, as messages count them: 12, 30-35 or 12,40; repeat.",
        DATA,
    )

    def __post_init__(self) -> None:
        rows_named(self.leave_out)
        if self.max_uncertainty is not None and not self.max_uncertainty >= 0:
            raise ValueError(
                f"max_uncertainty must be a number of metres, got {self.max_uncertainty!r}"
            )

    def read(self, grid: Grid, absent: bool = False) -> tuple[Occurrences, list[str]]:
        """The records in the CRS of the grid, and notes on how they got there.

        The first note says which columns were taken. With ``absent`` they are those of absence.
        """
        from maxent.species.input.records.locating import located
        from maxent.species.input.records.selection import uncertainty_hint

        records = self.occurrences(absent)
        placed, notes = located(records, grid)
        if self.max_uncertainty is None:
            notes += uncertainty_hint(records.uncertainty, grid, records.source)
        return placed, [records.summary(), *notes]

    def occurrences(self, absent: bool = False) -> Occurrences:
        """The records as they are in the file."""
        from maxent.species.input.records.occurrences import read_occurrences
        from maxent.species.input.records.rows import without_rows

        others = ("path", "leave_out")
        how = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in others}
        records = read_occurrences(self.path, absent=absent, **how)
        return without_rows(records, rows_named(self.leave_out)) if self.leave_out else records

    def read_swd(
        self, categorical: Sequence[str] = (), background: bool = False, absent: bool = False
    ) -> SWD:
        """The rows of a table of samples with data."""
        from maxent.species.input.records.swd import read_swd

        if self.leave_out:
            raise ValueError("leave_out is for records on layers; take the rows out of the table")
        return read_swd(
            self.path,
            categorical=categorical,
            species=self.species,
            x=self.x,
            y=self.y,
            presence=self.presence,
            background=background,
            absent=absent,
        )


@dataclass(frozen=True)
class StudyFiles:
    """Where background is drawn from: at most one of polygons, ecoregions, hull, or a buffer.

    Parameters
    ----------
    polygons : str, default None
        A file of polygons, all of which are the region.
    ecoregions : str, default None
        A file of polygons, of which those that hold records of a species are its region.
    hull : bool, default False
        Whether it is the convex hull of the records of each species.
    buffer : float, default None
        km around any of these, or around the records.
    """

    polygons: str | None = option(
        None,
        "Draw the background from the polygons of this file.",
        BACKGROUND,
        "--region",
    )
    ecoregions: str | None = option(
        None, "Draw the background from those polygons of this file that hold records.", BACKGROUND
    )
    hull: bool = option(
        False, "Draw the background from the convex hull of the records.", BACKGROUND
    )
    buffer: float | None = option(
        None,
        "Draw the background from this many km around the records, or around the region given.",
        BACKGROUND,
    )

    def __post_init__(self) -> None:
        given = [name for name in ("polygons", "ecoregions", "hull") if getattr(self, name)]
        if len(given) > 1:
            flags = {"polygons": "--region", "ecoregions": "--ecoregions", "hull": "--hull"}
            others = " and ".join(flags[name] for name in given[1:])
            raise ValueError(f"{given[0]} and {others} are different study regions; give one")
        if self.buffer is not None and not 0 < self.buffer <= 5000:
            raise ValueError(f"buffer must lie between 0 and 5000 km, got {self.buffer:g}")

    @property
    def kind(self) -> str | None:
        """What the region is made of, None without any."""
        names = ("polygons", "ecoregions", "hull", "buffer")
        return next((name for name in names if getattr(self, name)), None)

    @property
    def path(self) -> str | None:
        """The file of polygons, if there is one."""
        return self.polygons or self.ecoregions

    def read(self, grid: Grid) -> tuple[StudyChoice | None, list[str]]:
        """How to make the region of a species, and notes on the polygons."""
        import numpy as np

        from maxent.species.input.records.study_files import StudyChoice, read_polygons

        if self.kind is None:
            return None, []
        polygons: Any = np.empty(0, dtype=object)
        notes: list[str] = []
        if self.path is not None:
            polygons, notes = read_polygons(self.path, grid)
        return StudyChoice(self.kind, polygons, self.path or "", self.buffer), notes


def check_there(
    *tables: str | os.PathLike[str] | None, rasters: Iterable[str | os.PathLike[str] | None] = ()
) -> None:
    """Refuse files that are not there, before anything is loaded that could read them."""
    named = [(path, "check its name") for path in tables]
    named += [(path, "give raster files or folders of them") for path in rasters]
    for path, advice in named:
        if path is not None and is_address(path):
            check_address(path)
        elif path is not None and not os.path.exists(path):
            raise FileNotFoundError(f"{path}: no such file; {advice}")


def raster_parts(sources: Iterable[str | os.PathLike[str]]) -> list[str]:
    """The files behind rasters and folders of them: masks, statistics, parts of mosaics too.

    Those on servers are not among them.
    """
    sources = list(sources)
    from maxent.species.input.file_access import open_raster
    from maxent.species.input.layers.sources import raster_files
    from maxent.species.input.layers.stac import is_stac, stac_layers
    from maxent.species.libraries import geo

    listed = [path for path in sources if is_stac(path)]
    of_lists = [one.path for path in listed for one in stac_layers(path)]
    given = [*(path for path in sources if not is_stac(path)), *of_lists]
    if not given:
        return []
    rasterio = geo("rasterio")
    rasters = [str(path) for path in raster_files(given)]
    waiting, parts = list(rasters), [str(path) for path in listed if not is_address(path)]
    while waiting:
        path = waiting.pop()
        if os.path.isdir(path):  # a Zarr store
            waiting += [os.path.join(path, name) for name in sorted(os.listdir(path))]
            continue
        if path in parts or not os.path.isfile(path):
            continue
        parts.append(path)
        if path in rasters or path.lower().endswith(".vrt"):
            # a damaged one is for the reader of the layers to complain of
            with suppress(rasterio.errors.RasterioIOError), open_raster(path) as raster:
                waiting += raster.files
    return parts


def chosen_species(present: Sequence[str], wanted: Sequence[str], path: str) -> list[str]:
    """The species of a file, or those asked for."""
    from maxent.species.input.records.names import find_name

    found = {name: find_name(name, present) for name in wanted}
    lacking = [name for name, spelled in found.items() if spelled is None]
    if lacking:
        some = ", ".join(map(repr, present[:10]))
        raise ValueError(f"{path}: no species {lacking[0]!r}; it has {some}")
    return [name for name in present if not wanted or name in found.values()]
