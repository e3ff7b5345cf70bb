"""A crafted model file is refused or gives the same answer twice: compiled loops trust nothing."""

import base64
import copy
import json
import random
import warnings
from pathlib import Path

import numpy as np
import pytest

import catalogue
import maxent as mx
from maxent import io
from maxent._rows import flat
from maxent.density import FittedDensity
from maxent.species.layers.similarity import Reference
from test_io import identical

DATA = Path(__file__).parent / "data" / "version1"
rng = np.random.default_rng(0)
TABLE = np.column_stack([rng.random((60, 2)), rng.integers(0, 3, 60)])
COUNTS = (np.arange(60) % 5 == 0).astype(int)


def fresh():
    """Small models whose predictions go through compiled loops."""
    settings = {"categorical": [2], "verbose": 0}
    density = mx.MaxentDensity("lqphtc", multiplier=0.1, **settings).fit(TABLE, COUNTS).density_
    families = [mx.Monomials(2), mx.Splines(2, knots=4), mx.Trees(3)]
    grown = [
        mx.StructMaxent([family], 0.0, 0.001, rounds=4, **settings).fit(TABLE, COUNTS).density_
        for family in families
    ]
    classifier = mx.StructMaxentClassifier(families, rounds=4, **settings).fit(TABLE, COUNTS)
    reference = Reference.of(TABLE, [2])
    path = mx.RelaxationPath([3, 2, 1], [1, 2, 0], [1, 2, 1]).fit()
    chain = mx.ChainMap([np.ones((2, 3)), np.ones((4, 3))], 2)
    ragged = mx.Chain(2).encode([[0], [1, 0, 1]])
    return [density, *grown, classifier, reference, path, chain, ragged, mx.KernelMap(np.eye(3))]


def written(model, folder):
    io.save(model, folder / "model.json")
    return json.loads((folder / "model.json").read_bytes())


def answer(model):
    """What a loaded model computes where it computes anything, as bytes."""
    model = getattr(model, "density_", model)
    if isinstance(model, FittedDensity):
        outputs = [model.predict(TABLE, "log"), model.predict(TABLE, "cumulative", clamp=False)]
        told = model.explain(TABLE[:5]).shares if model.mean_place is not None else np.empty(0)
        return b"".join(part.tobytes() for part in (*outputs, told))
    if isinstance(model, mx.StructMaxentClassifier):
        return model.predict_proba(TABLE).tobytes()
    if isinstance(model, Reference):
        parts = model.similarity({f"x{j}": TABLE[:, j] for j in range(3)})
        return b"".join(part.tobytes() for part in parts)
    if isinstance(model, mx.RelaxationPath):
        return model.at([0.5, 2.0, 30.0]).tobytes()
    if isinstance(model, mx.ChainMap):
        scores = model.scores(np.ones(model.n_features))
        return flat(mx.Chain(model.n_states).argmax(scores)).tobytes()
    if isinstance(model, mx.Ragged | mx.Tied):
        return flat(mx.Chain(2).argmax(model)).tobytes()
    if isinstance(model, mx.Tree):
        return model.argmax(np.zeros((1, model.size))).tobytes()
    return b""


# -- mutations -----------------------------------------------------------------------------------


def places(node, found):
    """Every place of a document where something can be changed, as (container, key)."""
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in list(items):
        found.append((node, key))
        if isinstance(value, dict | list):
            places(value, found)
    return found


def arrays(node, found):
    """Every stored array of a document."""
    if isinstance(node, dict) and "array" in node:
        found.append(node)
    elif isinstance(node, dict | list):
        for value in node.values() if isinstance(node, dict) else node:
            arrays(value, found)
    return found


ODD = [None, True, -1, 0, 7, 10**6, 2**31, 2**63, 1.5, "x", "x0", "", [], [[]], {"tuple": []}]
ODD += [{"float": "nan"}, {"float": "inf"}, {"tuple": [1, "x0"]}, {"dict": []}]


