"""Tables, JSON and pictures of a comparison of niches."""

from __future__ import annotations

import io as text
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from maxent import io
from maxent.rows.arrays import Array
from maxent.species.comparing.niches.comparison import NicheComparison
from maxent.species.comparing.niches.environment import EnvironmentSpace, NicheDensity
from maxent.species.comparing.niches.null_tests import STATISTICS, NullTest
from maxent.species.report import figures
from maxent.species.report.tables.text import csv_bytes

_COLOURS = (figures.TRAIN, figures.TEST)


def comparison_files(path: Path, tested: bool) -> dict[str, Path]:
    """The files that :func:`write_comparison` writes, by what they hold."""
    null = {"null": path.with_name(f"{path.stem}_null.csv")} if tested else {}
    return {"table": path, **null, "picture": path.with_suffix(".png")}


def write_comparison(
    found: NicheComparison, path: Path, tell: Callable[[str], None] = lambda note: None
) -> list[Path]:
    """Write the table, the null distributions and a picture beside it; returns what was written.

    The picture needs matplotlib; without it ``tell`` is called with a note.

    Parameters
    ----------
    found : NicheComparison
        What was found.
    path : path
        The table, a .csv file; the others have its name.
    tell : callable, default does nothing
        Called with a note.
    """
    files = comparison_files(path, bool(found.tests))
    written = [path]
    io.write_atomically(path, _table(found.rows()))
    if "null" in files:
        io.write_atomically(files["null"], _table(found.null_rows()))
        written.append(files["null"])
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        tell("no picture: it needs matplotlib (pip install maxent[plot])")
        return written
    buffer = text.BytesIO()
    with figures.drawing({"axes.grid": False}):
        comparison_figure(found).savefig(buffer, format="png", dpi=160)
    io.write_atomically(files["picture"], buffer.getvalue())
    return [*written, files["picture"]]


def _table(rows: Sequence[dict[str, Any]]) -> bytes:
    return csv_bytes(rows[0], (row.values() for row in rows))


# -- pictures --------------------------------------------------------------------------------------


def comparison_figure(found: NicheComparison) -> Any:
    """Null distributions with the overlap observed; before them the two niches on their axes."""
    from matplotlib.figure import Figure

    pairs = list(zip(found.tests[::2], found.tests[1::2], strict=True))
    space = found.environment
    rows = len(pairs) + (space is not None)
    heights = [3.7] * (space is not None) + [2.6] * len(pairs)
    figure = Figure(figsize=(8.2, sum(heights) + 0.2), layout="constrained")
    parts = figure.subfigures(rows, 1, height_ratios=heights, squeeze=False)[:, 0]
    if space is not None:
        _draw_space(parts[0], space, found.species)
    for part, pair in zip(parts[len(parts) - len(pairs) :], pairs, strict=True):
        title = pair[0].direction or "records of both species dealt out at random"
        part.suptitle(title, fontsize=10)
        for ax, test in zip(part.subplots(1, 2), pair, strict=True):
            _draw_null(ax, test)
    return figure


def _draw_null(ax: Any, test: NullTest) -> None:
    from matplotlib.ticker import MaxNLocator

    values = np.append(test.null, test.observed)
    low, high = float(values.min()), float(values.max())
    room = max(0.05 * (high - low), 0.005)
    ends = (max(0.0, low - room), min(1.0, high + room))
    bins = min(20, max(5, test.null.size // 4))
    ax.hist(test.null, bins=bins, color=figures.GREY, alpha=0.6)
    ax.axvline(test.observed, color=figures.TEST)
    letter = STATISTICS[test.statistic]
    name = {"D": "Schoener's D", "I": "Warren's I"}[letter]
    ax.set(xlabel=name, ylabel="null models", xlim=ends)
    said = f"line: observed {letter} = {test.observed:.3f}, p = {test.p_value:.3g}"
    ax.set_title(said, fontsize=8.5)
    ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.xaxis.set_major_locator(MaxNLocator(5))


def _draw_space(part: Any, space: EnvironmentSpace, species: tuple[str, str]) -> None:
    from matplotlib.lines import Line2D

    axes = space.axes
    names = [
        f"component {k + 1}, {share:.0%} of the variance\n{_weights(axes.loadings[:, k], axes)}"
        for k, share in enumerate(axes.explained)
    ]
    panels = part.subplots(1, 2, sharex=True, sharey=True)
    for ax, niche, scores, title, colour in zip(
        panels, space.niches, space.records, species, _COLOURS, strict=True
    ):
        _draw_niche(ax, niche, scores, space, colour)
        ax.set_title(f"{title}, {len(scores)} records")
    part.supxlabel(names[0], fontsize=8.5)
    part.supylabel(names[1], fontsize=8.5)
    lines = [
        Line2D([], [], color="#333b38", dashes=dashes, linewidth=1.2, label=label)
        for dashes, label in (
            ((), "all of the environment"),
            ((4, 2), "the commonest half of it"),
        )
    ]
    panels[0].legend(handles=lines, loc="best", fontsize=7.5)
    part.suptitle(f"niches in the environment: D = {space.d:.3f}, I = {space.i:.3f}", fontsize=10)


def _draw_niche(
    ax: Any, niche: NicheDensity, scores: Array, space: EnvironmentSpace, colour: str
) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    axes, size = space.axes, len(niche.available)
    extent = (axes.low[0], axes.high[0], axes.low[1], axes.high[1])
    shades = LinearSegmentedColormap.from_list("niche", ["#ffffff", colour])
    shown = {"origin": "lower", "extent": extent}
    ax.imshow(niche.occupancy.T, cmap=shades, aspect="auto", interpolation="nearest", **shown)
    centres = [
        axes.low[k] + (np.arange(size) + 0.5) / size * (axes.high[k] - axes.low[k]) for k in (0, 1)
    ]
    least = float(niche.available[niche.available > 0].min())
    for level, style in ((least / 2, "-"), (niche.level(0.5), "--")):
        ax.contour(
            *centres, niche.available.T, levels=[level], colors="#333b38", linestyles=style,
            linewidths=1.0,
        )  # fmt: skip
    ax.plot(*scores.T, ".", color="#1c2421", markersize=2, alpha=0.6)


def _weights(loadings: Array, axes: Any) -> str:
    """The two variables that weigh most in a component, with their signs."""
    top = np.argsort(-np.abs(loadings))[:2]
    return ", ".join(f"{'+' if loadings[v] > 0 else '−'} {axes.variables[v]}" for v in top)
