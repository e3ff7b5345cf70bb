"""Tree features against enumeration of splits and labels, dense columns and their own names."""

import re
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest

import maxent as mx
from maxent.families import empirical_complexity, trees
from maxent.families.trees import BoundTrees, Trees, TreeTerms
from maxent.features import Cells, Linear, OperatorMap, Schema, bind, fit_operators, joined


def table(n=60, dtype=np.float64, seed=0):
    """Two variables with ties, a constant one, a fine one, and a category with four levels."""
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            rng.integers(0, 7, n) / 10,
            rng.normal(size=n).round(1),
            np.full(n, 3.0),
            rng.normal(size=n) * 1e3,
            rng.choice([1.0, 2.0, 5.0, 7.0], n),
        ]
    ).astype(dtype)
    schema = Schema.from_table(X, categorical=[4])
    return schema, schema.read(X)


def column(operator, cells, tree=0):
    """A tree at every cell, walked node by node."""
    start = operator.offsets[tree]
    found = []
    for i in range(cells.n_cells):
        node = 0
        while node >= 0:
            at = start + node
            v = operator.variable[at] - len(operator.continuous)
            if v < 0:
                left = float(cells.values[v, i]) <= operator.threshold[at]
            else:
                left = (
                    cells.codes[v, i] in operator.members[operator.sets[at] : operator.sets[at + 1]]
                )
            node = operator.left[at] if left else operator.right[at]
        found.append({-1: 0.0, -2: 1.0}[int(node)])
    return np.array(found)


def questions(cells):
    """Every split of the cells that a node can ask for, as masks."""
    for x in cells.values:
        for value in np.unique(x)[:-1]:
            yield x <= value
    for codes in cells.codes:
        known = np.unique(codes[codes >= 0])
        for size in range(1, known.size + 1):
            for chosen in combinations(known, size):
                yield np.isin(codes, chosen)


def largest(sums):
    """The largest |sum of some leaves|, over all labels."""
    return max(abs(np.dot(labels, sums)) for labels in product([0, 1], repeat=len(sums)))


def best_growth(leaves, cells, r):
    """The largest value after one more split of one of the leaves (masks), by enumeration."""
    best = 0.0
    for at, leaf in enumerate(leaves):
        others = [r[mask].sum() for j, mask in enumerate(leaves) if j != at]
        for left in questions(cells):
            sums = [*others, r[leaf & left].sum(), r[leaf & ~left].sum()]
            best = max(best, largest(sums))
    return best


def leaf_masks(operator, cells):
    """The cells of every leaf: where the tree with that leaf alone labelled 1 is 1."""
    ends = [
        (name, k) for name in ("left", "right") for k in np.flatnonzero(getattr(operator, name) < 0)
    ]
    masks = []
    for name, k in ends:
        sides = {
            side: np.where(getattr(operator, side) < 0, -1, getattr(operator, side))
            for side in ("left", "right")
        }
        sides[name][k] = -2
        masks.append(column(replace(operator, **sides), cells) == 1)
    return masks


def weights(n, total, seed=3):
    r = np.random.default_rng(seed).normal(size=n)
    return r - r.mean() + total / n


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("total", [0.0, 9.0, -9.0])
def test_every_step_is_the_best_split_and_the_best_labels(dtype, total):
    schema, cells = table(40, dtype)
    r = weights(40, total)
    proposals = Trees(3).search(cells, schema).propose(r)
    assert [p.level for p in proposals] == [1, 2, 3]
    leaves = [np.ones(40, dtype=bool)]
    for proposal in proposals:
        assert abs(proposal.value) == pytest.approx(best_growth(leaves, cells, r), rel=1e-12)
        assert proposal.value == pytest.approx(r @ column(proposal.operator, cells), rel=1e-12)
        assert proposal.operator.variable.size == proposal.level
        leaves = leaf_masks(proposal.operator, cells)
        assert sum(mask.astype(int) for mask in leaves).tolist() == [1] * 40


