"""Experiments whose numbers can be checked without running them whole."""

import sys
from pathlib import Path

import numpy as np
import pytest

from tools import needs

pd = needs("pandas")
sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments import (  # noqa: E402
    _nceas_data,
    hierarchies,
    integrated,
    shrinkage,
    synthetic_chains,
)
from experiments.run import RESULTS  # noqa: E402


def test_balls_of_the_kl_norm_lie_between_l2_and_l1():
    balls = shrinkage.borders(points=21)
    corners = balls[balls["w1"].isin([0.0, 1.0])]
    assert np.allclose(corners["w1"] + corners["w2"], 1, atol=1e-6)
    meet = shrinkage.diagonal(balls)
    assert meet["l2"] == pytest.approx(0.5**0.5, abs=1e-2)
    assert meet["l1"] == pytest.approx(0.5)
    assert meet["KL, lam = 1":].is_monotonic_decreasing
    assert meet["l1"] < meet.iloc[-1] < meet.iloc[2] < meet["l2"]


# -- synthetic chains ------------------------------------------------------------------------------


def test_correlated_chains_share_values_in_groups_of_three():
    data = synthetic_chains.draw_sequences(synthetic_chains.SETTINGS[-1], 0, sequences=40)
    correlation = np.corrcoef(np.concatenate(data.X).T)
    assert (correlation[:30, :30][np.kron(np.eye(10), np.ones((3, 3))) > 0] > 0.99).all()
    assert np.abs(correlation[30:, :30]).max() < 0.3
    assert not data.coef[30:].any()
    assert data.best_error(10) < 0.25


def test_constants_are_chosen_by_the_error_of_held_out_folds():
    setting = synthetic_chains.SETTINGS[0]
    sets = [synthetic_chains.draw_sequences(setting, k, sequences=12) for k in range(2)]
    training = [data.split(10)[0] for data in sets]
    found = synthetic_chains.choose("L2-CRF", setting, training)
    errors = {}
    for c2 in synthetic_chains.CRF_GRID:
        errors[c2] = 0.0
        for k, (X, y) in enumerate(training):
            inside = [i for i in range(10) if i % 5 != k]
            model = synthetic_chains.fitted(
                "L2-CRF", {"c2": c2}, [X[i] for i in inside], [y[i] for i in inside]
            )
            outside = [i for i in range(10) if i % 5 == k]
            errors[c2] += 1 - model.score([X[i] for i in outside], [y[i] for i in outside])
    assert errors[found["c2"]] == min(errors.values())


def test_what_the_readme_says_of_the_paired_differences():
    table = pd.read_csv(RESULTS / "synthetic_chains_differences.csv")
    table["lower"] = table["mean"] < -2 * table["sem"]
    table["higher"] = table["mean"] > 2 * table["sem"]
    sums = table.groupby(["features", "model", "against"])[["lower", "higher"]].sum()
    found = {key: tuple(row) for key, row in zip(sums.index, sums.to_numpy(), strict=True)}
    assert found["correlated", "Laplace, exact", "M3N"] == (1, 0)
    assert found["correlated", "Laplace, 3 rounds", "M3N"] == (0, 0)
    counts = {(one, other): n for (kind, one, other), n in found.items() if kind == "independent"}
    assert counts["Laplace, exact", "M3N"] == (8, 0)
    assert counts["Laplace, 3 rounds", "M3N"] == (11, 0)
    assert counts["L1-CRF", "CRF"] == (15, 0)
    assert counts["L2-CRF", "CRF"] == (9, 0)
    assert counts["Laplace, exact", "L1-M3N"] == (0, 15)
    assert counts["L1-M3N", "L1-CRF"] == (0, 12)
    assert counts["M3N", "L2-CRF"] == (0, 13)
    assert counts["M3N", "CRF"] == (0, 10)
    assert counts["Laplace, exact", "L2-CRF"] == (2, 7)
    assert found["correlated", "Laplace, exact", "L2-CRF"] == (0, 5)
    assert counts["Laplace, large lam", "Laplace, exact"] == (13, 0)


def test_variances_of_irrelevant_features_are_not_0():
    table = pd.read_csv(RESULTS / "chain_weights_variances.csv")
    exact, limit = table["Laplace, exact"], table["Laplace, exact: limit"]
    assert (exact >= limit).all()
    assert exact[30:].mean() == pytest.approx(0.091, abs=5e-4)
    third = (1 / table["Laplace, 3 rounds: limit"]) ** -0.75
    assert (table["Laplace, 3 rounds"] >= third * (1 - 1e-4)).all()
    assert table["Laplace, 3 rounds"][30:].mean() == pytest.approx(third[0], rel=0.02)


