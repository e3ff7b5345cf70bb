"""The stored tables of the structural paper: what the summary says of the runs, both algorithms."""

import sys
from pathlib import Path

import numpy as np
import pytest

from tools import needs

pd = needs("pandas")
sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments import structural_tables  # noqa: E402
from experiments.run import RESULTS  # noqa: E402


def test_the_summary_is_that_of_the_runs_with_and_without_the_first():
    runs = pd.read_csv(RESULTS / "structural_tables.csv")
    summary = pd.read_csv(RESULTS / "structural_tables_summary.csv").set_index(["task", "method"])
    table = runs.pivot(index=["task", "run"], columns="method", values="log_loss")
    for (task, method), row in summary.iterrows():
        losses = table.loc[task, method].sort_index()
        less = losses - table.loc[task, "l1-Maxent"].sort_index()
        assert row["log_loss"] == pytest.approx(losses.mean(), rel=1e-12)
        assert row["log_loss_others"] == pytest.approx(losses.drop(0).mean(), rel=1e-12)
        assert row["minus_l1_others"] == pytest.approx(less.drop(0).mean(), abs=1e-12)
        assert row["runs_ahead_others"] == (less.drop(0) < 0).sum()
    # the run that chose lambda and beta does not decide who is ahead
    struct = summary.xs("StructMaxent", level="method")
    sure = struct["p_corrected"] < 0.01
    assert (np.sign(struct["minus_l1"]) == np.sign(struct["minus_l1_others"]))[sure].all()


def test_both_algorithms_are_compared_on_the_same_runs():
    pair = [
        {"task": "a", "run": 0, "lam": 0.1, "beta": 0.01, "log_loss": loss, "auc": 0.5}
        | {"features": 3, "gap": 0.1, "seconds": 1.0}
        for loss in (5.0, 5.25)
    ]
    (line,) = structural_tables._side_by_side(pair)
    assert (line["log_loss_1"], line["log_loss_2"], line["one_minus_two"]) == (5.0, 5.25, -0.25)
    with pytest.raises(AssertionError):
        structural_tables._side_by_side([pair[0], pair[1] | {"run": 1}])
    stored = pd.read_csv(RESULTS / "structural_tables_1.csv").set_index("task")
    known = pd.read_csv(RESULTS / "structural_tables.csv").query("method == 'StructMaxent'")
    for task, row in stored.iterrows():
        mine = known[(known["task"] == task) & (known["run"] == row["run"])].iloc[0]
        assert (row["lam"], row["beta"]) == (mine["lam"], mine["beta"])
        assert row["one_minus_two"] == pytest.approx(row["log_loss_1"] - row["log_loss_2"])
