"""The table of structures and operations in docs/structured.md: cells are called, or refused."""

import re
from pathlib import Path

import numpy as np
import pytest

import maxent as mx
from tools import needs

torch = needs("torch")

import maxent.torch.structured as ms  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "structured.md"
OPERATIONS = ("best", "sums", "nearest", "kbest", "draws", "entropies", "max")

_PAIRS = mx.HigherOrderChain(2, 2).chain
_TARGET = torch.tensor([[1]])


def _chain(domain):
    states = domain.n_states

    def scores(x):
        length = (x.shape[-1] + states**2) // (states + states**2)
        nodes = x[..., : length * states].reshape(1, length, states)
        steps = x[..., length * states :].reshape(1, length - 1, states, states).clone()
        for before, after in domain.forbidden:
            steps[..., before, after] = -torch.inf
        return nodes, steps

    return scores


def _segments(x):
    """Rows of SemiMarkov(1, 1): every position is a segment."""
    return x[:3].reshape(1, 3, 1), torch.zeros(1, 1), x[3:].mean().reshape(1, 1)


def _table(x):
    return (x.reshape(1, round(x.numel() ** 0.5), -1),)


def _spans(x):
    return (_table(x)[0][..., None],)


# an instance, the size of a row, and how its torch functions take a row
STRUCTURES = {
    "Chain": (mx.Chain(2), 14, _chain(mx.Chain(2))),
    "HigherOrderChain.chain": (_PAIRS, 24, _chain(_PAIRS)),
    "SemiMarkov": (mx.SemiMarkov(1, 1), 5, _segments),
    "Lattice": (mx.Lattice([(0, 1), (0, 2), (1, 2), (2, 3), (1, 3)]), 5, None),
    "Automaton": (mx.Automaton(2, [(0, 0, 0), (0, 1, 1), (1, 0, 0)], final=(0, 1)), 6, None),
    "Automaton.ctc": (mx.Automaton.ctc([1], 2), 6, lambda x: (x.reshape(1, 3, 2), _TARGET)),
    "Tree": (mx.Tree([(0, 1), (0, 2)], 2), 14, None),
    "Alignment": (mx.Alignment(3, 3), 9, _table),
    "Arborescence": (mx.Arborescence(), 16, _table),
    "ProjectiveTree": (mx.ProjectiveTree(), 16, _table),
    "ConstituencyTree": (mx.ConstituencyTree(), 16, _spans),
    "KSubset": (mx.KSubset(2), 4, lambda x: (x, 2, 1.0)),
    "Permutahedron": (mx.Permutahedron([3.0, 2.0, 1.0]), 3, lambda x: (x, 1.0)),
    "Birkhoff": (mx.Birkhoff(), 9, lambda x: (x.reshape(1, 3, 3), 1.0)),
    "Transport": (mx.Transport([1.0, 2.0], [2.0, 1.0]), 4, None),
}


def cells():
    """(structure, operation, text of the cell); the lines of NumPy and of torch are rules."""
    text = PAGE.read_text(encoding="utf-8")
    lines = re.search(r"\| structure \| best .*\n\|[-|]+\n((?:\|.*\n)+)", text)[1].splitlines()
    return [
        (row[0].strip("`"), operation, cell)
        for row in ([x.strip() for x in line.strip("|").split("|")] for line in lines)
        for operation, cell in zip(OPERATIONS, row[1:], strict=True)
    ]


RULES = {(who, what): re.findall(r"`(.+?)`", cell) for who, what, cell in cells()[:14]}
CELLS = cells()[14:]
REASONS = set(re.findall(r"^- \*\*(\w)\*\*: ", PAGE.read_text(encoding="utf-8"), re.MULTILINE))


def rows(structure):
    """Scores of an instance, and others."""
    size = STRUCTURES[structure][1]
    x = np.random.default_rng(size).normal(size=(2, size))
    if structure == "SemiMarkov":
        x[:, 3:] = x[:, 3:].mean(1, keepdims=True)  # one score of changes, as torch has
    return x


def in_numpy(structure, operation):
    """What the NumPy line of the table says, as a list of results."""
    domain, (x, other) = STRUCTURES[structure][0], rows(structure)
    names = RULES["NumPy", operation]
    if operation == "max":
        assert names == ["mx.max_marginals"]
        return [mx.max_marginals(domain, x)]
    found = [getattr(domain, name) for name in names]
    more = {"kbest": (3,), "draws": (4, 0)}.get(operation, ())
    if operation == "entropies":
        return [found[0](x), found[1](x, other), found[2](x, other)]
    out = found[0](x, *more)
    return [out] if operation in ("best", "nearest", "draws") else list(out)