def test_rounds_of_algorithm_1_approach_the_exact_model():
    table = pd.read_csv(RESULTS / "chain_weights_rounds.csv")
    assert (table.groupby("rounds")["distance"].mean().diff().dropna() < 0).all()
    missed = (table["error"] - table["exact_error"]).groupby(table["rounds"]).mean()
    assert missed[3] == pytest.approx(0.0036, abs=5e-5)
    assert abs(missed.loc[10:]).max() < 2e-4


# -- records ---------------------------------------------------------------------------------------


def test_blocks_of_records_hold_their_attributes():
    rng = np.random.default_rng(0)
    for _ in range(20):
        labels, parents = hierarchies.record(rng)
        for name, parent in zip(labels, parents, strict=True):
            if name in hierarchies.ATTRIBUTES:
                assert name in hierarchies.HELD[labels[parent]]
        assert all(labels.count(name) == 1 for name in hierarchies.ATTRIBUTES)


def test_measures_of_records():
    y = [np.array(["Name", "Image", "Price", "Description", "Other"])] * 2
    predicted = [y[0], np.array(["Name", "Image", "Price", "Other", "Other"])]
    assert hierarchies.block_accuracy(predicted, y) == 1.0
    assert hierarchies.average_f1(predicted, y) == pytest.approx((3 + 2 / 3) / 4)
    predicted[1] = np.array(["Name", "Image", "Price", "Description", "Name"])
    assert hierarchies.block_accuracy(predicted, y) == 0.5
    assert hierarchies.average_f1(predicted, y) == pytest.approx((3 + 4 / 5) / 4)


def test_what_the_script_says_of_block_accuracies():
    table = pd.read_csv(RESULTS / "hierarchies.csv")
    means = table.pivot_table("block_accuracy", "records", ["shape", "loss", "penalty"])

    def gain(one, other):
        return (means[one] - means[other]).round(2)

    edges, sparse = [], []
    for loss in ("crf", "hinge"):
        plain = ("tree", loss, "quadratic")
        edges += gain(plain, ("flat", loss, "quadratic")).tolist()
        sparse += gain(("tree", loss, "l1"), plain).tolist()
        sparse += gain(("tree", loss, "Laplace"), plain).tolist()
    assert (min(edges), max(edges)) == (0.19, 0.42)
    assert (min(sparse), max(sparse)) == (0.17, 0.43)
    behind = gain(("tree", "hinge", "l1"), ("tree", "hinge", "Laplace"))
    assert (behind.min(), behind.max()) == (0.04, 0.16)
    for penalty in ("quadratic", "l1", "Laplace"):
        assert (gain(("tree", "hinge", penalty), ("tree", "crf", penalty)) <= 0).all()


def test_the_page_of_the_density_paper_counts_the_solvers_that_came_to_an_end():
    table = pd.read_csv(RESULTS / "solver_agreement.csv")
    boxes = table[table["potential"] == "box"]
    ended = (boxes["status"] == "converged").groupby(boxes["solver"]).agg(["sum", "size"])
    assert ended.loc["SUMMET"].tolist() == [1, 6]
    assert ended.loc["PLUMMET"].tolist() == [0, 6]
    assert ended.loc["PLUMMET overrelaxed"].tolist() == [4, 6]
    gaps = boxes.loc[boxes["solver"] == "PLUMMET", "gap"]
    assert (round(gaps.min(), 2), round(gaps.max(), 1)) == (0.09, 3.1)
    page = (RESULTS.parents[1] / "docs" / "papers" / "density.md").read_text()
    assert "came to an end on one, `PLUMMET` on none (with\ngaps from 0.09 to 3.1)" in page
    assert "its overrelaxed form on four" in page


# -- surveys of the NCEAS regions ------------------------------------------------------------------


def test_blocks_of_sites_are_handed_out_whole_and_not_beyond_the_share():
    rng = np.random.default_rng(0)
    block = rng.permutation(np.repeat([3, 7, 8, 9], [40, 5, 6, 30]))
    rows = _nceas_data._whole_blocks(block, 15, rng)
    assert sorted(np.unique(block[rows])) == [7, 8]
    assert len(rows) == 11
    assert set(block[_nceas_data._whole_blocks(block, 2, rng)]) == {7}  # the smallest


def test_folds_of_blocks_do_not_cut_them():
    block = np.repeat([1, 4, 5, 6, 7, 8, 9], [2, 30, 1, 8, 1, 1, 1])
    fold = integrated._folds(block)
    assert len(np.unique(fold)) == integrated.FOLDS
    assert all(len(np.unique(fold[block == b])) == 1 for b in np.unique(block))
    assert integrated._folds(np.zeros(4)) is None
