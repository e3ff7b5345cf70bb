"""Tables 1 and 2 of the structural paper: log loss and AUC of maxent, l1-maxent and StructMaxent.

Species over South America (648,658 cells, the ten partitions of Phillips et al. 2006), eight crimes
over 2,215 communities, and two stand-ins for the traffic of the paper, whose sensor data cannot be
had: vehicles at one Minnesota sensor by hour, day of the week, month and temperature, and daily
counts at 1,279 places of Chicago.
Lambda and beta come from a validation split inside the training records of the first run, each over
the paper's grid; the paper chose them by the test records of a first split. Test records of a run
are read only to score it, but runs overlap: those of another may be among the records of the first.

python -m experiments.structural_tables [--data DIR] [--quick]
python -m experiments.structural_tables --structmaxent1: StructMaxent1 and StructMaxent2 beside each
other with the constants chosen, on the first run of every data set
python -m experiments.structural_tables --again METHOD ...: these columns of the table again, with
the constants that it has
"""

from __future__ import annotations

import csv
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.base import clone

import maxent as mx
from experiments import south_america
from experiments.run import RESULTS
from experiments.south_america import DATA, main
from maxent.families import Monomials, Trees
from maxent.learn.structural.density_cv import PAPER_GRID, held_out

RUNS = 10
RECORDS = 5000  # of a crime in a training set, as in the paper
CHOICE_CELLS = 20_000  # cells that validation looks at; the fits have them all
ROUNDS = 500
FAMILIES = (Monomials(4), Trees(8))
COLUMNS = {  # models of structures, and their rule
    "Maxent": "structmaxent2",
    "l1-Maxent": "structmaxent2",
    "StructMaxent": "structmaxent2",
    "StructMaxent corrective": "corrective",
}
CRIMES = ("murders", "rapes", "robberies", "assaults", "burglaries", "larcenies", "autoTheft")
CRIMES += ("arsons",)
PUBLISHED = {  # maxent, l1-maxent and StructMaxent: Table 1 (log loss), Table 2 (AUC)
    "bradypus_variegatus": ((19.95, 15.67, 13.36), (0.810, 0.817, 0.873)),
    "microryzomys_minutus": ((17.41, 12.20, 10.25), (0.879, 0.972, 0.984)),
    "murders": ((5.38, 5.23, 5.17), ()),
    "rapes": ((6.42, 6.22, 6.16), ()),
    "robberies": ((5.14, 5.00, 4.94), ()),
    "assaults": ((6.65, 6.35, 6.30), ()),
    "burglaries": ((6.04, 5.85, 5.78), ()),
    "larcenies": ((5.83, 5.65, 5.58), ()),
    "autoTheft": ((5.93, 5.75, 5.68), ()),
    "arsons": ((5.93, 5.75, 5.68), ()),
}


@dataclass(frozen=True, eq=False)
class Task:
    """A domain with training and test counts of ten runs."""

    name: str
    X: pd.DataFrame
    runs: list[tuple[np.ndarray, np.ndarray]]
    categorical: tuple[str, ...] = ()
    # correlation of runs in the corrected test: the test share where runs partition all records;
    # where most records are never trained on, the share that two training sets have in common
    share: float = 0.3


def tasks(data: Path, n_runs: int) -> Iterator[Task]:
    """Every data set that is at hand."""
    yield from traffic(data / "traffic", n_runs)
    path = data / "communities_crime" / "communities_crime_unnormalized.parquet"
    if path.exists():
        yield from crimes(path, n_runs)
    land = south_america.load(data)
    if land is not None:
        for species in south_america.SPECIES:
            runs = [
                (land.counts("train", f"{species}_{i}"), land.counts("test", f"{species}_{i}"))
                for i in range(n_runs)
            ]
            yield Task(species, land.X, runs, tuple(south_america.CATEGORICAL))


def crimes(path: Path, n_runs: int) -> Iterator[Task]:
    """Communities as cells, crimes as records; demographic statistics without gaps as variables."""
    table = pd.read_parquet(path)
    first = list(table.columns).index("population")
    base = table.iloc[:, first : list(table.columns).index("murders")]
    base = base.loc[:, base.notna().all()].astype(np.float64)
    for crime in CRIMES:
        known = table[crime].notna().to_numpy()
        counts = table.loc[known, crime].to_numpy(dtype=np.int64)
        X = base.loc[known].reset_index(drop=True)
        runs = [_subsample(counts, RECORDS, seed) for seed in range(n_runs)]
        yield Task(crime, X, runs, share=RECORDS / counts.sum())


