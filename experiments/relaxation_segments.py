"""How many segments a relaxation path has (relaxation paper, §8 and Fig. 6).

50,000 letters, prior u_i ~ 1/(i + 2), samples of n/2^l letters from q_i ~ 1/i for l = -3..3, a
hundred of each; samples of 64n and 1000n letters, ten of each; and q itself. The paper's figure has
no table: its statements stand beside the numbers. Columns: mean, sd, min and max of segments / n,
the share of paths at whose end I_0 is empty, the largest duality gap. Large samples of smaller
alphabets, a hundred of each, are in relaxation_segments_alphabets.csv: the mode, and in how many of
the first ten the recursion of §6 finds another number of segments.

python -m experiments.relaxation_segments [--quick]
"""

from __future__ import annotations

import argparse
import csv
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

import maxent as mx

RESULTS = Path(__file__).parent / "results"
N = 50_000
TIMES = (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8)  # letters of a sample over n
LARGE = (64, 1000)
REPEATS, LARGE_REPEATS = 100, 10
ALPHABETS, RECURSIONS = (50, 500, 5_000), 10
STATED = {
    1 / 8: "at most 0.1",
    8: "close to 1",
    64: "mode around 2, seldom over 4",
    1000: "mode around 2, seldom over 4",
}


def zipf(n: int, offset: int) -> np.ndarray:
    """Probabilities in proportion to 1 / (i + offset), i = 1..n."""
    weights = 1.0 / (np.arange(1, n + 1) + offset)
    return weights / weights.sum()


def row(name: str, paths: list[tuple[int, float, float]], n: int, stated: str) -> dict[str, Any]:
    """Mean and spread of segments / n; the largest duality gap of all paths."""
    segments = np.array([path[0] for path in paths]) / n
    return {
        "letters": name,
        "repeats": len(paths),
        "mean": float(segments.mean()),
        "sd": float(segments.std(ddof=1)) if len(paths) > 1 else float("nan"),
        "min": float(segments.min()),
        "max": float(segments.max()),
        "I_0_empties": sum(np.isfinite(path[1]) for path in paths) / len(paths),
        "gap": max(path[2] for path in paths),
        "paper": stated,
    }


def measure(n: int, repeats: int, large_repeats: int) -> list[dict[str, Any]]:
    """One row a sample size."""
    prior, mother = zipf(n, 2), zipf(n, 0)
    rng = np.random.default_rng(0)

    def path(observed: np.ndarray) -> tuple[int, float, float]:
        found = mx.RelaxationPath(prior, observed).fit()
        return found.segments, found.nu_end, found.gap_

    rows = []
    for times in (*TIMES, *LARGE):
        count = repeats if times in TIMES else large_repeats
        samples = int(n * times)
        paths = [path(rng.multinomial(samples, mother)) for _ in range(count)]
        name = f"n/{1 / times:g}" if times < 1 else "n" if times == 1 else f"{times}n"
        rows.append(row(name, paths, n, STATED.get(times, "")))
        print("{letters:>6}: {mean:.4f} n segments, sd {sd:.4f}".format(**rows[-1]), flush=True)
    rows.append(row("q itself", [path(mother)], n, STATED[1000]))
    return rows


def alphabets(sizes: tuple[int, ...], repeats: int) -> list[dict[str, Any]]:
    """Segments of large samples of smaller alphabets: their mean, mode and most, over n."""
    rng, rows = np.random.default_rng(1), []
    for n in sizes:
        prior, mother = zipf(n, 2), zipf(n, 0)
        for times in (8, *LARGE):
            samples = [rng.multinomial(n * times, mother) for _ in range(repeats)]
            found = [mx.RelaxationPath(prior, sample).fit() for sample in samples]
            recursion = [mx.RelaxationPath(prior, s).fit("local") for s in samples[:RECURSIONS]]
            segments = np.array([path.segments for path in found])
            values, counts = np.unique(np.round(segments / n, 1), return_counts=True)
            rows.append(
                {
                    "n": n,
                    "letters": f"{times}n",
                    "repeats": repeats,
                    "mean": float(segments.mean() / n),
                    "mode": float(values[counts.argmax()]),
                    "max": float(segments.max() / n),
                    "gap": max(path.gap_ for path in found),
                    "recursions": len(recursion),
                    "recursion_differs": sum(
                        a.segments != b.segments for a, b in zip(recursion, found, strict=False)
                    ),
                }
            )
            print("n = {n}, {letters}: {mean:.3f} n segments, mode {mode:.1f} n".format(**rows[-1]))
    return rows


def _picture(rows: list[dict[str, Any]], n: int) -> bytes:
    from matplotlib.figure import Figure

    mine, times = rows[:-1], (*TIMES, *LARGE)
    mean, low, high = (np.array([r[key] for r in mine]) for key in ("mean", "min", "max"))
    figure: Any = Figure(figsize=(7, 4.4), dpi=120, layout="constrained")
    ax = figure.subplots()
    ax.fill_between(times, low, high, color="tab:green", alpha=0.35, label="least to most")
    ax.plot(
        times, mean, "o-", color="tab:green", ms=5, label=f"mean of {REPEATS} ({LARGE_REPEATS})"
    )
    ax.plot([1 / 8], [0.1], "kv", ms=8, label="paper: at most 0.1 at n/8")
    ax.plot([8], [1.0], "ks", ms=9, mfc="none", label="paper: close to 1 at 8n")
    ax.plot(LARGE, [2, 2], "k--", label="paper: mode around 2 for large samples")
    ax.set_xscale("log", base=2)
    ax.set_xticks(times, [r["letters"] for r in mine])
    ax.set(xlabel="letters in the sample", ylabel="segments / n", ylim=(0, 2.2))
    ax.set_title(f"Segments of the relaxation path, n = {n:,}, Zipf prior and sample", fontsize=11)
    ax.grid(alpha=0.3)
    ax.legend(loc="upper left")
    buffer = BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def run(results: Path, quick: bool = False) -> list[Path]:
    """Measure, print, write the csv and draw the picture."""
    n = N // 10 if quick else N
    rows = measure(n, 5 if quick else REPEATS, 2 if quick else LARGE_REPEATS)
    smaller = alphabets(ALPHABETS[:2] if quick else ALPHABETS, 5 if quick else REPEATS)
    if quick:
        return []
    picture = results / "relaxation_segments.png"
    picture.write_bytes(_picture(rows, n))
    return [
        _written(results / "relaxation_segments.csv", rows),
        _written(results / "relaxation_segments_alphabets.csv", smaller),
        picture,
    ]


def _written(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()})
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the letters, not written")
    for path in run(RESULTS, parser.parse_args().quick):
        print(f"written: {path.relative_to(RESULTS.parents[1])}")
