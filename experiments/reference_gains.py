"""Regularized gains beside those of glmnet and of the converged jar, on the stored tables.

python -m experiments.reference_gains [--data DIR]. The references are those recorded with the
tables: glmnet's to six digits, the jar's as it prints them. A correct solver of the same problem
reaches at least these.
"""

from __future__ import annotations

import csv
from pathlib import Path

import maxent as mx
from experiments.solver_agreement import tables
from experiments.south_america import DATA, main

REFERENCES = {
    ("synthetic 100", "maxnet"): 1.059991,
    ("synthetic 1000", "maxnet"): 0.713106,
    ("synthetic 100", "maxent"): 1.0643,
    ("synthetic 1000", "maxent"): 0.7144,
}


def run(out: Path, data: Path = DATA, quick: bool = False) -> list[Path]:
    """Write one row a table and preset; nothing where the data are absent."""
    rows = []
    for name, X, y, _ in tables(data):
        for preset in ("maxnet", "maxent"):
            if (name, preset) not in REFERENCES:
                continue
            model = mx.MaxentDensity("lqph", preset=preset).fit(X, y)
            reference = REFERENCES[name, preset]
            rows.append(
                {
                    "table": name,
                    "preset": preset,
                    "gain": f"{model.gain_:.6f}",
                    "reference": reference,
                    "met": "yes" if model.gain_ >= reference else "no",
                    "gap": f"{model.gap_:.1e}",
                    "features": model.n_features_,
                    "in_use": len(model.coef_),
                }
            )
            print("  ".join(f"{key}={value}" for key, value in rows[-1].items()))
    if not rows:
        print(f"no table under {data}: give --data or set MAXENT_DATA")
        return []
    path = out / "reference_gains.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return [path]


if __name__ == "__main__":
    main(run, __doc__ or "")
