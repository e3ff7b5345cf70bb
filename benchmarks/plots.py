"""Figures of docs/benchmarks.md, from benchmarks/results and experiments/results.

Each function draws one figure; the blocks of the page call them when the site is built.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from benchmarks.comparisons import PARTS, Comparison, Record, comparisons, number, read, targets

EXPERIMENTS = Path(__file__).parent.parent / "experiments" / "results"
# Okabe and Ito's colours, which the colour-blind can tell apart; ours is always the blue
OURS, RED = "#0072B2", "#D55E00"
COLOURS = (RED, "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#666666", "#000000")
MARKERS = "sD^vP<>"
Style = tuple[str, str]  # colour and marker
Point = tuple[str, str, float]  # line of the plot, series, value


def _experiment(name: str) -> list[Record]:
    with (EXPERIMENTS / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def _axes(columns: int = 1, height: float = 3.2) -> tuple[Figure, list[Axes]]:
    size = (7.0, height)
    figure, axes = plt.subplots(1, columns, figsize=size, squeeze=False, layout="constrained")
    return figure, list(axes[0])


def _styles(series: Iterable[str]) -> dict[str, Style]:
    """Blue circles for ours, another colour and marker for each peer."""
    others = [name for name in dict.fromkeys(series) if name != "maxent"]
    return {"maxent": (OURS, "o")} | {
        name: (COLOURS[i], MARKERS[i]) for i, name in enumerate(others)
    }


def _legend(figure: Figure, styles: dict[str, Style], columns: int = 4, line: str = "") -> None:
    handles = [
        Line2D([], [], marker=marker, color=colour, ls=line, label=name)
        for name, (colour, marker) in styles.items()
    ]
    where = "outside lower center"
    figure.legend(handles=handles, loc=where, ncols=columns, frameon=False, fontsize=9)


def _lines(axes: Axes, names: Iterable[str]) -> dict[str, int]:
    """One line of the plot for each name, the first on top."""
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    axes.set_yticks(list(places.values()), list(places))
    axes.set_ylim(len(places) - 0.5, -0.5)
    axes.grid(axis="both", alpha=0.3)
    axes.set_axisbelow(True)
    return places


def _dots(axes: Axes, points: list[Point], styles: dict[str, Style], hollow: str = "") -> None:
    """Points on one line for each name; those of the series ``hollow`` are not filled."""
    places = _lines(axes, [name for name, _, _ in points])
    for name, series, value in points:
        colour, marker = styles[series]
        face = "white" if series == hollow else colour
        front = 4 if series == "maxent" else 3
        axes.plot(value, places[name], marker, color=colour, mfc=face, ms=7, zorder=front)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")


def overview() -> None:
    """Every comparison, one line for each part of the library."""
    figure, (axes,) = _axes(height=4.6)
    parts: dict[str, list[Comparison]] = {}
    missed = set()
    for part, suites in PARTS.items():
        every = [one for suite in suites for one in comparisons(suite)]
        missed |= {(g.problem, g.method) for s in suites for g in targets(s) if not g.met}
        if every:
            parts[part] = sorted(every, key=lambda one: one.ratio)
    places = _lines(axes, parts)
    axes.axvspan(1e-3, 1, color=RED, alpha=0.07, lw=0)
    axes.axvline(1, color="black", lw=1)
    for part, place in places.items():
        for turn, one in enumerate(parts[part]):
            y = place + 0.22 * (turn % 3 - 1)
            if (one.problem, one.peer) in missed:
                axes.plot(one.ratio, y, "X", ms=8, color=RED, mec="white", mew=0.6, zorder=4)
            else:
                face = "white" if one.recorded else OURS
                axes.plot(one.ratio, y, "o", ms=5, mfc=face, mec=OURS, alpha=0.6, zorder=3)
    axes.set(xscale="log", xlim=(0.05, 2000), xlabel="peer's time / ours")
    axes.set_xticks([0.1, 0.5, 1, 2, 5, 10, 100, 1000])
    axes.set_xticklabels(["0.1", "0.5", "1", "2", "5", "10", "100", "1000"])
    axes.minorticks_off()
    axes.set_title("peer faster   ", loc="left", fontsize=9, x=0.05)
    axes.set_title("maxent faster", loc="right", fontsize=9)
    handles = [
        Line2D([], [], marker="o", ls="", color=OURS, alpha=0.7, label="same run"),
        Line2D([], [], marker="o", ls="", mfc="white", mec=OURS, label="recorded peer"),
        Line2D([], [], marker="X", ls="", color=RED, ms=8, label="target missed"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)


def map_sizes() -> None:
    """Time of the 1.5-entmax of one row against the number of classes."""
    figure, (axes,) = _axes()
    rows = _experiment("projection_times")
    rows = [
        row | {"method": row["method"].replace("maxent.Tsallis(1.5)", "maxent")} for row in rows
    ]
    styles = _styles(row["method"] for row in rows)
    for method, (colour, marker) in styles.items():
        here = [row for row in rows if row["method"] == method]
        classes = [number(row["d"]) for row in here]
        axes.plot(classes, [number(row["median_s"]) for row in here], marker=marker, color=colour)
        low, high = ([number(row[name]) for row in here] for name in ("low_s", "high_s"))
        axes.fill_between(classes, low, high, color=colour, alpha=0.15, lw=0)
    axes.set(xscale="log", yscale="log", xlabel="number of classes", ylabel="seconds for one row")
    axes.grid(alpha=0.3)
    _legend(figure, styles, line="-")


def maps() -> None:
    """Sparse maps of many rows beside entmax and softmax."""
    figure, (axes,) = _axes(height=3.6)
    points = []
    for row in read("maps"):
        found = re.fullmatch(r"alpha=(\S+) on (\d+) x (\d+) float32", row["problem"])
        if found:
            alpha, entries = found[1], int(found[2]) * int(found[3])
            name = f"α = {alpha}, {int(found[3]):,} classes"
            method = row["method"].replace(" (floor)", "")
            points.append((name, method, 1e9 * number(row["seconds"]) / entries))
    styles = _styles(series for _, series, _ in points)
    _dots(axes, points, styles)
    axes.set_xlabel("nanoseconds per score")
    _legend(figure, styles)


def classifiers() -> None:
    """Time to the optimum of classifiers and l1 regressions."""
    figure, (axes,) = _axes(height=4.8)
    points = []
    for row in [*read("training"), *read("glm")]:
        if row["status"] == "OK" and not row["method"].startswith("maxent ("):
            name = row["problem"].replace("beta_max", "max").replace("beta", "β")
            name = name.replace("alpha=", "α = ").replace("two classes, sparse", "sparse")
            method = re.sub(r" \(\d threads\)", "", row["method"])
            points.append((name, method, number(row["seconds"])))
    styles = _styles(series for _, series, _ in points)
    _dots(axes, points, styles)
    axes.set_xlabel("seconds")
    axes.tick_params(axis="y", labelsize=9)
    _legend(figure, styles, 3)


def densities() -> None:
    """Time of a density against the size of the background, and what its answer lacks."""
    figure, (left, right) = _axes(2, 3.8)
    points: list[tuple[int, str, Record]] = []
    names = {"maxnet (R, glmnet)": "maxnet", "maxent.jar 3.4.4 (recorded)": "maxent.jar (recorded)"}
    for row in read("density"):
        size = re.match(r"density lqph, (\d+) x (\d+)", row["problem"])
        if size:
            points.append((int(size[2]), names.get(row["method"], row["method"]), row))
    styles = _styles(series for _, series, _ in points)
    for series, (colour, marker) in styles.items():
        here = [(sites, row) for sites, name, row in points if name == series]
        face = "white" if "recorded" in series else colour
        style = {"marker": marker, "color": colour, "mfc": face, "ls": ""}
        left.plot([s for s, _ in here], [number(row["seconds"]) for _, row in here], **style)
        judged = [(s, number(row["accuracy"])) for s, row in here if row["accuracy"]]
        right.plot([s for s, _ in judged], [value for _, value in judged], **style)
    left.set(xscale="log", yscale="log", xlabel="background sites", ylabel="seconds")
    left.set_title("time of a fit", fontsize=10)
    right.set(xscale="log", yscale="log", xlabel="background sites", ylabel="gain")
    right.set_title("gain that the answer may lack", fontsize=10)
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.margins(x=0.12)
    _legend(figure, styles, 3)


def structures() -> None:
    """Structured predictions: the peer's time over ours."""
    _, (axes,) = _axes(height=5.0)
    shown = []
    for suite in PARTS["chains, trees, ranking, transport"]:
        missed = {(goal.problem, goal.method) for goal in targets(suite) if not goal.met}
        for one in comparisons(suite):
            if "float64" not in one.problem and " on noise " not in one.problem:
                name = one.problem.replace("forward and backward", "both ways")
                name = name.replace("any number of root arcs, ", "").replace(" on points", "")
                name = re.sub(r"(, per \w+|,? float32| value and gradient)", "", name)
                shown.append((f"{name}: {one.family}", one, (one.problem, one.peer) in missed))
    places = _lines(axes, [name for name, _, _ in shown])
    for name, one, lost in shown:
        style = {"marker": "X", "ms": 8} if lost else {"marker": "o", "ms": 6}
        face = "white" if one.recorded else RED if lost else OURS
        colour = RED if lost else OURS
        axes.plot(one.ratio, places[name], color=colour, mfc=face, mec=colour, zorder=3, **style)
    axes.axvline(1, color="black", lw=1)
    axes.set(xscale="log", xlabel="peer's time / ours")
    axes.set_xticks([1, 2, 5, 10, 100, 1000], ["1", "2", "5", "10", "100", "1000"])
    axes.minorticks_off()
    axes.tick_params(axis="y", labelsize=8.5)


