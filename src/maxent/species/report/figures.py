"""Line plots of the report, as SVG that needs nothing from the page."""

from __future__ import annotations

import base64
import io
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxent.evaluation import Calibration
from maxent.rows.arrays import Array
from maxent.species.fitting.results import (
    BlockSize,
    Evaluation,
    MapsInTime,
    Replicates,
    Response,
)
from maxent.species.report.markup import Html, element, fixed

TRAIN, TEST, AREA, GREY = "#0f766e", "#7c3aed", "#d97706", "#6b7280"
_LINES = ("#0f766e", "#7c3aed", "#d97706", "#2563eb", "#be185d", "#4d7c0f", "#57534e", "#0891b2")
# what each becomes on dark paper
_DARK = {
    "#ffffff": "#1b201e",
    "#1c2421": "#e8ecea",
    "#333b38": "#c9d1cd",
    "#8a948f": "#7d8883",
    "#e6eae8": "#37403c",
    "#0f766e": "#2dd4bf",
    "#7c3aed": "#b794f6",
    "#d97706": "#fbbf24",
    "#6b7280": "#9ca3af",
    "#2563eb": "#60a5fa",
    "#be185d": "#f472b6",
    "#4d7c0f": "#a3e635",
    "#57534e": "#a8a29e",
    "#0891b2": "#22d3ee",
}
_SAMPLES = (("", TRAIN, "training records"), ("test_", TEST, "test records"))
# settings of matplotlib are the process's own: of two reports at once, each would restore its own
_ONE_AT_A_TIME = threading.RLock()
_POINTS_TO_PIXELS = 4 / 3
_FONTS = "system-ui,-apple-system,'Segoe UI',Roboto,'Liberation Sans',Arial,sans-serif"
_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.fontsize": 8.5,
    "axes.edgecolor": "#8a948f",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6eae8",
    "grid.linewidth": 0.8,
    "xtick.color": "#8a948f",
    "ytick.color": "#8a948f",
    "xtick.labelcolor": "#333b38",
    "ytick.labelcolor": "#333b38",
    "axes.labelcolor": "#333b38",
    "text.color": "#1c2421",
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "text.parse_math": False,
    "svg.fonttype": "none",  # the browser's own letters: sharp, small and searchable
    "svg.hashsalt": "maxent",  # equal results give equal files
    "figure.facecolor": "white",
}


@dataclass(frozen=True)
class Picture:
    """An image inside the page, with its natural size in pixels of the page."""

    kind: str
    data: bytes
    width: float
    height: float

    def html(self, alt: str, class_: str | None = None) -> Html:
        """The image with the text that stands for it."""
        source = f"data:image/{self.kind};base64,{base64.b64encode(self.data).decode()}"
        return element(
            "img",
            src=source,
            alt=alt,
            width=round(self.width),
            height=round(self.height),
            class_=class_,
        )