def in_torch(structure, operation):
    """What the torch line says."""
    domain = STRUCTURES[structure][0]
    x, other = torch.from_numpy(rows(structure))
    found = [getattr(ms, name) for name in RULES["torch", operation]]
    more = {"kbest": (3,), "draws": (4,)}.get(operation, ())
    if operation == "entropies":
        return [found[0](domain, x), found[1](domain, x, other), found[2](domain, x, other)]
    if operation == "kbest":
        return list(found[0](domain, x, *more))
    return [function(domain, x, *more) for function in found]


def of_its_own(structure, operation, name):
    """A torch function of the structure alone."""
    _, _, take = STRUCTURES[structure]
    x, other = torch.from_numpy(rows(structure))
    if structure == "Transport":
        masses = torch.tensor([1.0, 2.0]), torch.tensor([2.0, 1.0])
        return ms.transport(x.reshape(2, 2), *masses, strength=1.0)
    if structure == "Permutahedron":
        return ms.soft_rank(x, 1.0)
    given = take(x)
    if operation == "kbest" and "." not in name:
        return getattr(ms, name)(*given, 3)
    if "." in name:
        kind, method = name.split(".")
        scores = getattr(ms, kind)(*given)
        if method in ("kl", "cross_entropy"):
            return getattr(scores, method)(getattr(ms, kind)(*take(other)))
        return getattr(scores, method)(*((3,) if operation == "kbest" else ()))
    return getattr(ms, name)(*given)


def compared(structure, operation, index, found, right):
    """A number of a function of its own, and the same number of the domain."""
    x = rows(structure)[0]
    first = (found[0] if isinstance(found, tuple) else found).detach().double()
    if operation == "best":
        if first.numel() > 1:  # heads or marks, whose shape is the structure's own
            return None
        return float(first), float(x @ right[0])
    if operation == "sums" and index == 1:
        return None  # marginals by parts: their tests are those of each structure
    if operation == "draws":
        return None
    numbers = np.asarray(right[index] if operation == "entropies" else right[0])
    if operation == "max":
        return first.flatten().numpy(), numbers[: first.numel()]
    return first.flatten().numpy(), numbers.flatten()


def test_the_table_has_no_hole() -> None:
    assert {who for who, _, _ in CELLS} == set(STRUCTURES)
    used = {cell for _, _, cell in CELLS if len(cell) == 1 and cell.isalpha()}
    assert used == REASONS
    for _, _, cell in CELLS:
        names = re.sub(r"`[\w.]+`", "", cell).replace(",", "").split()
        assert (names in ([], ["⇄"]) and cell) or cell in REASONS


@pytest.mark.parametrize(("structure", "operation", "cell"), CELLS, ids=lambda x: x[:22])
def test_a_cell_is_what_it_says(structure, operation, cell) -> None:
    if cell in REASONS:
        for ask in (in_numpy, in_torch):
            with pytest.raises((TypeError, AttributeError, NotImplementedError)):
                ask(structure, operation)
        return
    right, found = in_numpy(structure, operation), in_torch(structure, operation)
    if operation == "draws":
        domain = STRUCTURES[structure][0]
        assert domain.contains(found[0].numpy()).all()
        assert len(right[0]) == len(found[0]) == 4
    else:
        for mine, theirs in zip(found, right, strict=True):
            np.testing.assert_allclose(mine.numpy(), theirs, atol=1e-9)
    for index, name in enumerate(re.findall(r"`(.+?)`", cell)):
        pair = compared(structure, operation, index, of_its_own(structure, operation, name), right)
        if pair is not None:
            np.testing.assert_allclose(*pair, atol=1e-6)


def test_subsets_are_words_of_an_automaton() -> None:
    """Reason b: k best and draws of subsets by counting what is taken."""
    steps = [(j, 0, j) for j in range(3)] + [(j, 1, j + 1) for j in range(2)]
    words, theta = mx.Automaton(2, steps, final=(2,)), np.array([0.3, -1.0, 2.0, 0.5])
    row = np.stack([np.zeros(4), theta], 1).ravel()
    value, mean = words.softmax(row)
    subsets = mx.KSubset(2)
    assert value == pytest.approx(float(subsets.softmax(theta)[0]))
    np.testing.assert_allclose(mean.reshape(4, 2)[:, 1], subsets.softmax(theta)[1])
    scores = np.sort(subsets.vertices(4) @ theta)[::-1]
    np.testing.assert_allclose(words.kbest(row, 6)[0], scores)
