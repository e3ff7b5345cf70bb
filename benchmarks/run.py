"""Run the benchmarks: python -m benchmarks.run [suite ...] [--quick]."""

from __future__ import annotations

import os

# before numpy and torch load: two threads for everyone, and none that spins while it waits
for variable in (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "MAXENT_NUM_THREADS",
):
    os.environ.setdefault(variable, "2")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse  # noqa: E402
import importlib  # noqa: E402

from benchmarks import report  # noqa: E402

SUITES = (
    "startup",
    "maps",
    "layers",
    "glm",
    "training",
    "few_samples",
    "density",
    "projection",
    "relaxation",
    "structured_chains",
    "structured_ranking",
    "structured_transport",
    "structured_trees",
    "tagging",
    "max_margin",
    "tuning",
    "scale",
    "dask_learning",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="*", choices=[*SUITES, []], help="all by default")
    parser.add_argument("--quick", action="store_true", help="small sizes, results not written")
    arguments = parser.parse_args()
    for name in arguments.suites or SUITES:
        print(f"running {name} ...", flush=True)
        rows = importlib.import_module(f"benchmarks.{name}").run(arguments.quick)
        report.show(rows)
        if not arguments.quick:
            print(f"written: {report.write(name, rows).relative_to(report.RESULTS.parent.parent)}")


if __name__ == "__main__":
    main()