@pytest.mark.parametrize("seed", range(5))
def test_categorical_splits_against_all_subsets(seed):
    rng = np.random.default_rng(seed)
    codes = rng.integers(-1, 6, (1, 50)).astype(np.int32)  # also unknown levels
    schema = Schema(("biome",), ("biome",), (tuple("abcdef"),))
    cells = Cells(np.empty((0, 50)), codes)
    r = weights(50, 0.0, seed)
    first, *_ = Trees(1).search(cells, schema).propose(r)
    best = best_growth([np.ones(50, dtype=bool)], cells, r)
    assert abs(first.value) == pytest.approx(best, rel=1e-12)
    assert first.operator.bind(cells).moments(r)[0] == pytest.approx(first.value, rel=1e-12)


def test_more_levels_than_a_byte_holds():
    codes = np.arange(900, dtype=np.int32)[None] % 300
    schema = Schema(("soil",), ("soil",), (tuple(range(300)),))
    cells = Cells(np.empty((0, 900)), codes)
    r = weights(900, 0.0)
    first, *_ = Trees(1).search(cells, schema).propose(r)
    by_level = np.bincount(codes[0], r)
    assert abs(first.value) == pytest.approx(by_level[by_level > 0].sum(), rel=1e-12)


@pytest.mark.parametrize("total", [0.0, 50.0, -50.0])
def test_larger_trees_are_worth_more(total):
    schema, cells = table(50_000)  # in threads
    r = weights(50_000, total)
    proposals = Trees(12).search(cells, schema).propose(r)
    values = [abs(p.value) for p in proposals]
    assert len(values) == 12
    assert np.all(np.diff(values) > 0)
    found = np.array([p.operator.bind(cells).moments(r)[0] for p in proposals])
    np.testing.assert_allclose(found, [p.value for p in proposals], rtol=1e-9)


def test_leaves_are_split_until_nothing_is_gained():
    X = np.arange(6.0)[:, None]
    schema = Schema.from_table(X)
    proposals = Trees(50).search(schema.read(X), schema).propose(np.array([1, 1, -3, -1, 4, 4.0]))
    assert [(p.operator.names()[0], p.value) for p in proposals] == [
        ("x0 > 3.5", 8.0),
        ("x0 > 3.5 or x0 <= 1.5", 10.0),
    ]


@pytest.mark.parametrize("r", [np.zeros(30), np.ones(30), -np.ones(30)])
def test_nothing_to_tell_apart(r):
    schema, cells = table(30)
    assert Trees().search(cells, schema).propose(r) == []


def test_constant_variables_propose_nothing():
    X = np.column_stack([np.full(8, 2.0), np.full(8, 5.0)])
    schema = Schema.from_table(X, categorical=[1])
    assert Trees().search(schema.read(X), schema).propose(np.tile([1.0, -1.0], 4)) == []


def test_the_first_of_equal_variables_is_asked():
    x = np.random.default_rng(2).normal(size=5000)
    X = np.column_stack([np.zeros(5000), x, x, -x])
    schema = Schema.from_table(X)
    proposals = Trees(6, bins=40).search(schema.read(X), schema).propose(weights(5000, 0.0))
    assert set(proposals[-1].operator.variable.tolist()) == {1}


def test_sparse_weights_as_in_simulated_complexities():
    schema, cells = table(200)
    r = np.zeros(200)
    r[[3, 50, 120, 121]] = [1.0, -1.0, 1.0, -1.0]
    search = Trees(4).search(cells, schema)
    proposals = search.propose(r)
    assert proposals[0].value == pytest.approx(-best_growth([np.ones(200, bool)], cells, r))
    assert proposals[-1].value == -2.0  # all that is negative: where records are
    assert 0 < empirical_complexity(search, np.arange(200) % 40 == 0, 2, draws=3) <= 1