def tagging() -> None:
    """CoNLL-2000 beside CRFsuite: time and memory."""
    figure, (left, right) = _axes(2, 3.0)
    names = {
        "training, 50 iterations": "training",
        "training, 50 iterations, CPU": "training, CPU time",
        "one more iteration": "one iteration",
        "tagging the test set": "tagging",
        "tagging the test set, CPU": "tagging, CPU time",
    }
    points, memory = [], []
    for row in read("tagging"):
        task = row["problem"].removeprefix("CoNLL-2000, c2 = 1, ")
        if task in names:
            points.append((names[task], row["method"], number(row["seconds"])))
        elif task.endswith("trains") and row["method"] in ("maxent", "python-crfsuite"):
            memory.append((row["method"], number(row["seconds"])))
    styles = _styles(series for _, series, _ in points)
    _dots(left, points, styles)
    left.set_xlabel("seconds")
    for place, (method, value) in enumerate(memory):
        right.barh(place, value, color=styles[method][0], height=0.6)
    right.set(yticks=[], ylim=(len(memory) - 0.4, -0.6), xlabel="MB of the training process")
    _legend(figure, styles)
    figure.get_layout_engine().set(w_pad=0.08)


def scale() -> None:
    """An evaluation on two workers against cells, and fits of 2 million rows."""
    _, (left, right) = _axes(2, 3.6)
    sizes: dict[str, list[tuple[int, float]]] = {}
    for row in read("scale"):
        size = re.match(r"evaluation of (\S+) cells per worker, (\S+) features", row["problem"])
        if size:
            cells = int(size[1].replace(",", ""))
            sizes.setdefault(f"{size[2]} features", []).append((cells, number(row["seconds"])))
    for (name, values), marker, shade in zip(sizes.items(), "o^s", (0.4, 0.7, 1.0), strict=True):
        left.plot(*zip(*values, strict=True), marker=marker, color=OURS, alpha=shade, label=name)
    left.set(xscale="log", yscale="log", xlabel="cells per worker", ylabel="seconds")
    left.set_xticks([125_000, 500_000, 2_000_000], ["125,000", "500,000", "2,000,000"])
    left.set_yticks([0.05, 0.1, 0.2, 0.5], ["0.05", "0.1", "0.2", "0.5"])
    left.set_title("one evaluation, two workers", fontsize=10)
    left.legend(frameon=False, fontsize=9)
    styles: dict[str, dict[str, object]] = {
        "maxent, softmax": {"color": OURS, "marker": "o"},
        "MLPClassifier, softmax": {"color": RED, "marker": "o"},
        "maxent, one-vs-all": {"color": OURS, "marker": "s", "mfc": "none", "ms": 11},
        "SGDClassifier, one-vs-all": {"color": "#E69F00", "marker": "s", "mfc": "none", "ms": 11},
    }
    points: dict[str, list[tuple[float, float]]] = {name: [] for name in styles}
    for row in read("dask_learning"):
        method = re.search(r"maxent|MLPClassifier|SGDClassifier", row["method"])
        name = f"{method[0] if method else ''}, {row['problem'].split(',')[0]}"
        points[name].append((number(row["seconds"]), number(row["accuracy"])))
    for name, style in styles.items():
        right.plot(*zip(*points[name], strict=True), ls="", label=name, **style)
    right.set(xscale="log", yscale="log", xlabel="seconds", ylabel="above the optimum (share)")
    right.set(xlim=(5, 200), ylim=(1e-7, 0.1))
    right.set_xticks([5, 10, 20, 50, 100, 200], ["5", "10", "20", "50", "100", "200"])
    right.set_title("fits of 2 million rows", fontsize=10)
    right.legend(frameon=False, fontsize=8, loc="center left")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.minorticks_off()


