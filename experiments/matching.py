"""Landmarks of the CMU house sequence matched from frame to frame, with learned weights.

Frames 0 to 90 apart, 30 landmarks each, 60 shape-context features; training, validation and test
pairs of Caetano et al. (Learning graph matching, TPAMI 2009), who learn such a linear assignment
with a structured hinge. The landmarks are shuffled. Scores are -sum_k w_k (a_k - b_k)^2; w = 1 is
matching without learning. The strength of the penalty is chosen by the validation pairs.

python -m experiments.matching [--data DIR] [--quick]
"""

from __future__ import annotations

import argparse
import csv
import os
from pathlib import Path
from time import perf_counter

import numpy as np

import maxent as mx

STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
ENTROPIES = {"l2": "squared norm", "kl": "mean entropy (Sinkhorn)"}
RESULTS = Path(__file__).parent / "results"


def home() -> Path:
    """$MAXENT_DATA/matching; by default ../shared/data/matching beside the checkout."""
    shared = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("MAXENT_DATA", shared)) / "matching"


def load(data: Path) -> dict[int, dict[str, tuple[list, list]]]:
    """Pairs of frames and their matchings, by distance and split."""
    with np.load(data / "cmu_house_hotel.npz") as stored:
        frames = stored["house_shape_context"].astype(np.float64)
    frames /= frames.std()
    rng = np.random.default_rng(0)
    found: dict[int, dict[str, tuple[list, list]]] = {}
    with (data / "house_pairs.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            X, y = found.setdefault(int(row["baseline"]), {}).setdefault(row["split"], ([], []))
            a, b = frames[int(row["frame_a"]) - 1], frames[int(row["frame_b"]) - 1]
            order, partner = rng.permutation(len(a)), rng.permutation(len(a))
            shuffled = np.empty_like(b)
            shuffled[partner] = b[order]
            X.append((a[order], shuffled))
            y.append(partner)
    return found


def unlearned(X: list, y: list) -> float:
    """The share of right partners with all weights 1."""
    theta = [-np.square(a[:, None] - b).sum(axis=-1).ravel() for a, b in X]
    best = mx.Birkhoff().decode(mx.Ragged.from_rows(theta))
    return float(np.mean([np.mean(p == q) for p, q in zip(best, y, strict=True)]))


def table(data: Path, quick: bool) -> list[dict[str, object]]:
    """Test errors of every distance and loss."""
    rows: list[dict[str, object]] = []
    for baseline, splits in load(data).items():
        if quick and baseline not in (0, 50):
            continue
        (train, validate, test) = (splits[name] for name in ("train", "validate", "test"))
        error = round(100 * (1 - unlearned(*test)), 2)
        rows.append(
            {"frames_apart": baseline, "test_pairs": len(test[0]), "method": "no learning"}
            | {"test_error_percent": error}
        )
        for entropy, name in ENTROPIES.items():
            start = perf_counter()
            models = [
                mx.Matcher(entropy, potential=strength, tol=1e-5).fit(*train)
                for strength in STRENGTHS
            ]
            scores = [model.score(*validate) for model in models]
            chosen = int(np.argmax(scores[::-1]))  # the strongest of the best
            model = models[::-1][chosen]
            rows.append(
                {
                    "frames_apart": baseline,
                    "test_pairs": len(test[0]),
                    "method": name,
                    "test_error_percent": round(100 * (1 - model.score(*test)), 2),
                    "strength": STRENGTHS[::-1][chosen],
                    "largest_gap": f"{max(m.gap_ for m in models):.1e}",
                    "seconds": round(perf_counter() - start, 1),
                }
            )
            print(rows[-1], flush=True)
    return rows


def run(out: Path, data: Path | None = None, quick: bool = False) -> list[Path]:
    """Write the table."""
    data = home() if data is None else data
    if not (data / "cmu_house_hotel.npz").exists():
        print(f"no landmarks in {data}: set MAXENT_DATA or give --data")
        return []
    rows = table(data, quick)
    if quick:
        return []
    path = out / "matching.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[1]), restval="")
        writer.writeheader()
        writer.writerows(rows)
    return [path]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    for written in run(RESULTS, arguments.data, arguments.quick):
        print(f"written: {written}")
