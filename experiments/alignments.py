"""Alignments of time series: a learned metric beside plain warping, and nearest neighbours.

Recovered alignments. No set comes with true alignments, so they are made: a series and a copy whose
time runs at a random, never negative speed, with a gain, a drift and noise in every channel: once
as they are, once with as many nuisance channels besides, random walks that have nothing to do with
each other. 20 pairs from the training part teach ``Aligner``, 50 from the test part judge it, in
three draws. Potential and cost are the same for all sets; they, the size of the distortions and the
nuisance were settled with scores of the first draw in sight. SparseMAP is left out where series are
long: its active sets grow large and slow there.

Nearest neighbours. 1-NN by the warping distance with squared differences, hard and soft (gamma =
0.1), on the archive's own split; the published errors are those of the UCR archive's summary table
(2018) for window 0 (Euclidean), the window it learned, and no window. It has none for vowels of
unequal lengths.

python -m experiments.alignments [--data DIR] [--quick]
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np

import maxent as mx
from experiments.south_america import DATA, main
from maxent.evaluation import alignment_deviation, alignment_overlap

Array = Any
Pair = tuple[Array, Array]

# every how many elements of a series are kept in the first table
SETS = {"trace": 5, "gunpoint": 3, "arrowhead": 5, "italypowerdemand": 1, "japanesevowels": 1}
DRAWS, TRAINING, TEST = 3, 20, 50
GAMMA = 0.1
BLOCK = 1 << 18  # cells scored at once
PUBLISHED = {  # errors of window 0, of the learned window (percent of the length) and of no window
    "trace": (0.24, 0.01, 3, 0.0),
    "gunpoint": (0.0867, 0.0867, 0, 0.0933),
    "arrowhead": (0.2, 0.2, 0, 0.2971),
    "italypowerdemand": (0.0447, 0.0447, 0, 0.0496),
}
LEARNED = {
    "learned, CRF": {"entropy": "shannon"},
    "learned, CRF with cost 1": {"entropy": "shannon", "cost": 1.0},
    "learned, SparseMAP": {"entropy": "squared-norm"},
    "learned, hinge": {"entropy": "zero", "cost": 1.0},
}
LONG = ("trace", "gunpoint", "arrowhead")
SETTINGS: dict[str, Any] = {"potential": 0.01, "tol": 1e-3}


class Series(NamedTuple):
    """The parts of a set: lists of (elements, channels) and labels."""

    training: list[Array]
    training_labels: Array
    test: list[Array]
    test_labels: Array


def read(data: Path, name: str) -> Series:
    """A set, each series as a matrix."""
    with np.load(data / "timeseries" / f"{name}.npz") as file:
        parts: list[Any] = []
        for part in ("train", "test"):
            X = file[f"X_{part}"]
            if f"length_{part}" in file:
                parts.append(np.split(X, np.cumsum(file[f"length_{part}"])[:-1]))
            else:
                parts.append([x[:, None] for x in X])
            parts.append(file[f"y_{part}"])
    return Series(*parts)


# -- recovered alignments --------------------------------------------------------------------------


def warp(x: Array, rng: np.random.Generator) -> tuple[Pair, Array]:
    """A series and a distorted copy at another speed, and their alignment as a path."""
    n = len(x)
    m = int(rng.integers(int(0.8 * n), int(1.3 * n) + 1))
    speed = np.repeat(rng.gamma(0.5, size=m // 3 + 1), 3)[: m - 1] + 0.02
    time = np.concatenate([[0], np.cumsum(speed)])
    time *= (n - 1) / time[-1]
    phase, size = 2 * np.pi * rng.random(x.shape[1]), rng.normal(size=(3, x.shape[1]))
    clock = np.linspace(0, 1, m)[:, None]
    copy = np.column_stack([np.interp(time, np.arange(n), channel) for channel in x.T])
    drift = 0.3 * size[0] * np.sin(2 * np.pi * clock + phase) + 0.2 * size[1]
    copy = copy * np.exp(0.1 * size[2]) + drift + 0.05 * rng.normal(size=copy.shape)
    return (x, copy), _path(np.rint(time).astype(int))


def _path(partner: Array) -> Array:
    """The path through (partner[j], j); elements that were skipped join the nearer side."""
    cells = [(0, 0)]
    for j in range(1, len(partner)):
        before, after = int(partner[j - 1]), int(partner[j])
        middle = (before + after + 1) // 2
        cells += [(i, j - 1) for i in range(before + 1, middle)]
        cells += [(i, j) for i in range(middle if after > before + 1 else after, after + 1)]
    return np.array(cells)


def pairs_of(
    series: list[Array], step: int, count: int, rng: np.random.Generator
) -> tuple[list[Pair], list[Array]]:
    """Pairs from series drawn at random, and their alignments."""
    chosen = rng.choice(len(series), count, replace=len(series) < count)
    made = [warp(series[i][::step], rng) for i in chosen]
    return [pair for pair, _ in made], [path for _, path in made]


def with_nuisance(pairs: list[Pair], rng: np.random.Generator) -> list[Pair]:
    """Each sequence with as many channels again, random walks of variance 1 of its own."""

    def longer(x: Array) -> Array:
        walk = np.cumsum(rng.normal(size=x.shape), axis=0)
        return np.hstack([x, (walk - walk.mean(axis=0)) / walk.std(axis=0)])

    return [(longer(first), longer(second)) for first, second in pairs]


def plain(slopes: bool, band: float | None) -> Callable[[list[Pair]], list[Array]]:
    """Dynamic time warping, all channels alike; the band is a share of the longer sequence."""

    def predict(pairs: list[Pair]) -> list[Array]:
        found = []
        for pair in pairs:
            first, second = (np.gradient(x, axis=0) if slopes else x for x in pair)
            n, m = len(first), len(second)
            cost = np.sum((first[:, None] - second) ** 2, axis=2)
            width = None if band is None else round(band * max(n, m))
            domain = mx.Alignment(n, m, width)
            found += domain.path(domain.argmax(-cost.ravel()))
        return found

    return predict


def straight(pairs: list[Pair]) -> list[Array]:
    """The diagonal, whatever the series are."""
    shapes = [tuple(map(len, pair)) for pair in pairs]
    return [_path(np.rint(np.linspace(0, n - 1, m)).astype(int)) for n, m in shapes]


PLAIN = {
    "diagonal": straight,
    "DTW": plain(False, None),
    "DTW, band 10%": plain(False, 0.1),
    "DTW of slopes": plain(True, None),
}


def recovered(data: Path, draws: int) -> list[dict[str, Any]]:
    """Overlap and deviation of every method on every set and draw, without and with nuisance."""
    rows = []
    for name, step in SETS.items():
        whole = read(data, name)
        values = np.concatenate(whole.training)
        center, spread = values.mean(axis=0), values.std(axis=0)
        training, test = (
            [(x - center) / spread for x in part] for part in (whole.training, whole.test)
        )
        for draw in range(draws):
            rng = np.random.default_rng(draw)
            X, y = pairs_of(training, step, TRAINING, rng)
            new, true = pairs_of(test, step, TEST, rng)
            for channels in ("own", "own and nuisance"):
                if channels != "own":
                    X, new = with_nuisance(X, rng), with_nuisance(new, rng)
                for method in (*PLAIN, *LEARNED):
                    if name in LONG and "SparseMAP" in method:
                        continue
                    row = {"set": name, "channels": channels, "draw": draw, "method": method}
                    rows.append(row | judged(method, X, y, new, true))
                    print(rows[-1], flush=True)
    return rows


def judged(
    method: str, X: list[Pair], y: list[Array], new: list[Pair], true: list[Array]
) -> dict[str, Any]:
    """How well a method does on new pairs."""
    begin, gap = process_time(), 0.0
    if method in PLAIN:
        found = PLAIN[method](new)
    else:
        model = mx.Aligner(**LEARNED[method], **SETTINGS).fit(X, y)
        found, gap = model.predict(new), model.gap_
    both = list(zip(true, found, strict=True))
    return {
        "overlap": float(np.mean([alignment_overlap(a, b) for a, b in both])),
        "deviation": float(np.mean([alignment_deviation(a, b) for a, b in both])),
        "gap": gap,
        "cpu_seconds": process_time() - begin,
    }


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over the draws, and the largest gap."""
    table = []
    for key in dict.fromkeys((row["set"], row["channels"], row["method"]) for row in rows):
        own = [row for row in rows if (row["set"], row["channels"], row["method"]) == key]
        values = {
            name: np.array([row[name] for row in own])
            for name in ("overlap", "deviation", "gap", "cpu_seconds")
        }
        table.append(
            {
                **dict(zip(("set", "channels", "method"), key, strict=True)),
                "overlap": f"{values['overlap'].mean():.3f}",
                "overlap_sd": f"{values['overlap'].std():.3f}",
                "deviation": f"{values['deviation'].mean():.3f}",
                "largest_gap": f"{values['gap'].max():.1e}" if key[2] in LEARNED else "",
                "cpu_seconds": f"{values['cpu_seconds'].mean():.2f}",
            }
        )
    return table