def gpu_maps() -> None:
    """Sparse maps on a GPU, over the time of a copy, against the number of classes."""
    figure, panels = _axes(2, 3.6)
    shown = ("maxent alpha=2", "maxent alpha=1.5", "maxent alpha=1.33", "maxent alpha=1.05")
    colours = dict(zip(shown, (OURS, "#56B4E9", "#009E73", "#CC79A7"), strict=True))
    markers = dict(zip(shown, "o^vD", strict=True))
    rows = read("gpu")
    times = {(row["shape"], row["what"]): number(row["ms"]) for row in rows}
    for axes, kind in zip(panels, ("float32", "bfloat16"), strict=True):
        shapes = [s for s in dict.fromkeys(row["shape"] for row in rows) if s.endswith(kind)]
        shapes.sort(key=lambda shape: int(shape.split()[2]))
        classes = [int(shape.split()[2]) for shape in shapes]
        for what in (*shown, "torch.softmax"):
            over = [times[shape, what] / times[shape, "copy"] for shape in shapes]
            soft = what == "torch.softmax"
            style = {"color": RED, "marker": "s", "ls": "--"} if soft else {}
            style = style or {"color": colours[what], "marker": markers[what]}
            axes.plot(classes, over, label=what.replace("alpha=", "α = "), **style)
        for (shape, what), value in times.items():
            if shape in shapes and "(recorded) alpha=1.5" in what:
                over = value / times[shape, "copy"]
                axes.plot(int(shape.split()[2]), over, "X", color="#666666", ms=8)
                name = what.split(" (")[0]
                axes.annotate(
                    f"{name},\nα = 1.5, recorded",
                    (int(shape.split()[2]), over),
                    fontsize=8,
                    textcoords="offset points",
                    xytext=(-6, 0),
                    ha="right",
                    va="center",
                )
        axes.set(xscale="log", yscale="log", xlabel="number of classes", title=kind)
        axes.set_ylim(0.8, 100)
        axes.set_yticks([1, 2, 5, 10, 50, 100], ["1", "2", "5", "10", "50", "100"])
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("time / time of a copy")
    handles, labels = panels[0].get_legend_handles_labels()
    where = "outside lower center"
    figure.legend(handles, labels, loc=where, ncols=3, frameon=False, fontsize=9)


