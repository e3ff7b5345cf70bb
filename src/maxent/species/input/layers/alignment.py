"""Alignment: one grid for layers that come on several, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from maxent.species.input.crs import projected, same_crs, short_crs
from maxent.species.input.layers.grid import Grid, Window
from maxent.species.input.layers.placement import corners, cover, same_grid
from maxent.species.input.layers.sources import FileSource, Source
from maxent.species.libraries import geo

ALIGN = ("refuse", "first", "finest", "coarsest")


def resamplings() -> list[str]:
    """Ways to resample, by GDAL's names."""
    # GDAL does not warp with "gauss"
    return [r.name for r in geo("rasterio").enums.Resampling if r.name != "gauss"]


def share_crs(
    sources: Sequence[FileSource], like: Grid | None, notes: list[str]
) -> list[FileSource]:
    """Files that do not state their CRS take that of the others."""
    known = next((s.grid.crs for s in sources if s.grid.crs is not None), None)
    whose = "the other layers"
    if known is None and like is not None:
        known, whose = like.crs, "the grid asked for"
    silent = [s for s in sources if s.grid.crs is None]
    if known is None or not silent:
        return list(sources)
    notes.append(
        f"{', '.join(s.label for s in silent)}: no coordinate reference system in the file; "
        f"taken to be that of {whose} ({short_crs(known)})"
    )
    return [replace(s, grid=replace(s.grid, crs=s.grid.crs or known)) for s in sources]


def with_crs(like: Grid, sources: Sequence[Source]) -> Grid:
    """The grid asked for, once every layer is known to overlap it."""
    grid = like if like.crs is not None else replace(like, crs=sources[0].grid.crs)
    for source in sources:
        if cover(grid, source.grid) is None:
            raise ValueError(apart(source, f"the grid asked for, {grid.describe()}"))
    return grid


def target_grid(sources: Sequence[Source], align: str, notes: list[str]) -> Grid:
    """The grid for all layers: that of one of them, cut to what all of them cover."""
    first = _reference(sources, align)
    odd = [s for s in sources if not same_grid(s.grid, first.grid)]
    if not odd:
        return first.grid
    if align == "refuse":
        first = max(sources, key=lambda s: sum(same_grid(s.grid, o.grid) for o in sources))
        odd = [s for s in sources if not same_grid(s.grid, first.grid)]
        alike = [s for s in odd if same_crs(s.grid.crs, first.grid.crs)]
        lost = next((s for s in alike if cover(first.grid, s.grid) is None), None)
        if lost is not None:
            raise ValueError(apart(lost, f"{first.label}, {first.grid.describe()}"))
        raise ValueError(
            f"{odd[0].label} is not on the grid of the other layers: {difference(odd[0], first)}. "
            'Resample it, or let align="first", "finest" or "coarsest" (--align) do so'
        )
    grid = first.grid
    for source in odd:
        window = cover(grid, source.grid)
        if window is None:
            raise ValueError(apart(source, f"the layers before it, {grid.describe()}"))
        grid = grid.crop(window)
    if grid != first.grid:
        notes.append(f"layers cut to what all of them cover: {grid.describe()}")
    return grid


def _reference(sources: Sequence[Source], align: str) -> Source:
    def area(source: Source) -> float:
        """The area of a cell in the middle, in the units of the first layer."""
        grid = source.grid
        x, y = corners(grid.crop(Window(grid.height // 2, grid.width // 2, 1, 1)))
        crs = sources[0].grid.crs
        if crs is not None and grid.crs is not None and not same_crs(crs, grid.crs):
            x, y = projected(x, y, grid.crs, crs)
        across, down = (x[1] - x[0], y[1] - y[0]), (x[2] - x[0], y[2] - y[0])
        return float(abs(across[0] * down[1] - across[1] * down[0]))

    if align == "finest":
        return min(sources, key=area)
    if align == "coarsest":
        return max(sources, key=area)
    return sources[0]


def difference(odd: Source, first: Source) -> str:
    """How the grid of a layer differs from that of another."""
    one, other = odd.grid, first.grid
    if not same_crs(one.crs, other.crs):
        return f"it is in {short_crs(one.crs)}, {first.label} in {short_crs(other.crs)}"
    return f"it has {one.describe()}; {first.label} has {other.describe()}"


def apart(source: Source, other: str) -> str:
    """What to say of a layer that covers nothing of the others."""
    return (
        f"{source.label} does not overlap {other}: it covers {source.grid.describe()} in "
        f"{short_crs(source.grid.crs)}; check its coordinate reference system and extent"
    )