@contextmanager
def drawing(changes: dict[str, Any] | None = None) -> Iterator[None]:
    """The style of all figures, while they are drawn and written."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError(
            "the report draws figures and needs matplotlib: pip install maxent[plot]"
        ) from error
    with _ONE_AT_A_TIME, matplotlib.rc_context(_STYLE | (changes or {})):
        yield


def roc(evaluation: Evaluation) -> Picture:
    """True against false positive rate, with the AUC of each curve."""
    figure, ax = _axes("share of background predicted (1 − specificity)", "share of records found")
    scores = {"train": evaluation.scores, "test": evaluation.test_scores or {}}
    for name, word, colour in (("train", "training", TRAIN), ("test", "test", TEST)):
        curve = evaluation.roc.get(name)
        if curve:
            label = f"{word} records, AUC {fixed(scores[name].get('auc'))}"
            x, y = curve["false_positive_rate"], curve["true_positive_rate"]
            ax.plot(x, y, color=colour, label=label)
    _random(ax)
    return _svg(figure)


def omission(curves: dict[str, Array]) -> Picture:
    """Omission and predicted area against the cumulative threshold."""
    figure, ax = _axes("cumulative threshold", "share")
    x = curves["cumulative"]
    ax.plot([0, 100], [0, 1], color=GREY, linestyle="--", label="omission the model predicts")
    ax.plot(x, curves["area"], color=AREA, label="background predicted suitable")
    ax.plot(x, curves["training_omission"], color=TRAIN, label="omission, training records")
    if curves.get("test_omission") is not None:
        ax.plot(x, curves["test_omission"], color=TEST, label="omission, test records")
    ax.set(xlim=(0, 100), ylim=(0, 1))
    _legend_above(figure, ax)
    return _svg(figure)


def boyce(curve: dict[str, Array]) -> Picture:
    """Predicted-to-expected ratio along the suitability."""
    figure, ax = _axes("suitability (cloglog)", "records found / expected by chance")
    ax.axhline(1, color=GREY, linestyle="--", linewidth=1.2, label="as many as by chance")
    for prefix, colour, label in _SAMPLES:
        if f"{prefix}ratio" in curve:
            x, y = curve[f"{prefix}prediction"], curve[f"{prefix}ratio"]
            ax.plot(x, y, color=colour, marker="o", markersize=2.5, label=label)
    ax.set_xlim(0, 1)
    ax.set_ylim(bottom=0)
    ax.legend(loc="upper left")
    return _svg(figure)


def calibration(bins: dict[str, Array]) -> Picture:
    """Observed share of the records in bins against the share the model expects there."""
    figure, ax = _axes("share of records the model expects", "share of records observed")
    x = bins["predicted"]
    drawn = [sample for sample in _SAMPLES if f"{sample[0]}observed" in bins]
    highs = [bins[f"{prefix}high"] for prefix, _, _ in drawn]
    top = 1.05 * float(np.nanmax(np.concatenate([x, *highs]), initial=0.0)) or 1.0
    ax.plot([0, top], [0, top], color=GREY, linestyle="--", linewidth=1.2, label="perfect")
    for prefix, colour, label in drawn:
        y, low, high = (bins[f"{prefix}{name}"] for name in ("observed", "low", "high"))
        error = np.clip([y - low, high - y], 0, None)
        style = {"color": colour, "markersize": 4.5, "capsize": 2.5, "elinewidth": 1.1}
        aside = 0.008 * top * (prefix == "test_")  # so that neither hides the other
        ax.errorbar(x + aside, y, yerr=error, fmt="o", label=label, **style)
    ax.set(xlim=(0, top), ylim=(0, top))
    ax.legend(loc="upper left")
    return _svg(figure)


def probability_figure(told: Calibration) -> Any:
    """Share of presences among points of each predicted probability, with 95 % intervals."""
    figure, ax = _axes("predicted probability of presence (cloglog)", "share of presences observed")
    ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1.2, label="perfect")
    error = np.clip([told.observed - told.low, told.high - told.observed], 0, None)
    style = {"color": TEST, "markersize": 4.5, "capsize": 2.5, "elinewidth": 1.1}
    label = f"observed; Brier score {told.brier:.3f}, slope {told.slope:.2f}"
    ax.errorbar(told.predicted, told.observed, error, fmt="o-", linewidth=1, label=label, **style)
    for x, y, n in zip(told.predicted, told.observed, told.n, strict=True):
        ax.annotate(f"{n}", (x, y), (4, -9), textcoords="offset points", fontsize=7, color=GREY)
    ax.set(xlim=(0, 1), ylim=(-0.03, 1.03))  # whole dots at both ends
    _legend_above(figure, ax)
    return figure


def replicate_roc(replicates: Replicates) -> Picture:
    """Mean ROC of the replicates' test records, one standard deviation either side."""
    figure, ax = _axes("share of background predicted (1 − specificity)", "share of records found")
    curve = replicates.roc
    _band(ax, curve["false_positive_rate"], curve["mean"], curve["sd"], "mean of the test records")
    _random(ax)
    return _svg(figure)


def replicate_omission(replicates: Replicates) -> Picture:
    """Mean omission of the replicates' test records, one standard deviation either side."""
    figure, ax = _axes("cumulative threshold", "omission of test records")
    curve = replicates.omission
    ax.plot([0, 100], [0, 1], color=GREY, linestyle="--", label="omission the model predicts")
    _band(ax, curve["cumulative"], curve["mean"], curve["sd"], "mean of the test records")
    ax.set(xlim=(0, 100), ylim=(0, 1))
    ax.legend(loc="upper left")
    return _svg(figure)


def variograms(size: BlockSize) -> Picture:
    """Variograms and their curves, scaled to their variance, and the size of blocks they make."""
    figure, ax = _axes("distance in km", "semivariance")
    fine = np.linspace(0, size.reach, 200)
    few = len(size.variograms) <= 8
    for i, (name, made) in enumerate(size.variograms.items()):
        colour = f"C{i % 10}"
        label = name if few else None
        ax.plot(fine, made.curve(fine), color=colour, linewidth=1.2, label=label)
        ax.plot(made.distance, made.semivariance, ".", color=colour, markersize=4)
    ax.axvline(size.km, color=GREY, linestyle="--")
    ax.set(xlim=(0, 1.03 * size.reach))
    ax.set_ylim(bottom=0)
    if few:
        ax.legend(loc="lower right")
    return _svg(figure)


