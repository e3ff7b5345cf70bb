"""Run the benchmarks: python -m benchmarks.run [suite ...] [--quick] [--only WORDS]."""

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
import inspect  # noqa: E402

from benchmarks import report  # noqa: E402

SUITES = (
    "startup",
    "maps",
    "layers",
    "attention",
    "glm",
    "training",
    "wide_labels",
    "few_samples",
    "density",
    "many_species",
    "sources",
    "projection",
    "relaxation",
    "structured_chains",
    "structured_points",
    "structured_ranking",
    "structured_segments",
    "structured_transport",
    "structured_trees",
    "flat_trees",
    "structured_spans",
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
    parser.add_argument(
        "--only",
        default="",
        metavar="WORDS",
        help="a part of a suite, as its run() calls it; other problems keep their rows",
    )
    arguments = parser.parse_args()
    for name in arguments.suites or SUITES:
        print(f"running {name} ...", flush=True)
        run, chosen = importlib.import_module(f"benchmarks.{name}").run, {}
        if arguments.only:
            if "only" not in inspect.signature(run).parameters:
                parser.error(f"{name} is measured whole: leave out --only")
            chosen["only"] = arguments.only
        rows = run(arguments.quick, **chosen)
        report.show(rows)
        if not arguments.quick:
            path = report.write(name, rows, keep=bool(chosen))
            print(f"written: {path.relative_to(report.RESULTS.parent.parent)}")


if __name__ == "__main__":
    main()
