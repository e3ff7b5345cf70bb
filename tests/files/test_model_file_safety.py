"""A model file that was changed is told; a crafted one is refused or gives one answer.

Compiled loops trust nothing.
"""

import json
import random
from pathlib import Path

import numpy as np
import pytest
from test_io import identical

import catalogue
import maxent as mx
from maxent import io
from maxent.testing.model_files import COUNTS, TABLE, check_digest, check_mutation, models, written

pytestmark = pytest.mark.usefixtures("kernels_alone")  # bits are compared

DATA = Path(__file__).parents[1] / "data" / "version1"


STORED = sorted(path for path in DATA.glob("*.json") if "expected" not in path.name)


def test_mutated_files_are_refused_or_answer_the_same_twice(tmp_path):
    documents = [written(model, tmp_path) for model in models()]
    documents += [json.loads(path.read_bytes()) for path in STORED if path.stat().st_size < 60_000]
    draw, path, kept = random.Random(0), tmp_path / "mutated.json", []
    for number in range(900):
        kept.append(check_mutation(documents[number % len(documents)], draw, path))
    assert 225 < sum(kept) < 675


def test_the_digest_tells_of_mutations(tmp_path):
    documents = [written(model, tmp_path) for model in models()]
    draw = random.Random(0)
    for number in range(10 * len(documents)):
        check_digest(documents[number % len(documents)], draw, tmp_path / "mutated.json")


# -- the digest ------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    """A file, and its content as text and as a document."""
    path = tmp_path / "model.json"
    io.save(mx.Scaled(mx.Relative(mx.Shannon(), [0.25, 0.5, 1e-7]), 2.0), path)
    return path, path.read_text(), json.loads(path.read_text())


def test_another_layout_of_the_same_json_is_the_same_file(saved):
    path, text, document = saved
    backwards = json.loads(text, object_pairs_hook=lambda pairs: dict(reversed(pairs)))
    as_in_javascript = json.loads(text, parse_float=lambda x: int(x.partition(".")[0]))
    assert as_in_javascript["model"]["state"]["temperature"] == 2
    for other in (
        json.dumps(document),
        json.dumps(document, indent=7, sort_keys=True),
        json.dumps(backwards),
        json.dumps(as_in_javascript),
        text.replace('"temperature": 2.0', '"temperature": 20e-1'),
        text.replace("Shannon", "Sh\\u0061nnon"),
    ):
        path.write_text(other)
        assert io.load(path) is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"temperature": 2.0', '"temperature": 2.0000000000000004'),
        ('"temperature": 2.0', '"temperature": 3'),
        ('"dtype": "<f8"', '"dtype": "<i8"'),
        ('"version": 3', '"version": 2'),
        ('"digest": "sha256:', '"digest": "sha256:0'),
        ('"digest": "sha256:', '"digest": null, "was": "'),
        ('"shape": [\n', '"layout": "F", "shape": [\n'),
    ],
)
def test_a_change_is_told_and_can_be_accepted(old, new, saved):
    path, text, _ = saved
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=r'not match its digest.*delete its "digest"'):
        io.load(path)
    accepted = json.loads(path.read_text())
    del accepted["digest"]
    path.write_text(json.dumps(accepted))
    io.load(path)


def test_every_digit_of_an_array_counts(tmp_path):
    values = np.random.default_rng(0).normal(size=5)
    document = written(values, tmp_path)
    base = document["model"]["array"]
    for at in range(len(base.rstrip("="))):
        other = "A" if base[at] != "A" else "B"
        document["model"]["array"] = base[:at] + other + base[at + 1 :]
        (tmp_path / "changed.json").write_text(json.dumps(document))
        with pytest.raises(ValueError, match="digest"):
            io.load(tmp_path / "changed.json")


# -- what a file may not say -----------------------------------------------------------------------


def stored(**changes):
    """An operator of two curves as it is written, with changes."""
    operator = mx.Hinge(knots=2).fit(*_seen(TABLE[:, :2]))[0]
    state = io._encode(operator)["state"]
    return {"class": "Additive", "state": state | {k: io._encode(v) for k, v in changes.items()}}