def _subsample(counts: np.ndarray, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    train = np.random.default_rng(seed).multivariate_hypergeometric(counts, n, method="marginals")
    return train.astype(float), (counts - train).astype(float)


def traffic(folder: Path, n_runs: int) -> Iterator[Task]:
    """Stand-ins: places of Chicago with daily counts, hours of a week at one Minnesota sensor."""
    path = folder / "chicago_average_daily_traffic_counts.csv.gz"
    if path.exists():
        table = pd.read_csv(path)
        X = table[["Latitude", "Longitude"]].astype(np.float64)
        counts = table["Total Passing Vehicle Volume"].to_numpy(dtype=np.int64)
        known = X.notna().all(axis=1).to_numpy() & (counts > 0)
        runs = [_subsample(counts[known], RECORDS, seed) for seed in range(n_runs)]
        place = X.loc[known].reset_index(drop=True)
        yield Task("traffic, Chicago", place, runs, share=RECORDS / counts[known].sum())
    path = folder / "metro_interstate_mn.csv.gz"
    if path.exists():
        table = pd.read_csv(path).drop_duplicates("date_time")
        when = pd.to_datetime(table["date_time"])
        key = pd.DataFrame(
            {"hour": when.dt.hour, "day": when.dt.day_of_week, "month": when.dt.month}
        )
        key["temp"] = table["temp"].round(-1)
        grouped = table["traffic_volume"].groupby([key[c] for c in key], observed=True).sum()
        X = grouped.index.to_frame(index=False).astype(np.float64)
        counts = grouped.to_numpy(dtype=np.int64)
        runs = [_subsample(counts, RECORDS, seed) for seed in range(n_runs)]
        yield Task("traffic, Minnesota", X, runs, share=RECORDS / counts.sum())


# -- methods -------------------------------------------------------------------------------------


def struct(lam: float, beta: float, rule: str, task: Task) -> mx.StructMaxent:
    """The model of the paper."""
    return mx.StructMaxent(
        FAMILIES, lam, beta, rule=rule, rounds=ROUNDS, categorical=task.categorical, verbose=0
    )


def chosen(task: Task, lams: tuple[float, ...], quick: bool) -> tuple[float, float]:
    """Lambda and beta by validation inside the first training set (corrective rule)."""
    counts = task.runs[0][0]
    train, test = held_out(counts, 0.3, seed=0)
    rows = np.arange(len(counts))
    if len(rows) > CHOICE_CELLS:
        drawn = np.random.default_rng(0).choice(len(rows), CHOICE_CELLS, replace=False)
        rows = np.union1d(drawn, np.flatnonzero(counts))
    X = task.X.iloc[rows]
    betas = PAPER_GRID[1:4] if quick else PAPER_GRID
    scores = {}
    for lam in lams:
        for beta in betas:
            model = struct(lam, beta, "corrective", task)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.set_params(rounds=100).fit(X, train[rows])
            scores[lam, beta] = model.log_loss(X, test[rows])
    return min(scores, key=lambda pair: scores[pair])


def methods(task: Task, quick: bool) -> dict[str, Any]:
    """Every column of the table: a fresh estimator for each."""
    lams = (0.1,) if quick else PAPER_GRID
    lam, beta = chosen(task, lams, quick)
    _, plain = chosen(task, (0.0,), quick)
    print(f"{task.name}: lambda {lam:g}, beta {beta:g}; lambda 0, beta {plain:g}", flush=True)
    constants = dict(
        zip(COLUMNS, ((0.0, 0.0), (0.0, plain), (lam, beta), (lam, beta)), strict=True)
    )
    columns = {name: struct(*constants[name], rule, task) for name, rule in COLUMNS.items()}
    return columns | {"MaxentDensity": mx.MaxentDensity(categorical=task.categorical, verbose=0)}


def structmaxent1(
    results: Path = RESULTS, data: Path = DATA, runs: tuple[int, ...] = (0,)
) -> list[Path]:
    """Both algorithms of the paper on some runs, with the constants of the table."""
    known = pd.read_csv(results / "structural_tables.csv").query("method == 'StructMaxent'")
    rows = []
    for task in tasks(data, max(runs) + 1):
        constants = known[known["task"] == task.name].iloc[0]
        some = Task(task.name, task.X, [task.runs[i] for i in runs], task.categorical)
        for rule in ("structmaxent1", "structmaxent2"):
            # bounds over the families are not looked at here, and may take longer than a fit
            estimator = struct(constants["lam"], constants["beta"], rule, task)
            fits = _fits(some, rule, estimator.set_params(proof_budget=0))
            rows += [row | {"run": i} for row, i in zip(fits, runs, strict=True)]
        _write(results / "structural_tables_1.csv", _side_by_side(rows))
    return [results / "structural_tables_1.csv"]


def _side_by_side(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row a task and run: StructMaxent1, StructMaxent2 and the difference of their losses."""
    pairs = zip(rows[::2], rows[1::2], strict=True) if len(rows) else ()
    names = ("log_loss", "auc", "features", "gap", "seconds")
    table = []
    for one, two in pairs:
        assert (one["task"], one["run"]) == (two["task"], two["run"])
        both = {f"{name}_{k}": row[name] for name in names for k, row in ((1, one), (2, two))}
        less = one["log_loss"] - two["log_loss"]
        line = {key: one[key] for key in ("task", "run", "lam", "beta")}
        table.append(line | both | {"one_minus_two": less})
    return table


def auc(model: mx.MaxentDensity, X: pd.DataFrame, test: np.ndarray) -> float:
    """Test records against every cell."""
    scores = model.score_samples(X)
    present = test > 0
    return mx.evaluation.auc(scores[present], scores, presence_weights=test[present])


def corrected_test(difference: np.ndarray, share: float) -> float:
    """p of Nadeau and Bengio's paired test: partitions overlap, so their variance is inflated."""
    deviation = corrected_deviation(difference, share)
    if deviation == 0:
        return 1.0
    return float(2 * stats.t.sf(abs(difference.mean()) / deviation, len(difference) - 1))


def corrected_deviation(difference: np.ndarray, share: float) -> float:
    """Standard error of a mean over partitions that overlap."""
    return float(np.sqrt(difference.var(ddof=1) * (1 / len(difference) + share / (1 - share))))


def run(results: Path, data: Path = DATA, quick: bool = False) -> list[Path]:
    """Fit, print and write both tables, a task at a time: tasks in the csv already are kept."""
    stem = "structural_tables_quick" if quick else "structural_tables"
    path = results / f"{stem}.csv"
    rows: list[dict[str, Any]] = []
    if path.exists():
        rows = pd.read_csv(path).to_dict("records")
        print(f"kept from {path}: {', '.join(dict.fromkeys(r['task'] for r in rows))}")
    for task in tasks(data, 2 if quick else RUNS):
        if any(r["task"] == task.name for r in rows):
            continue
        rows += [row for name, e in methods(task, quick).items() for row in _fits(task, name, e)]
        _write(path, rows)
    if not rows:
        print(f"no data in {data}: set MAXENT_DATA")
        return []
    return _summarise(results, stem, rows)


def again(names: list[str], results: Path = RESULTS, data: Path = DATA) -> list[Path]:
    """Fit columns of the table again with its constants; written a data set at a time."""
    path = results / "structural_tables.csv"
    table = pd.read_csv(path)
    if unknown := set(names) - set(COLUMNS):
        raise ValueError(f"no column of structures: {unknown}; expected some of {list(COLUMNS)}")
    for task in tasks(data, RUNS):
        for name in names:
            place = (table["task"] == task.name) & (table["method"] == name)
            lam, beta = table.loc[place, ["lam", "beta"]].iloc[0]
            # bounds over the families are not in the table, and may take longer than a fit
            model = struct(lam, beta, COLUMNS[name], task).set_params(proof_budget=0)
            table.loc[place] = pd.DataFrame(_fits(task, name, model))[list(table)].to_numpy()
        _write(path, table.to_dict("records"))
    return _summarise(results, "structural_tables", table.to_dict("records"))


def _summarise(results: Path, stem: str, rows: list[dict[str, Any]]) -> list[Path]:
    lines = _summary(rows)
    _write(results / f"{stem}_summary.csv", lines)
    return [
        results / f"{stem}.csv",
        results / f"{stem}_summary.csv",
        _draw(results / f"{stem}.png", lines),
    ]


def _fits(task: Task, name: str, estimator: Any) -> list[dict[str, Any]]:
    """A row a run."""
    rows = []
    for i, (train, test) in enumerate(task.runs):
        start = perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = clone(estimator).fit(task.X, train)
        rows.append(
            {
                "task": task.name,
                "method": name,
                "run": i,
                "log_loss": model.log_loss(task.X, test),
                "auc": auc(model, task.X, test),
                "features": len(model.coef_),
                "gap": model.gap_,
                "seconds": perf_counter() - start,
                "lam": getattr(estimator, "lam", np.nan),
                "beta": getattr(estimator, "beta", np.nan),
                "share": task.share,
            }
        )
    losses = [row["log_loss"] for row in rows]
    print(f"{task.name}, {name}: {np.mean(losses):.3f} over {len(losses)} runs", flush=True)
    return rows


def _write(path: Path, rows: list[dict[str, Any]]) -> Path:
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def _summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    table = pd.DataFrame(rows)
    lines = []
    for (task, method), part in table.groupby(["task", "method"], sort=False):
        base, free = (
            table[(table["task"] == task) & (table["method"] == name)]
            for name in ("l1-Maxent", "Maxent")
        )
        difference = part["log_loss"].to_numpy() - base["log_loss"].to_numpy()
        published = PUBLISHED.get(task, ((), ()))
        place = ("Maxent", "l1-Maxent", "StructMaxent")
        at = place.index(method) if method in place else -1
        lines.append(
            {
                "task": task,
                "method": method,
                "log_loss": part["log_loss"].mean(),
                "log_loss_se": part["log_loss"].sem(),
                "auc": part["auc"].mean(),
                "auc_se": part["auc"].sem(),
                "features": part["features"].mean(),
                "seconds": part["seconds"].mean(),
                "minus_l1": difference.mean(),
                "minus_l1_se": corrected_deviation(difference, part["share"].iloc[0]),
                "p_corrected": corrected_test(difference, part["share"].iloc[0]),
                "p_paired": corrected_test(difference, 0.0),  # the paper's
                "minus_maxent": part["log_loss"].mean() - free["log_loss"].mean(),
                "runs_ahead": int((difference < 0).sum()),
                "runs": len(difference),
                "seconds_of_l1": part["seconds"].sum() / base["seconds"].sum(),
                "largest_gap": part["gap"].max(),
                # less the first run, whose training records lambda and beta were chosen by
                "log_loss_others": part["log_loss"].iloc[1:].mean(),
                "minus_l1_others": difference[1:].mean(),
                "runs_ahead_others": int((difference[1:] < 0).sum()),
                "published_log_loss": published[0][at] if at >= 0 and published[0] else "",
                "published_auc": published[1][at] if at >= 0 and published[1] else "",
            }
        )
    print(pd.DataFrame(lines).to_string(index=False, float_format=lambda v: f"{v:.4g}"))
    return lines


def _draw(path: Path, lines: list[dict[str, Any]]) -> Path:
    """Log loss less that of l1-maxent, a line a data set, and the paper's differences."""
    from matplotlib.figure import Figure

    table = pd.DataFrame(lines)
    tasks_shown = list(dict.fromkeys(table["task"]))[::-1]
    figure = Figure(figsize=(8, 0.45 * len(tasks_shown) + 1.6), layout="constrained")
    ax = figure.add_subplot()
    methods_shown = ("Maxent", "StructMaxent", "StructMaxent corrective", "MaxentDensity")
    for k, method in enumerate(methods_shown):
        part = table[table["method"] == method].set_index("task").loc[tasks_shown]
        height = np.arange(len(part)) + 0.24 - 0.16 * k
        ax.errorbar(
            part["minus_l1"], height, xerr=part["minus_l1_se"], fmt="o", ms=4, lw=1, label=method
        )
    place = {name: k for k, name in enumerate(tasks_shown)}
    told = [(p[0][2] - p[0][1], place[name]) for name, p in PUBLISHED.items() if name in place]
    ax.plot(*zip(*told, strict=True), "kx", ms=6, label="StructMaxent, published")
    ax.axvline(0, color="gray", lw=0.8)
    ax.set_yticks(range(len(tasks_shown)), [name.replace("_", " ") for name in tasks_shown])
    ax.set_xscale("symlog", linthresh=0.1)
    ax.set_xlabel("log loss less that of l1-maxent (bars: corrected standard error)")
    figure.legend(fontsize=8, loc="outside lower center", ncols=5)
    figure.savefig(path, dpi=150)
    return path


if __name__ == "__main__":
    if sys.argv[1:] == ["--structmaxent1"]:
        structmaxent1()
    elif sys.argv[1:2] == ["--again"]:
        again(sys.argv[2:])
    else:
        main(run, __doc__)