def neighbours(dtype):
    one = np.asarray(1.0, dtype)
    after = [one]
    for _ in range(5):
        after.append(np.nextafter(after[-1], np.asarray(2.0, dtype)))
    largest, least = np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal
    edges = [-largest, -one, -least, 0, least, 2 * least, largest]
    return np.array([*edges, *after], dtype=dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_thresholds_part_neighbouring_floats(dtype):
    x = np.sort(neighbours(dtype))
    schema = Schema.from_table(x[:, None])
    cells = schema.read(x[:, None])
    assert cells.values.dtype == dtype
    search = Trees(1).search(cells, schema)
    for cut in range(1, x.size):
        below = np.arange(x.size) < cut
        r = np.where(below, -1 / cut, 1 / (x.size - cut))
        first, *_ = search.propose(r)
        np.testing.assert_array_equal(column(first.operator, cells), below)
        assert first.operator.bind(cells).moments(r)[0] == pytest.approx(-1.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_bins_are_even_and_keep_ties_together(dtype):
    rng = np.random.default_rng(0)
    x = np.concatenate([np.zeros(5000), rng.normal(size=5000)]).astype(dtype)
    thresholds = trees._thresholds(*np.unique(x, return_counts=True), 21)
    counts = np.bincount(np.searchsorted(thresholds, x))
    heavy = np.searchsorted(thresholds, 0.0)
    assert 18 <= thresholds.size <= 20
    assert np.all(np.diff(thresholds) > 0)
    assert not np.isin(thresholds, x).any()
    assert 5000 <= counts[heavy] < 5300
    others = np.delete(counts, heavy)
    assert others.max() <= 262
    assert np.sum(others < 260) <= 1
    plain = trees._thresholds(*np.unique(x[5000:], return_counts=True), 250)
    np.testing.assert_array_equal(np.bincount(np.searchsorted(plain, x[5000:])), 20)


@pytest.mark.parametrize("total", [0.0, 3.0, -3.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_node_asks_for_any_threshold_however_few_the_bins(dtype, total):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 2)).astype(dtype)
    X[:, 1] = X[:, 1].round(2)  # ties
    schema = Schema.from_table(X)
    cells = schema.read(X)
    search = Trees(3, bins=9).search(cells, schema)
    for seed in range(20):
        r = weights(500, total, seed)
        r[rng.random(500) < 0.3] = 0.0
        first, *larger = search.propose(r)
        best = max(largest([r[left].sum(), r[~left].sum()]) for left in questions(cells))
        assert abs(first.value) == pytest.approx(best, rel=1e-12)
        assert column(first.operator, cells) @ r == pytest.approx(first.value, rel=1e-12)
        ceiling = search.ceiling(r, np.zeros(3), 1e9)
        assert ceiling.at_most[0] == pytest.approx(best, rel=1e-9)
        found = max(abs(p.value) for p in ceiling.proposals if p.level == 1)
        assert found == pytest.approx(best, rel=1e-12)
        refined = search.refine(r, np.zeros(3), [first.operator, *(p.operator for p in larger)])
        assert all(column(p.operator, cells) @ r == pytest.approx(p.value) for p in refined)


def test_bins_that_cannot_hold_the_best_threshold_are_not_opened(monkeypatch):
    x = np.arange(4000.0)[:, None]
    schema = Schema.from_table(x)
    search = Trees(1).search(schema.read(x), schema)
    opened = []
    within = trees.BinnedCells.within
    monkeypatch.setattr(
        trees.BinnedCells, "within", lambda self, r, b: opened.extend(b) or within(self, r, b)
    )
    r = np.full(4000, 1 / 4000)
    r[[1003, 1004, 1005, 2500, 3500]] -= 0.2  # records; all other bins have one sign
    (first,) = search.propose(r)
    assert 0 < len(opened) <= 5
    assert first.operator.names() == ["x0 <= 1005.5"]
    opened.clear()
    r = np.where(np.arange(4000) <= 1999, 1.0, -1.0)  # in 255 bins, one has both signs
    search.propose(r)
    assert len(opened) == 1


def test_exact_thresholds_gain_what_bins_lose(monkeypatch):
    x = np.arange(5000.0)[:, None]
    y = np.zeros(5000)
    y[[2502, 2503, 2505]] = 40  # fewer cells than a bin has
    fit = mx.StructMaxent([Trees(1)], 0.0, 0.01).fit(x, y)
    whole = mx.MaxentDensity(
        [mx.Threshold()], regularization=lambda kinds, mean, sd, m: np.full(len(kinds), 0.01)
    )
    whole.set_params(tol=1e-6).fit(x, y)
    assert fit.gain_ == pytest.approx(whole.gain_, abs=1e-4)
    assert fit.family_gap_ < 1e-4
    # larger trees: their thresholds are those of the bins, unless there are bins enough
    two, all_of_two = (mx.StructMaxent([Trees(2, b)], 0.0, 0.01).fit(x, y) for b in (255, 5000))
    assert two.family_gap_ < 1e-4  # over the trees that the family has
    assert all_of_two.family_gap_ < 1e-4
    assert all_of_two.gain_ - two.gain_ == pytest.approx(0.1020, abs=1e-3)
    monkeypatch.setattr(trees, "threshold_inside", lambda *_: None)
    binned = mx.StructMaxent([Trees(1)], 0.0, 0.01).fit(x, y)
    assert whole.gain_ - binned.gain_ == pytest.approx(1.7333, abs=1e-3)


def test_larger_trees_ask_for_the_best_of_the_binned_thresholds():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 2)).astype(np.float32)
    schema = Schema.from_table(X)
    cells = schema.read(X)
    r = weights(500, 0.0)
    search = Trees(2, bins=9).search(cells, schema)
    _, second = search.propose(r)
    sums = [abs(r[X[:, v] <= t].sum()) for v in (0, 1) for t in search.plan.thresholds[v]]
    assert len(sums) == 16
    root = second.operator
    v, t = root.variable[0], root.threshold[0]
    assert abs(r[X[:, v] <= t].sum()) == pytest.approx(max(sums), rel=1e-12)