def _seen(X):
    schema = mx.features.Schema.from_table(X)
    return schema.read(X), schema, np.arange(len(X))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": np.array([2, 3, 2, 9], dtype=np.int8)}, "kind must be from 0 to 4, got 2 to 9"),
        ({"kind": np.array([2.0, 3, 2, 3])}, "kind must be an array of integers, got float64"),
        ({"variable": np.array([0, 0, 1, 2], dtype=np.int32)}, "variable must be from 0 to 1"),
        ({"variable": np.array([1, 0, 1, 0], dtype=np.int32)}, "sorted by variable"),
        ({"knot": np.array([0.5])}, "knot must have 4 entries"),
        ({"low": np.zeros(1)}, "low must have 2 entries"),
        ({"variables": ("x0",) * 100_000}, "low must have 100000 entries"),
        ({"variables": "x0"}, "variables must be of type"),
    ],
)
def test_curves_that_do_not_fit_together_are_refused(changes, words, tmp_path):
    document = {"format": "maxent", "version": 2, "model": stored(**changes)}
    (tmp_path / "m.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=words):
        io.load(tmp_path / "m.json")


def test_a_density_of_other_columns_is_refused(tmp_path):
    density = mx.MaxentDensity("lc", categorical=[2], verbose=0).fit(TABLE, COUNTS).density_
    document = written(density, tmp_path)
    del document["digest"]
    state = document["model"]["state"]
    for changed in (("x0", "x1", "x2", "x3"), ("x2", "x1", "x0")):
        state["schema"]["state"]["names"] = io._encode(changed)
        (tmp_path / "m.json").write_text(json.dumps(document))
        with pytest.raises(ValueError, match=r"shape|other columns"):
            io.load(tmp_path / "m.json")


# -- restricted maps -------------------------------------------------------------------------------


@pytest.mark.parametrize("whole", catalogue.MAPS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("how", ["restrict", "restrict twice", "take", "both"])
def test_parts_of_maps_come_back(whole, how, tmp_path):
    part = whole
    if how != "take":
        if not isinstance(whole, mx.ColumnMap):
            pytest.skip("has no columns to restrict to")
        part = part.restrict(np.arange(part.n_features)[::-2][::-1])
    if how == "restrict twice":
        part = part.restrict(np.arange(1))
    if how in ("take", "both"):
        if not isinstance(whole, mx.RowMap):
            pytest.skip("has no rows to take")
        part = part.take(np.array([1]))
    io.save(part, tmp_path / "part.json")
    again = io.load(tmp_path / "part.json")
    identical(vars(part), vars(again))
    w = np.arange(part.n_features) + 1.0
    identical(part.scores(w), again.scores(w))
    identical(part.moments(part.scores(w)), again.moments(part.scores(w)))


def test_a_problem_of_a_restricted_map_solves_to_the_same(tmp_path):
    features = mx.IdentityMap(4).restrict(np.array([1, 3]))
    problem = mx.Problem(mx.Shannon(), features, mx.Box(0.01), observed=[0.1, 0.2, 0.3, 0.4])
    io.save(problem, tmp_path / "problem.json")
    again = io.load(tmp_path / "problem.json")
    identical(problem.solve().p, again.solve().p)


# -- small files, huge claims ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        {"class": "IdentityMap", "state": {"size": 10**9}},
        {
            "class": "ChainMap",
            "state": {
                "X": io._encode(np.ones((1, 1))),
                "lengths": io._encode(np.array([1])),
                "n_states": 10**6,
            },
        },
        {
            "csc": [io._encode(np.empty(0)), *[io._encode(np.zeros(n, dtype=int)) for n in (0, 2)]],
            "shape": [10**12, 1],
        },
    ],
    ids=["IdentityMap", "ChainMap", "csc"],
)
def test_a_small_file_that_claims_much_memory_is_refused(model, tmp_path):
    path = tmp_path / "small.json"
    path.write_text(json.dumps({"format": "maxent", "version": 2, "model": model}))
    with pytest.raises(ValueError, match=r"more than the limit.*--max-cells "):
        io.load(path)


def test_the_limit_of_cells_can_be_raised_and_lowered(tmp_path, monkeypatch):
    io.save(mx.IdentityMap(100), tmp_path / "map.json")
    monkeypatch.setenv("MAXENT_MAX_CELLS", "99")
    with pytest.raises(ValueError, match=r"has 100 cells.*limit of 99.*--max-cells 100 "):
        io.load(tmp_path / "map.json")
    monkeypatch.setenv("MAXENT_MAX_CELLS", "100")
    assert io.load(tmp_path / "map.json").size == 100
