"""Run the experiments: python -m experiments.run [names]; csv and figures land in results/."""

from __future__ import annotations

import argparse
import csv
import importlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
EXPERIMENTS = (
    "binary_entropies",
    "guarantees",
    "printed_bounds",
    "l2_equivalence",
    "south_america",
    "learning_curves",
    "sensitivity_curves",
    "feature_profiles",
    "reference_gains",
    "solver_agreement",
    "species_command",
    "survey_sites",
    "structural_convergence",
    "structural_guarantee",
    "structural_search",
    "structural_speed",
    "structural_tables",
    "structural_classifier",
    "relaxation_geometry",
    "relaxation_segments",
    "smoothing",
    "label_proportions",
    "label_ranking",
    "dependency_parsing",
    "projection_times",
    "synthetic_documents",
    "matching",
    "shrinkage",
    "synthetic_chains",
    "chain_weights",
    "hierarchies",
    "nceas",
    "integrated",
    "source_bias",
    "interval_coverage",
    "alignments",
    "ocr_letters",
    "chunking",
    "certificates",
    "associative_recall",
    "language_head",
)


def write_rows(path: Path, rows: Iterator[dict[str, Any]]) -> Path:
    """Write a csv row by row, so that nothing is lost of a run that is stopped."""
    part = path.with_suffix(".part")
    with part.open("w", newline="") as file:
        writer = None
        for row in rows:
            if writer is None:
                writer = csv.DictWriter(file, row)
                writer.writeheader()
            writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
            file.flush()
    part.replace(path)
    return path


def run_parts(
    about: str, parts: Iterable[str], run: Callable[[Path, tuple[str, ...]], list[Path]]
) -> None:
    """The command of an experiment in parts: those that are named, else all."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*parts, []], help="all by default")
    for path in run(RESULTS, tuple(parser.parse_args().parts) or tuple(parts)):
        print(f"written: {path.relative_to(RESULTS.parent.parent)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*EXPERIMENTS, []], help="all by default")
    RESULTS.mkdir(exist_ok=True)
    for name in parser.parse_args().names or EXPERIMENTS:
        print(f"running {name} ...", flush=True)
        for path in importlib.import_module(f"experiments.{name}").run(RESULTS):
            print(f"written: {path.relative_to(RESULTS.parent.parent)}")


if __name__ == "__main__":
    main()