def over_time(found: MapsInTime) -> Picture:
    """The suitable area at each time, and its line of least squares."""
    from matplotlib.ticker import MaxNLocator

    figure, ax = _axes("year", f"suitable area in {found.unit}")
    left, bottom, width, height = ax.get_position().bounds
    ax.set_position((left + 0.06, bottom, width - 0.06, height))
    ax.yaxis.set_label_coords(-0.17, 0.5)
    years = np.array([row["year"] for row in found.rows])
    area = np.array([row[found.area] for row in found.rows], dtype=np.float64)
    if all(f"{found.area}_low" in row for row in found.rows):
        ends = ([row[f"{found.area}_{end}"] for row in found.rows] for end in ("low", "high"))
        ax.fill_between(years, *ends, color=TRAIN, alpha=0.15, linewidth=0, label="90 % intervals")
    ax.plot(years, area, ".-", color=TRAIN, linewidth=1.2, markersize=5, label="each time")
    if found.area in found.slopes:
        slope = found.slopes[found.area]
        line = area.mean() + slope * (years - years.mean())
        words = f"trend, {slope:+,.0f} {found.unit} a year"
        ax.plot(years, line, color=AREA, linestyle="--", linewidth=1.2, label=words)
    ax.set_ylim(bottom=0)
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.legend(loc="best")
    return _svg(figure)


def along_multipliers(rows: list[dict[str, Any]], name: str, title: str) -> Picture:
    """A statistic of candidates against their multiplier, one line per kind; best first."""
    return _svg(multiplier_figure(rows, name, title))


def multiplier_figure(rows: list[dict[str, Any]], name: str, title: str) -> Any:
    """The matplotlib figure of :func:`along_multipliers`."""
    figure, ax = _axes("regularization multiplier", title)
    box = ax.get_position().bounds
    ax.set_position((box[0] + 0.02, box[1], box[2] - 0.02, 0.77))
    kinds = list(dict.fromkeys((row["features"], row["potential"]) for row in rows))
    kinds.sort(key=lambda kind: len(kind[0]))

    def aside(row: dict[str, Any]) -> float:
        """The multiplier, a little aside, so that no bar hides another."""
        place = kinds.index((row["features"], row["potential"])) - (len(kinds) - 1) / 2
        return float(row["multiplier"] * 1.03**place)

    for i, (features, potential) in enumerate(kinds):
        mine = [row for row in rows if (row["features"], row["potential"]) == (features, potential)]
        mine.sort(key=lambda row: row["multiplier"])
        sd = np.array([row.get(f"{name}_sd", np.nan) for row in mine])
        error = sd / np.sqrt([row["n_folds"] for row in mine])
        style = {"color": _LINES[i % len(_LINES)], "markersize": 4, "elinewidth": 1}
        ax.errorbar(
            [aside(row) for row in mine],
            [row[name] for row in mine],
            np.nan_to_num(error) if np.isfinite(error).any() else None,
            marker="o",
            capsize=2.5,
            label=features if potential == "box" else f"{features}, {potential}",
            **style,
        )
    best = rows[0]
    ax.plot(aside(best), best[name], "o", ms=12, mfc="none", mec="#1c2421")
    ax.set_xscale("log")
    ax.set_xticks(sorted({row["multiplier"] for row in rows}))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.minorticks_off()
    ax.xaxis.set_label_coords(0.5, -0.112)
    ax.yaxis.set_label_coords(-0.115, 0.5)
    columns = min(len(kinds), 4)
    place = {"loc": "lower left", "bbox_to_anchor": (-0.02, 1.0), "borderaxespad": 0.1}
    ax.legend(ncols=columns, columnspacing=1.2, **place)
    return figure


