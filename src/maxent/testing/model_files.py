"""Damaged model files are told by their digest, and without one refused or of one answer."""

from __future__ import annotations

import base64
import copy
import json
import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from maxent import io
from maxent._support.digest import FIELD
from maxent.rows.arrays import flat

_rng = np.random.default_rng(0)
_ROOM = 1_000_000  # entries of a row that a domain of a file is asked about
TABLE = np.column_stack([_rng.random((60, 2)), _rng.integers(0, 3, 60)])
COUNTS = (np.arange(60) % 5 == 0).astype(int)


def models() -> list[Any]:
    """Small models whose predictions go through compiled loops."""
    import maxent as mx
    from maxent.species.input.layers.similarity import Reference

    settings: dict[str, Any] = {"categorical": [2], "verbose": 0}
    density = mx.MaxentDensity("lqphtc", multiplier=0.1, **settings).fit(TABLE, COUNTS).density_
    kernels = [mx.Linear(), mx.Kernel(landmarks=6, spatial=0.1, coordinates=("x0", "x1"))]
    kernel = mx.MaxentDensity(kernels, **settings).fit(TABLE, COUNTS).density_
    families = [mx.Monomials(2), mx.Splines(2, knots=4), mx.Trees(3)]
    grown = [
        mx.StructMaxent([family], 0.0, 0.001, rounds=4, **settings).fit(TABLE, COUNTS).density_
        for family in families
    ]
    classifier = mx.StructMaxentClassifier(families, rounds=4, **settings).fit(TABLE, COUNTS)
    reference = Reference.from_table(TABLE, [2])
    path = mx.RelaxationPath([3, 2, 1], [1, 2, 0], [1, 2, 1]).fit()
    chain = mx.ChainMap([np.ones((2, 3)), np.ones((4, 3))], 2)
    rows = [mx.Chain(2).encode([[0], [1, 0, 1]], tied) for tied in (False, True)]
    tree = mx.Tree(((0, 1), (1, 2)), (2, 3, 2))
    gram = mx.KernelMap(np.eye(3))
    return [density, kernel, *grown, classifier, reference, path, chain, *rows, tree, gram]


def written(model: Any, folder: Path) -> Any:
    """A model as the document that its file holds."""
    io.save(model, folder / "model.json")
    return json.loads((folder / "model.json").read_bytes())


def answer(model: Any) -> bytes:
    """What a loaded model computes where it computes anything."""
    import maxent as mx
    from maxent.density import FittedDensity
    from maxent.species.input.layers.similarity import Reference

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
        return model.distribution_at([0.5, 2.0, 30.0]).tobytes()
    if isinstance(model, mx.ChainMap):
        scores = model.scores(np.ones(model.n_features))
        return flat(mx.Chain(model.n_states).argmax(scores)).tobytes()
    if isinstance(model, mx.Ragged | mx.Tied):
        return flat(mx.Chain(2).argmax(model)).tobytes()
    if isinstance(model, mx.Tree) and model.size <= _ROOM:
        return model.argmax(np.zeros((1, model.size))).tobytes()
    return b""


def _places(node: Any, found: list[Any]) -> list[Any]:
    """Every place of a document where something can be changed, as (container, key)."""
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in list(items):
        found.append((node, key))
        if isinstance(value, dict | list):
            _places(value, found)
    return found


def _arrays(node: Any, found: list[Any]) -> list[Any]:
    """Every stored array of a document."""
    if isinstance(node, dict) and "array" in node:
        found.append(node)
    elif isinstance(node, dict | list):
        for value in node.values() if isinstance(node, dict) else node:
            _arrays(value, found)
    return found


_ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    7,
    10**6,
    2**31,
    2**63,
    1.5,
    "x",
    "x0",
    "",
    [],
    [[]],
    {"tuple": []},
]
_ODD += [{"float": "nan"}, {"float": "inf"}, {"tuple": [1, "x0"]}, {"dict": []}]


def _change_array(stored: dict[str, Any], draw: random.Random) -> None:
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
    values = np.ascontiguousarray(values)
    stored["array"] = base64.b64encode(values.tobytes()).decode()
    stored["dtype"], stored["shape"] = values.dtype.str, list(values.shape)


def mutated(document: Any, draw: random.Random) -> Any:
    """A copy with one change in its structure or its numbers."""
    document = copy.deepcopy(document)
    stored = _arrays(document["model"], [])
    if stored and draw.random() < 0.6:
        with np.errstate(all="ignore"):
            _change_array(draw.choice(stored), draw)
        return document
    holder, key = draw.choice(_places(document["model"], []))
    other_holder, other = draw.choice(_places(document["model"], []))
    how = draw.choice(["replace", "replace", "delete", "swap", "repeat"])
    if how == "replace":
        holder[key] = copy.deepcopy(draw.choice(_ODD))
    elif how == "delete":
        del holder[key]
    elif how == "swap":
        holder[key] = copy.deepcopy(other_holder[other])
    elif isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    return document


def outcome(path: Path) -> bytes | str:
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


def check_digest(document: Any, draw: random.Random, path: Path) -> None:
    """AssertionError if a document in which something was changed loads, and answers otherwise."""
    text = json.dumps(document)
    at = draw.randrange(len(text))
    one_character = text[:at] + draw.choice("0123456789+-.eaZ") + text[at + 1 :]
    for changed in (json.dumps(mutated(document, draw)), one_character):
        path.write_text(changed)
        found = outcome(path)
        if found != "refused":
            path.write_text(text)
            assert outcome(path) == found, "a changed file that loads, with another answer"


def check_mutation(document: Any, draw: random.Random, path: Path) -> bool:
    """Whether a mutated document was taken for a model, without the digest that tells of it.

    AssertionError if it answers two ways.
    """
    changed = mutated(document, draw)
    changed.pop(FIELD, None)
    path.write_text(json.dumps(changed))
    first = outcome(path)
    np.full(997, draw.random())  # what is read out of bounds is another number now
    assert outcome(path) == first, "two answers of one file"
    return first != "refused"
