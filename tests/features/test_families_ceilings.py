"""What no feature of a family exceeds: against enumeration, with any budget, also in blocks."""

from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement, product
from typing import ClassVar

import numpy as np
import pytest

import maxent as mx
from maxent.families import Family, FunctionFeatures, Monomials, Proposal, Search, Splines, Trees
from maxent.features import Schema
from maxent.testing import check_family


def questions(X, categorical=()):
    """Which rows go left, of all questions of a tree."""
    for v, column in enumerate(X.T):
        if v in categorical:
            levels = np.unique(column)
            for n in range(1, len(levels)):
                yield from (np.isin(column, chosen) for chosen in combinations(levels, n))
        else:
            yield from (column <= value for value in np.unique(column)[:-1])


def partitions(rows, nodes, asked):
    """The leaves of all trees of some nodes, as masks."""
    if nodes == 0:
        return {frozenset([rows.tobytes()])}
    found = set()
    for goes in asked:
        left, right = rows & goes, rows & ~goes
        for mine in range(nodes):
            pairs = product(
                partitions(left, mine, asked), partitions(right, nodes - 1 - mine, asked)
            )
            found |= {a | b for a, b in pairs}
    return found


def every_tree(nodes, categorical=()):
    def every(X):
        asked, rows = list(questions(X, categorical)), np.ones(len(X), dtype=bool)
        for k in range(1, nodes + 1):
            for leaves in partitions(rows, k, asked):
                masks = [np.frombuffer(leaf, dtype=bool) for leaf in leaves]
                for labels in product((0.0, 1.0), repeat=len(masks)):
                    yield k, np.sum([a * m for a, m in zip(labels, masks, strict=True)], axis=0)

    return every


def every_monomial(degree, categorical=()):
    def every(X):
        raw = []
        for v, column in enumerate(X.T):
            if v in categorical:
                raw += [(column == level).astype(float) for level in np.unique(column)]
            else:
                raw.append((column - column.min()) / np.ptp(column))
        for k in range(1, degree + 1):
            for chosen in combinations_with_replacement(raw, k):
                yield k, np.prod(chosen, axis=0)

    return every


RNG = np.random.default_rng(5)
NUMBERS = np.round(RNG.uniform(size=(9, 2)), 1)
MIXED = np.column_stack([RNG.integers(0, 3, 9), RNG.permutation(9)[:, None] / 3]).astype(float)


@pytest.mark.parametrize(
    ("family", "X", "every", "categorical"),
    [
        (Trees(3), NUMBERS[:5], every_tree(3), []),
        (Trees(2), NUMBERS, every_tree(2), []),
        (Trees(2), MIXED, every_tree(2, [0]), [0]),
        (Monomials(4), NUMBERS, every_monomial(4), []),
        (Monomials(3), MIXED, every_monomial(3, [0]), [0]),
    ],
)
def test_no_feature_is_above_the_ceiling_of_its_level(family, X, every, categorical):
    check_family(family, X, every, categorical)


@pytest.mark.parametrize("family", [Trees(5), Monomials(3), Splines(2, knots=7), Trees(3, bins=4)])
def test_nothing_that_searches_find_is_above_the_ceilings(family):
    check_family(family)


def residual(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(n)) - rng.multinomial(n, np.full(n, 1 / n)) / n


@pytest.mark.parametrize("seed", range(4))
def test_ceilings_are_the_best_values_where_visits_are_enough(seed):
    r = residual(5, seed)
    cases = [(Trees(3), every_tree(3)), (Monomials(3), every_monomial(3))]
    for family, every in cases:
        schema = Schema.from_table(NUMBERS[:5])
        search = family.search(schema.read(NUMBERS[:5]), schema)
        ceiling = search.ceiling(r, np.zeros(3), 1e9)
        values = [(k, abs(float(column @ r))) for k, column in every(NUMBERS[:5])]
        best = [max(value for k, value in values if k <= level) for level in (1, 2, 3)]
        if isinstance(family, Monomials):
            best = [max(value for k, value in values if k == level) for level in (1, 2, 3)]
        np.testing.assert_allclose(ceiling.at_most, best, atol=1e-10)
        reached = max(abs(p.value) for p in ceiling.proposals)
        assert reached == pytest.approx(max(best), abs=1e-10)


def test_categories_of_many_levels():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.permutation(14) % 7, np.round(rng.uniform(size=14), 1)])
    check_family(Trees(2), X, every_tree(2, [0]), [0])
    schema, r = Schema.from_table(X, [0]), residual(14)
    ceiling = Trees(3).search(schema.read(X), schema).ceiling(r, np.zeros(3), 1e8)
    best = max(abs(float(column @ r)) for _, column in every_tree(2, [0])(X))
    assert ceiling.at_most[1] == pytest.approx(best, abs=1e-10)  # exact for two nodes


def test_cells_in_the_same_bins_cancel():
    X = np.repeat([[0.0], [1.0], [2.0]], 4, axis=0)
    r = np.array([1, -1, 2, -2, 1, 1, -1, -1, 3, -1, -1, -1]) / 10  # sums 0, 0, 0
    schema = Schema.from_table(X)
    ceiling = Trees(2).search(schema.read(X), schema).ceiling(r, np.zeros(2), 1e6)
    np.testing.assert_allclose(ceiling.at_most, 0.0, atol=1e-10)


@dataclass(frozen=True)
class Waves(Family):
    """A family of one's own that says nothing of what it did not find."""

    letter: ClassVar[str] = "o"
    whole: bool = False

    def complexity(self, level, d, m):
        return 0.1

    def search(self, cells, schema):
        search = _WaveSearch(cells)
        search.exhaustive = self.whole
        return search


class _WaveSearch(Search):
    def propose(self, r):
        features = FunctionFeatures({"wave": lambda c: (1 + np.sin(9 * c.values[0])) / 2}, "o")
        value = float(features.bind(self.cells).moments(np.asarray(r, dtype=np.float64))[0])
        return [Proposal(features, 1, value)]


def test_a_family_of_ones_own_has_the_mass_as_its_ceiling_unless_it_searches_whole():
    check_family(Waves())
    X, y = np.random.default_rng(0).uniform(size=(60, 1)), np.repeat([0, 1], 30)
    open_, whole = (mx.StructMaxent([Waves(w)], 0.0, 0.01).fit(X, y) for w in (False, True))
    assert open_.status_ is mx.Status.UNPROVED
    assert open_.violation_found_ <= 1e-6 < 0.1 < open_.violation_
    assert open_.family_gap_ > 0.01
    assert whole.status_ is mx.Status.CONVERGED
    assert whole.violation_ == whole.violation_found_ <= 1e-6
    assert whole.family_gap_ < 1e-5


def test_a_wrong_ceiling_is_found_out():
    class Low(_WaveSearch):
        def ceiling(self, r, prices, budget):
            known = super().ceiling(r, prices, budget)
            return known._replace(at_most=known.at_most * 1e-3)

    class Wrong(Waves):
        def search(self, cells, schema):
            return Low(cells)

    with pytest.raises(AssertionError, match="above the ceiling"):
        check_family(Wrong())