def gpu_head() -> None:
    """The head of a language model: time against memory, and against how sharp the scores are."""
    figure, (left, right) = _axes(2, 3.8)
    styles = {
        "maxent head, entmax 1.5": (OURS, "o"),
        "maxent head, cross-entropy": ("#56B4E9", "o"),
        "torch linear + cross-entropy": (RED, "s"),
        "Liger cross-entropy, large chunks": ("#E69F00", "D"),
        "QuACK cross-entropy": ("#CC79A7", "v"),
        "cut cross-entropy": ("#009E73", "^"),
    }
    rows = read("gpu_head")
    for name, (colour, marker) in styles.items():
        style = {"color": colour, "marker": marker, "ls": ""}
        here = [row for row in rows if row["what"] == name and row["ms"]]
        trained = [row for row in here if row["spread"] == "2.2"]
        memory = [number(row["peak GB"]) for row in trained]
        left.plot(memory, [number(row["products"]) for row in trained], **style)
        first = [
            row for row in here if row["classes"] == here[0]["classes"] and row["tokens"] == "8192"
        ]
        spread = [number(row["spread"]) for row in first]
        right.plot(spread, [number(row["products"]) for row in first], **style | {"ls": "-"})
    left.set(xscale="log", yscale="log", xlabel="peak memory, GB", ylabel="time / one product")
    left.set_title("a trained model, three sizes", fontsize=10)
    right.set(xscale="log", yscale="log", xlabel="spread of the scores")
    right.set_title("from first steps to trained", fontsize=10)
    right.set_xticks([0.1, 0.5, 2.2], ["0.1", "0.5", "2.2"])
    right.minorticks_off()
    for axes in (left, right):
        axes.set_ylim(0.9, 30)
        axes.set_yticks([1, 2, 4, 10, 20], ["1", "2", "4", "10", "20"])
        axes.grid(alpha=0.3)
        axes.minorticks_off()
    _legend(figure, styles, 2)