def change_array(stored, draw):
    """Other numbers, another length, type or shape, so that the bytes still fit the shape."""
    values = np.frombuffer(base64.b64decode(stored["array"]), stored["dtype"])
    values = values.reshape(stored["shape"]).copy()
    how = draw.choice(["number", "number", "number", "shorter", "longer", "type", "shape", "order"])
    if how == "number" and values.size:
        odd = [-1, -2, -3, 5, 1000, 2**31 - 1, -(2**31), np.nan, np.inf]
        odd = odd if values.dtype.kind == "f" else odd[:-2]
        values.flat[draw.randrange(values.size)] = np.array(draw.choice(odd)).astype(values.dtype)
    elif how == "shorter" and values.ndim:
        values = values[: values.shape[0] // 2]
    elif how == "longer" and values.ndim:
        values = np.concatenate([values, values, values])
    elif how == "type" and values.dtype.kind in "fib":
        values = values.astype(draw.choice(["<f8", "<f4", "<u4", "|b1", "<c16"]))
    elif how == "shape":
        values = values.reshape(draw.choice([(-1, 1), (1, -1)])) if values.size else values
    else:
        values = values[::-1] if values.ndim else values
    stored.update(io._encode_array(np.ascontiguousarray(values)))


def mutated(document, draw):
    """A copy with one change in its structure or its numbers."""
    document = copy.deepcopy(document)
    stored = arrays(document["model"], [])
    if stored and draw.random() < 0.6:
        with np.errstate(all="ignore"):
            change_array(draw.choice(stored), draw)
        return document
    holder, key = draw.choice(places(document["model"], []))
    other_holder, other = draw.choice(places(document["model"], []))
    how = draw.choice(["replace", "replace", "delete", "swap", "repeat"])
    if how == "replace":
        holder[key] = copy.deepcopy(draw.choice(ODD))
    elif how == "delete":
        del holder[key]
    elif how == "swap":
        holder[key] = copy.deepcopy(other_holder[other])
    elif isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    return document


def outcome(path):
    """The answer of the model in a file, or how it was refused."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            model = io.load(path)
        except ValueError:
            return "refused"
        try:
            return answer(model)
        except ValueError as error:
            return f"{type(error).__name__}: {error}"


STORED = sorted(path for path in DATA.glob("*.json") if "expected" not in path.name)


def test_mutated_files_are_refused_or_answer_the_same_twice(tmp_path):
    documents = [written(model, tmp_path) for model in fresh()]
    documents += [json.loads(path.read_bytes()) for path in STORED if path.stat().st_size < 60_000]
    draw, path, kept = random.Random(0), tmp_path / "mutated.json", []
    for number in range(2400):
        path.write_text(json.dumps(mutated(documents[number % len(documents)], draw)))
        first = outcome(path)
        np.full(997, number, dtype=np.float64)  # what is read out of bounds is another number now
        assert outcome(path) == first, number
        kept.append(first != "refused")
    assert 600 < sum(kept) < 1800


# -- what a file may not say -----------------------------------------------------------------------


def stored(**changes):
    """An operator of two curves as it is written, with changes."""
    operator = mx.Hinge(knots=2).fit(*_seen(TABLE[:, :2]))[0]
    state = io._encode(operator)["state"]
    return {"class": "Additive", "state": state | {k: io._encode(v) for k, v in changes.items()}}


def _seen(X):
    schema = mx.features.Schema.of(X)
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
    with pytest.raises(ValueError, match=r"more than the limit.*MAXENT_MAX_CELLS="):
        io.load(path)


def test_the_limit_of_cells_can_be_raised_and_lowered(tmp_path, monkeypatch):
    io.save(mx.IdentityMap(100), tmp_path / "map.json")
    monkeypatch.setenv("MAXENT_MAX_CELLS", "99")
    with pytest.raises(ValueError, match=r"has 100 cells.*limit of 99.*MAXENT_MAX_CELLS=100"):
        io.load(tmp_path / "map.json")
    monkeypatch.setenv("MAXENT_MAX_CELLS", "100")
    assert io.load(tmp_path / "map.json").size == 100