# -- nearest neighbours ----------------------------------------------------------------------------


def distances(x: Array, others: list[Array], band: int | None, soft: bool) -> Array:
    """(Soft) warping distances from a series to others, a block that fits the cache at a time."""
    size = max(1, BLOCK // (len(x) * max(map(len, others))))
    blocks = [others[i : i + size] for i in range(0, len(others), size)]
    return np.concatenate([_distances(x, block, band, soft) for block in blocks])


def _distances(x: Array, others: list[Array], band: int | None, soft: bool) -> Array:
    lengths = np.array([len(other) for other in others])
    scores = np.zeros((len(x), lengths.sum()))
    for a, b in zip(x.T, np.concatenate(others).T, strict=True):
        apart = a[:, None] - b
        apart *= apart
        scores -= apart
    rows = [part.ravel() for part in np.split(scores, np.cumsum(lengths)[:-1], axis=1)]
    domain = mx.Alignment((len(x),) * len(others), tuple(lengths.tolist()), band)
    theta = mx.Ragged.from_rows(rows)
    if soft:
        return -GAMMA * domain.softmax(theta * (1 / GAMMA))[0]
    on_path = theta * domain.argmax(theta)
    return -np.add.reduceat(on_path.values, on_path.offsets[:-1])


def neighbours(data: Path, quick: bool) -> list[dict[str, Any]]:
    """Errors of 1-NN on every set, with the windows of the archive's table and without."""
    table = []
    for name in SETS:
        whole = read(data, name)
        length = len(whole.training[0])
        published = PUBLISHED.get(name)
        kinds: list[tuple[str, int | None, bool, float | None]] = []
        if published is not None:
            euclidean, learned, window, free = published
            kinds.append(("DTW, window 0 (Euclidean)", 0, False, euclidean))
            if window:
                width = round(window * length / 100)
                kinds.append((f"DTW, window {window}%", width, False, learned))
        else:
            free = None
        kinds.append(("DTW", None, False, free))
        kinds.append(("soft-DTW, window 10%", round(0.1 * length), True, None))
        test = list(zip(whole.test, whole.test_labels, strict=True))[:: 10 if quick else 1]
        for kind, band, soft, known in kinds:
            begin, wrong = process_time(), 0
            for x, label in test:
                nearest = np.argmin(distances(x, whole.training, band, soft))
                wrong += whole.training_labels[nearest] != label
            table.append(
                {
                    "set": name,
                    "distance": kind,
                    "error": f"{wrong / len(test):.4f}",
                    "published": "" if known is None else f"{known:.4f}",
                    "cpu_seconds": f"{process_time() - begin:.1f}",
                }
            )
            print(table[-1], flush=True)
    return table


def _write(path: Path, table: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    return path


def run(out: Path, data: Path = DATA, quick: bool = False) -> list[Path]:
    """Write both tables."""
    if not (data / "timeseries").exists():
        print(f"no time series in {data}: set MAXENT_DATA")
        return []
    suffix = "_quick" if quick else ""
    found = summary(recovered(data, 1 if quick else DRAWS))
    return [
        _write(out / f"alignments{suffix}.csv", found),
        _write(out / f"alignments_neighbours{suffix}.csv", neighbours(data, quick)),
    ]


if __name__ == "__main__":
    main(run, __doc__)