def null_histogram(values: list[float], observed: float, title: str) -> Picture:
    """How a statistic is distributed over null models, with that of the model."""
    figure, ax = _axes(title, "null models")
    ax.hist(values, bins=min(20, max(5, len(values) // 3)), color=GREY, alpha=0.6, label="null")
    ax.axvline(observed, color=TEST, label="chosen model")
    _legend_above(figure, ax)
    return _svg(figure)


class ResponseFigure:
    """Curves of one variable side by side; one set of axes serves all variables, which saves time.

    The variable is named beside the figure.
    """

    _KINDS = (
        ("marginal", TRAIN, "others held at their mean"),
        ("single", "#b45309", "model of this variable alone"),
    )

    def __init__(self) -> None:
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator

        self._figure = Figure(figsize=(5.2, 2.15))
        self._panels: dict[str, Any] = {}
        for i, (kind, colour, title) in enumerate(self._KINDS):
            ax: Any = self._figure.add_axes((0.11 + 0.46 * i, 0.14, 0.4, 0.75))
            ax.set(ylim=(0, 1), yticks=[0, 0.25, 0.5, 0.75, 1])
            ax.set_yticklabels([] if i else ["0", "", "0.5", "", "1"])
            ax.xaxis.set_major_locator(MaxNLocator(4))
            ax.ticklabel_format(axis="x", useOffset=False, scilimits=(-3, 5))
            ax.text(0, 1.04, title, fontsize=8.5, transform=ax.transAxes)
            band = ax.fill_between([0, 1], [0, 0], [1, 1], color=colour, alpha=0.18, linewidth=0)
            self._panels[kind] = ax, ax.plot([], [], color=colour)[0], band
        self._figure.axes[0].set_ylabel("suitability")
        self._figure.axes[0].yaxis.set_label_coords(-0.16, 0.5)

    def draw(self, curves: dict[str, Response]) -> Picture:
        """The curves by kind."""
        for kind, (ax, line, band) in self._panels.items():
            curve = curves.get(kind)
            ax.set_visible(curve is not None)
            if curve is None:
                continue
            line.set_data(curve.x, curve.y)
            ax.set_xlim(_ends(curve.x))
            bounded = curve.low is not None and curve.high is not None
            band.set_visible(bounded)
            if bounded:
                band.set_data(curve.x, curve.low, curve.high)
        return _svg(self._figure)


def tree_png(linkage: Array, names: Sequence[str], most: int = 200) -> bytes:
    """The tree of species by the correlations of their weights, a PNG.

    Two branches join where the mean correlation between their species is that of the axis. Of more
    than ``most`` species, the smallest branches are drawn as one leaf with their number.
    """
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure
    from scipy.cluster import hierarchy

    how = {"truncate_mode": "lastp", "p": most} if len(names) > most else {}
    with drawing():
        made = hierarchy.dendrogram(linkage, labels=list(names), no_plot=True, **how)
        height = 0.9 + 0.19 * len(made["ivl"])
        longest = 0.068 * max(map(len, made["ivl"]))
        figure = Figure(figsize=(4.2 + longest, height))
        left, bottom = 0.15 / (4.2 + longest), 0.55 / height
        ax: Any = figure.add_axes((left, bottom, 3.8 / (4.2 + longest), 1 - bottom - 0.1 / height))
        lines = [
            np.column_stack([1 - np.array(far), np.array(at) / 10 - 0.5])
            for far, at in zip(made["dcoord"], made["icoord"], strict=True)
        ]
        ax.add_collection(LineCollection(lines, colors=AREA, linewidths=1.4))
        least = min(float(line[:, 0].min()) for line in lines)
        ax.set(xlim=(min(least, 0.0) - 0.03, 1.0), ylim=(-0.7, len(made["ivl"]) - 0.3))
        ax.set_yticks(range(len(made["ivl"])), made["ivl"], style="italic")
        ax.yaxis.tick_right()
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="y", visible=False)
        ax.spines[:].set_visible(False)
        ax.set_xlabel("mean correlation where branches join")
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    return buffer.getvalue()


# -- pieces ----------------------------------------------------------------------------------------


def _axes(xlabel: str, ylabel: str) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.8, 3.5))
    ax: Any = figure.add_axes((0.125, 0.135, 0.845, 0.83))
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.xaxis.set_label_coords(0.5, -0.095)  # given, as finding a free place takes time
    ax.yaxis.set_label_coords(-0.095, 0.5)
    return figure, ax


def _ends(x: Array) -> tuple[float, float]:
    low, high = float(np.min(x)), float(np.max(x))
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _random(ax: Any) -> None:
    ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1.2, label="random, AUC 0.5")
    ax.set(xlim=(0, 1), ylim=(0, 1.005))
    ax.legend(loc="lower right")


def _band(ax: Any, x: Array, mean: Array, sd: Array, label: str) -> None:
    low, high = np.clip(mean - sd, 0, 1), np.clip(mean + sd, 0, 1)
    ax.fill_between(x, low, high, color=TEST, alpha=0.18, linewidth=0, label="± 1 SD")
    ax.plot(x, mean, color=TEST, label=label)


def _legend_above(figure: Any, ax: Any) -> None:
    """A legend above the axes, for curves that fill them."""
    left, bottom, width, _ = ax.get_position().bounds
    ax.set_position((left, bottom, width, 0.7))
    ax.xaxis.set_label_coords(0.5, -0.112)
    ax.legend(
        loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=2, columnspacing=1.2, borderaxespad=0.1
    )


def _svg(figure: Any) -> Picture:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue().decode()
    text = text[text.index("<svg") :].replace("'DejaVu Sans', sans-serif", _FONTS)
    text = text.replace("</svg>", f"<style>{_dark()}</style></svg>")
    width, height = 72 * _POINTS_TO_PIXELS * figure.get_size_inches()
    return Picture("svg+xml", text.encode(), width, height)


def _dark() -> str:
    """Other colours where the reader's screen is dark; a page passes that on to its pictures."""
    rules = (
        f'[style*="{what}: {light}"]{{{what}:{dark}!important}}'
        for light, dark in _DARK.items()
        for what in ("fill", "stroke")
    )
    return f"@media screen and (prefers-color-scheme:dark){{{''.join(rules)}}}"