def limits() -> None:
    """Start-up and app: how much of each limit is used."""
    _, (axes,) = _axes()
    used: dict[str, tuple[float, str]] = {}
    for row in [*read("startup"), *read("app")]:
        limit = re.search(r"under ([\d.]+) s$", row["target"])
        frames = re.match(r"(\d+) frames per second", row["target"])
        memory = re.search(r"under ([\d.]+) GB", row["target"])
        peak = re.search(r"peak (\d+) MB", row["note"])
        seconds = number(row["seconds"])
        if limit:
            share, text = seconds / float(limit[1]), f"{seconds:.3g} of {limit[1]} s"
        elif frames:
            share = seconds * float(frames[1])
            text = f"{1 / seconds:.0f} frames/s, at least {frames[1]}"
        elif memory and peak:
            share = float(peak[1]) / 1000 / float(memory[1])
            text = f"{peak[1]} MB of {memory[1]} GB"
        else:
            continue
        used[row["problem"]] = share, text
    places = _lines(axes, used)
    for name, (share, text) in used.items():
        axes.barh(places[name], share, color=OURS if share <= 1 else RED, height=0.55)
        axes.text(share + 0.02, places[name], text, va="center", fontsize=9)
    axes.axvline(1, color="black", lw=1)
    axes.set(xlim=(0, 1.05), xlabel="share of the limit")
    axes.tick_params(axis="y", labelsize=9)