def test_thresholds_have_few_digits_in_the_middle_half():
    assert trees._between(811.0, 813.0) == 812.0
    assert trees._between(811.0, 812.0) == 811.5
    assert trees._between(float(np.float32(3.2)), float(np.float32(3.3))) == 3.25
    for low, high in np.sort(np.random.default_rng(0).normal(size=(50, 2)) ** 9, axis=1):
        found = trees._between(low, high)
        assert abs(found - (low + high) / 2) <= (high - low) / 4
        assert len(repr(found)) <= 24


# -- operators -----------------------------------------------------------------------------------


def some_trees(n=300, count=21, dtype=np.float64, max_nodes=7):
    """Cells and one operator for each of ``count`` trees of all sizes."""
    schema, cells = table(n, dtype)
    search = Trees(max_nodes).search(cells, schema)
    found = []
    for seed in range(-(-count // max_nodes)):
        found += [p.operator for p in search.propose(weights(n, 0.0, seed))]
    return search, cells, found[:count]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [301, 20_003])  # more than a block
def test_bound_methods_against_dense_columns(dtype, n):
    search, cells, operators = some_trees(n, dtype=dtype)
    terms = search.terms()
    assert isinstance(terms, BoundTrees)
    assert terms.operator() is None
    for operator in operators:
        terms.append(operator)
    part = np.arange(n) if n < 1000 else np.arange(0, n, 50)
    F = np.array([column(o, cells.take(part)) for o in operators])
    rng = np.random.default_rng(5)
    p, w = np.zeros(n), rng.normal(size=21)
    p[part] = rng.random(part.size)
    index = np.array([2, 3, 9, 17, 20])
    for bound in (terms, terms.operator().bind(cells, clamp=True)):
        assert bound.n_features == 21
        np.testing.assert_allclose(bound.moments(p), F @ p[part], rtol=1e-12)
        np.testing.assert_allclose(bound.squares(p), F @ p[part], rtol=1e-12)
        theta = np.ones(n)
        bound.add_scores(w, theta)
        np.testing.assert_allclose(theta[part], 1 + w @ F, rtol=1e-12, atol=1e-13)
        out = np.full((21, n - 7), np.nan)
        bound.write(p, 5, n - 2, out)
        inner = part[(part >= 5) & (part < n - 2)]
        np.testing.assert_array_equal(out[:, inner - 5], (F * p[part])[:, np.isin(part, inner)])
        few = bound.restrict(index)
        assert few.n_features == 5
        np.testing.assert_allclose(few.moments(p), F[index] @ p[part], rtol=1e-12)
        theta = np.zeros(n)
        few.add_scores(w[index], theta)
        np.testing.assert_allclose(theta[part], w[index] @ F[index], rtol=1e-12, atol=1e-13)
        assert few.operator().names() == [terms.operator().names()[j] for j in index]
        some = few.take(part[::3])
        np.testing.assert_allclose(
            some.moments(p[part[::3]]), F[index][:, ::3] @ p[part[::3]], rtol=1e-12
        )
        out = np.empty((5, 4))
        some.write(np.ones(part[::3].size), 1, 5, out)
        np.testing.assert_array_equal(out, F[index][:, ::3][:, 1:5])


def test_terms_that_grow_share_nothing():
    search, cells, operators = some_trees(count=14)
    terms = search.terms()
    for operator in operators[:5]:
        terms.append(operator)
    F = np.array([column(o, cells) for o in operators])
    p = np.random.default_rng(0).random(300)
    np.testing.assert_allclose(terms.moments(p), F[:5] @ p)
    few, some = terms.restrict(np.array([0, 3])), terms.take(np.arange(0, 300, 2))
    for bound, more in ((terms, operators[5:]), (few, operators[:4:-1]), (some, operators[5:])):
        for operator in more:
            bound.append(operator)
    np.testing.assert_allclose(terms.moments(p), F @ p)
    np.testing.assert_allclose(few.moments(p), F[[0, 3, *range(13, 4, -1)]] @ p)
    np.testing.assert_allclose(some.moments(p[::2]), F[:, ::2] @ p[::2])
    assert few.operator().n_features == few.n_features == 11
    assert terms.operator().names() == some.operator().names()
    assert [o.names()[0] for o in operators] == terms.operator().names()


def test_a_bit_for_every_cell_and_tree():
    _, cells, operators = some_trees(count=21)
    bound = joined(operators)[0].bind(cells)
    assert sum(packed.nbytes for packed in bound._bytes) == 3 * cells.n_cells


def test_operators_join_and_restrict():
    _, cells, operators = some_trees(count=14)
    (all_trees,) = joined(operators)
    assert all_trees.n_features == 14
    assert all_trees.kinds().tolist() == ["d"] * 14
    for j, operator in enumerate(operators):
        one = all_trees.restrict(np.array([j]))
        for field in ("variable", "threshold", "left", "right", "offsets", "members", "sets"):
            np.testing.assert_array_equal(getattr(one, field), getattr(operator, field))
    other = replace(operators[0], continuous=("a", "b", "c", "e"))
    assert operators[0].join(other) is None
    linear = fit_operators([Linear()], [[1.0], [2.0]])[0]
    assert operators[0].join(linear) is None
    with pytest.raises(TypeError, match="TreeTerms, got Additive"):
        BoundTrees(cells).append(linear)


def test_gram_of_a_map_with_trees():
    search, cells, operators = some_trees(400, count=12)
    terms = search.terms()
    for operator in operators:
        terms.append(operator)
    linear = bind(fit_operators([Linear()], cells.values.T), Cells(cells.values, cells.codes[:0]))
    both = OperatorMap([*linear.parts, terms], 400)
    F = np.array([column(o, cells) for o in operators])
    F = np.concatenate([linear.columns().T, F])
    np.testing.assert_allclose(both.columns().T, F, rtol=1e-12)
    p = np.random.default_rng(0).dirichlet(np.ones(400))
    dense = F @ np.diag(p) @ F.T - np.outer(F @ p, F @ p)
    np.testing.assert_allclose(both.gram(p, p), dense, atol=1e-13)
    index = np.array([1, 4, 6, 11])
    np.testing.assert_allclose(
        both.restrict(index).gram(p, p), dense[np.ix_(index, index)], atol=1e-13
    )


def test_unknown_levels_are_in_no_set():
    schema = Schema(("biome",), ("biome",), (("a", "b", "c"),))
    codes = np.array([[0, 0, 1, 1, 2, 2]], dtype=np.int32)
    r = np.array([-1.0, -1.0, 2.0, 2.0, -1.0, -1.0])
    (first,) = Trees(1).search(Cells(np.empty((0, 6)), codes), schema).propose(r)
    assert first.operator.names() == ["biome in {a, c}"]
    new = Cells(np.empty((0, 5)), np.array([[0, 1, 2, -1, 99]], dtype=np.int32))
    np.testing.assert_array_equal(first.operator.bind(new).moments(np.ones(5)), 2.0)
    theta = np.zeros(5)
    first.operator.bind(new).add_scores(np.ones(1), theta)
    np.testing.assert_array_equal(theta, [1, 0, 1, 0, 0])


# -- names ---------------------------------------------------------------------------------------


def read_condition(text, row):
    """One condition of a name at one row, a dictionary."""
    if found := re.fullmatch(r"(\w+) (not in|in) \{(.*)\}", text):
        name, word, levels = found.groups()
        return (row[name] in [float(level) for level in levels.split(", ")]) == (word == "in")
    if found := re.fullmatch(r"(\S+) < (\w+) <= (\S+)", text):
        low, name, high = found.groups()
        return float(low) < row[name] <= float(high)
    name, sign, cut = text.split(" ")
    return row[name] <= float(cut) if sign == "<=" else row[name] > float(cut)


def read_name(text, row):
    if found := re.fullmatch(r"not \((.*)\)", text):
        return not read_name(found.group(1), row)
    return any(
        all(read_condition(condition, row) for condition in clause.split(" and "))
        for clause in text.split(" or ")
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_names_say_what_the_trees_do(dtype):
    schema, cells = table(120, dtype, seed=4)
    rows = [
        {
            **{name: float(cells.values[v, i]) for v, name in enumerate(schema.continuous)},
            "x4": schema.levels[0][cells.codes[0, i]],
        }
        for i in range(120)
    ]
    search = Trees(8).search(cells, schema)
    seen = []
    for seed in range(6):
        for proposal in search.propose(weights(120, 0.0, seed)):
            (name,) = proposal.operator.names()
            said = [read_name(name, row) for row in rows]
            np.testing.assert_array_equal(column(proposal.operator, cells), said)
            seen.append(name)
    assert len(set(seen)) == len(seen)
    for word in ("not (", " in {", "not in {", " and ", " or ", " < x"):
        assert any(word in name for name in seen), word


def hand_made(**changes):
    """x <= 812 ? (biome in {b} ? 1 : 0) : (x <= 900 ? 0 : 1)."""
    parts = {
        "continuous": ("x",),
        "categorical": ("biome",),
        "levels": (("a", "b"),),
        "variable": np.array([0, 1, 0], dtype=np.int32),
        "threshold": np.array([812.0, 0.0, 900.0]),
        "left": np.array([1, -2, -1], dtype=np.int32),
        "right": np.array([2, -1, -2], dtype=np.int32),
        "offsets": np.array([0, 3]),
        "members": np.array([1], dtype=np.int32),
        "sets": np.array([0, 0, 1, 1]),
    }
    return TreeTerms(**{**parts, **changes})


def test_bounds_of_one_variable_are_merged():
    assert hand_made().names() == ["x <= 812 and biome in {b} or x > 900"]
    swapped = hand_made(left=np.array([1, -1, -2]), right=np.array([2, -2, -1]))
    assert swapped.names() == ["not (x <= 812 and biome in {b} or x > 900)"]
    chain = {"left": np.array([1, 2, -2]), "right": np.array([-1, -1, -1])}
    bounds = hand_made(
        variable=np.zeros(3, dtype=int), threshold=np.array([5.0, 9.0, 7.0]), **chain
    )
    assert bounds.names() == ["x <= 5"]
    upward = {"left": np.array([-1, -1, -1]), "right": np.array([1, 2, -2])}
    bounds = hand_made(
        variable=np.zeros(3, dtype=int), threshold=np.array([7.0, 3.0, 5.0]), **upward
    )
    assert bounds.names() == ["x > 7"]


@pytest.mark.parametrize(
    ("leads", "name"),
    [
        ({"left": [1, 2, -2], "right": [-1, -1, -1]}, "biome in {b}"),
        ({"left": [-1, 2, -2], "right": [1, -1, -1]}, "biome in {c}"),
        ({"left": [1, -1, -1], "right": [-1, 2, -2]}, "biome in {}"),
        ({"left": [-1, -1, -1], "right": [1, 2, -2]}, "biome not in {a, b, c}"),
    ],
)
def test_sets_of_one_variable_are_merged(leads, name):
    chain = hand_made(
        levels=(("a", "b", "c", "d"),),
        variable=np.ones(3, dtype=np.int32),
        members=np.array([0, 1, 1, 2, 0, 1, 2]),  # {a, b}, {b, c}, {a, b, c}
        sets=np.array([0, 2, 4, 7]),
        **{side: np.array(nodes) for side, nodes in leads.items()},
    )
    assert chain.names() == [name]
    cells = Cells(np.empty((1, 5)), np.array([[0, 1, 2, 3, -1]], dtype=np.int32))
    codes = [v for v, word in enumerate("abcd") if word in name.partition("{")[2]]
    expected = np.isin(cells.codes[0], codes) != ("not in" in name)
    np.testing.assert_array_equal(column(chain, cells), expected)


# -- files and errors ----------------------------------------------------------------------------


def test_saved_trees_come_back(tmp_path):
    _, cells, operators = some_trees(count=10)
    (saved,) = joined(operators)
    mx.save(saved, tmp_path / "trees.json")
    loaded = mx.load(tmp_path / "trees.json")
    assert loaded.names() == saved.names()
    p = np.random.default_rng(0).random(cells.n_cells)
    moments = [terms.bind(cells).moments(p) for terms in (loaded, saved)]
    np.testing.assert_allclose(*moments, rtol=1e-13)
    mx.save(Trees(3, bins=7), tmp_path / "family.json")
    assert mx.load(tmp_path / "family.json") == Trees(3, bins=7)


@pytest.mark.parametrize(
    "changes",
    [
        {"left": np.array([3, -2, -1])},
        {"left": np.array([0, -2, -1])},
        {"left": np.array([-3, -2, -1])},
        {"left": np.array([2, -2, -1])},  # a node with two parents, another with none
        {"left": np.array([-1, -2, -1])},
        {"left": np.array([1, -2])},
        {"threshold": np.zeros(2)},
        {"variable": np.array([0, 2, 0])},
        {"variable": np.array([0, -1, 0])},
        {"offsets": np.array([0, 2])},
        {"offsets": np.array([0, 3, 3])},
        {"offsets": np.array([0, 1, 3])},
        {"members": np.array([2])},
        {"members": np.array([-1])},
        {"sets": np.array([0, 1])},
        {"sets": np.array([0, 2, 0, 1])},
    ],
)
def test_nodes_that_lead_nowhere_are_refused(changes):
    with pytest.raises(ValueError, match=r"must|needed"):
        hand_made(**changes)


@pytest.mark.parametrize("max_nodes", [0, -1, 2.5, "3", None])
def test_max_nodes_is_checked(max_nodes):
    with pytest.raises(ValueError, match="max_nodes must be an integer >= 1, got"):
        Trees(max_nodes)


@pytest.mark.parametrize("bins", [1, 65536, 10.0, None])
def test_bins_are_checked(bins):
    with pytest.raises(ValueError, match="bins must be an integer from 2 to 65535, got"):
        Trees(bins=bins)


def test_complexity_is_the_bound_of_the_paper():
    family = Trees()
    assert family.letter == "d"
    assert family.complexity(3, 14, 1000) == pytest.approx(
        np.sqrt((4 * 3 + 2) * 4 * np.log(1001) / 1000), rel=1e-12
    )