def nceas() -> None:
    """AUC on independent surveys less that of published maxnet, by region."""
    figure, (axes,) = _axes(height=3.4)
    shown = {
        ("random", "default"): ("random background", OURS, "o"),
        ("random", "Tsallis 1.5"): ("random, Tsallis 1.5", "#CC79A7", "v"),
        ("target", "default"): ("target-group background", "#E69F00", "s"),
    }
    regions = ("AWT", "CAN", "NZ", "SWI", "all")
    rows = {(r["background"], r["variant"], r["region"]): r for r in _experiment("nceas_summary")}
    names = [
        f"{region} ({rows['random', 'default', region]['scored']} species)" for region in regions
    ]
    places = _lines(axes, names)
    for turn, ((background, variant), (label, colour, marker)) in enumerate(shown.items()):
        for region, place in zip(regions, places.values(), strict=True):
            row = rows[background, variant, region]
            middle, low, high = (
                number(row[f"maxnet_{name}"]) for name in ("difference", "low", "high")
            )
            y = place + 0.22 * (turn - 1)
            axes.plot([low, high], [y, y], color=colour, lw=1.5)
            axes.plot(middle, y, marker, color=colour, ms=6, label=label if not place else None)
    axes.axvline(0, color="black", lw=1)
    axes.set_xlabel("mean AUC less that of published maxnet, 95 % interval")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)


def sequences() -> None:
    """Letters read right in handwritten words; F1 of chunks against weights that are not 0."""
    figure, (left, right) = _axes(2, 4.0)
    rows = _experiment("ocr_folds")
    places = _lines(left, [row["model"] for row in rows])
    folds = {"fold 1": ("#56B4E9", "o"), "folds 1-9": ("#E69F00", "s")}
    for row in rows:
        colour, marker = folds[row["train"]]
        label = f"trained on {row['train']}" if places[row["model"]] == 0 else None
        at = number(row["accuracy"]), places[row["model"]]
        left.plot(*at, marker, color=colour, ms=7, label=label)
    left.set_xlabel("share of letters right")
    left.set_title("handwritten words", fontsize=10)
    models = {"L2-CRF": (OURS, "o"), "M3N": ("#009E73", "^"), "L1-CRF": ("#CC79A7", "D")}
    for model, (colour, marker) in models.items():
        here = [row for row in _experiment("chunking") if row["model"] == model]
        weights = [number(row["not_zero"]) for row in here]
        scores = [100 * number(row["f1"]) for row in here]
        right.plot(weights, scores, marker, color=colour, label=model)
    for row in read("tagging"):
        found = re.match(r"F1 ([\d.]+)", row["note"])
        if found and row["problem"].endswith("training, 50 iterations"):
            ours = row["method"] == "maxent"
            name = f"{row['method']}, 50 iterations"
            style = {"color": OURS, "ls": ":"} if ours else {"color": RED, "ls": "--"}
            right.axhline(float(found[1]), lw=1.4, label=name, **style)
    right.set(xscale="log", xlabel="weights that are not 0", ylabel="F1 of phrases")
    right.set_title("CoNLL-2000 chunks", fontsize=10)
    right.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)


def relaxation() -> None:
    """CPU time of the relaxation path against the size of the alphabet."""
    figure, (axes,) = _axes()
    names = {
        "maxent (hull)": ("maxent", OURS, "o"),
        "maxent (uniform)": ("the paper, uniform prior (§7)", "#009E73", "v"),
        "maxent (local)": ("the paper's recursion (§6)", RED, "s"),
        "maxent (global)": ("the paper, global tracking (§7)", "#E69F00", "D"),
    }
    for method, (label, colour, marker) in names.items():
        points = []
        for row in read("relaxation"):
            size = re.match(r"growth, (\d+) letters", row["problem"])
            if size and row["method"] == method:
                points.append((int(size[1]), number(row["seconds"])))
        axes.plot(*zip(*points, strict=True), marker=marker, color=colour, label=label)
    axes.set(xscale="log", yscale="log", xlabel="letters", ylabel="CPU seconds")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)


FIGURES = (
    *(overview, map_sizes, maps, classifiers, densities, relaxation, structures, tagging, scale),
    *(gpu_maps, gpu_head, limits, nceas, sequences),
)
