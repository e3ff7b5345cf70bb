"""The reference: every parameter and every fitted attribute has an entry of its own."""

import ast
import dataclasses
import functools
import importlib
import inspect
import re
import textwrap

import pytest

import maxent
from tools import docs_extension, needs

SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}$", re.MULTILINE)
ENTRY = re.compile(r"\*{0,2}(\w+) : ((?:(?! : |;).)+)")  # one name, and what it is
# Examples and formulas.
NO_NAMES = re.compile(r"^>>>.*?(?:\n\n|\Z)|(?<!`)`[^`]+`(?!`)", re.MULTILINE | re.DOTALL)
FITTED = re.compile(r"\b[A-Za-z]\w*_\b")
API = "docs/api"
NEEDS = {
    "maxent": [],
    "maxent.species": ["rasterio", "geopandas"],
    "maxent.torch": ["torch"],
    "maxent.torch.structured": ["torch"],
    API: ["rasterio", "geopandas", "torch", "distributed"],
}


def names_of(package):
    """The full names that a package lists as public, or that the pages describe."""
    if package == API:
        return docs_extension("reference").reference()
    if package.startswith("maxent.torch"):
        return [f"{package}.{name}" for name in importlib.import_module(package).__all__]
    public = importlib.import_module(package).PUBLIC
    return [f"{home}.{name}" for home in public for name in public[home]]


def documents(package):
    """The classes and functions among them; warnings have no parameters of ours."""
    for full in names_of(package):
        home, _, name = full.rpartition(".")
        what = getattr(importlib.import_module(home), name)
        if inspect.isroutine(what) or (inspect.isclass(what) and not issubclass(what, Warning)):
            yield full, what


def entries(what, title):
    """The headings of a section of a docstring, each with what stands under it."""
    parts = SECTION.split(inspect.getdoc(what) or "")
    text = dict(zip(parts[1::2], parts[2::2], strict=True)).get(title, "")
    found = []
    for line in text.strip().splitlines():
        if line[:1].strip():
            found.append((line, []))
        elif line.strip():
            found[-1][1].append(line.strip())
    return found


def is_record(what):
    """Whether the fields are both what is given and attributes."""
    return inspect.isclass(what) and (dataclasses.is_dataclass(what) or issubclass(what, tuple))


def parameters(what):
    """What a caller may give, and whether it has a default."""
    if inspect.isclass(what) and not is_record(what) and not vars_of_ours(what, "__init__"):
        return {}  # the constructor is that of Python or of another package
    given = inspect.signature(what).parameters.values()
    return {p.name: p.default is not p.empty for p in given if not p.name.startswith("_")}


def vars_of_ours(cls, name):
    return [
        vars(base)[name]
        for base in cls.__mro__
        if base.__module__.startswith("maxent.") and name in vars(base)
    ]


@functools.cache
def set_by(cls):
    """The properties of a class, and what its methods assign to."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    assigned = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    return assigned | {name for name, value in vars(cls).items() if isinstance(value, property)}


def fitted(cls):
    """The public names ending in _ that a class sets, computes, saves or speaks of."""
    names = set(FITTED.findall(NO_NAMES.sub("", inspect.getdoc(cls))))
    for saved in vars_of_ours(cls, "_fitted_fields"):
        names.update(saved)
    for base in cls.__mro__:
        if base.__module__.startswith("maxent."):
            names |= set_by(base)
    return sorted(name for name in names if FITTED.fullmatch(name))


def faults(what):
    """What is wrong with the entries of a docstring."""
    wrong, named = [], {}
    for title in ("Parameters", "Attributes"):
        named[title] = {}
        for heading, body in entries(what, title):
            entry = ENTRY.fullmatch(heading)
            if entry and body:
                named[title][entry[1]] = entry[2]
            else:
                wrong.append(f"{title}: not a name, its type and a text: {heading!r}")
    given, told = parameters(what), named["Parameters"]
    wrong += [f"{name} is no parameter" for name in told if name not in given]
    wrong += [
        f"{name}: its default is not told"
        for name, default in given.items()
        if default and name in told and ", default " not in told[name]
    ]
    known = {**told, **named["Attributes"]} if is_record(what) else told
    wrong += [f"parameter {name} has no entry" for name in given if name not in known]
    if inspect.isclass(what) and hasattr(what, "fit"):
        known = named["Attributes"]
        wrong += [f"attribute {name} has no entry" for name in fitted(what) if name not in known]
    return wrong


@pytest.mark.parametrize("package", NEEDS)
def test_every_parameter_and_fitted_attribute_has_an_entry(package):
    for module in NEEDS[package]:
        needs(module)
    wrong = {name: faults(what) for name, what in documents(package)}
    assert len(wrong) > 20
    assert not {name: told for name, told in wrong.items() if told}


def scaled(x, factor=1.0, *more):
    """Of the tests.

    Parameters
    ----------
    x : array
        What to scale.
    factor : float, default 1.0
        By how much.
    *more : array
        Also these.

    Examples
    --------
    >>> pass
    """


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("x : array\n", "x : array\n", None),
        ("x : array\n", "x, factor : array\n", "not a name"),
        ("x : array\n", "x : array; y : array\n", "not a name"),
        ("x : array\n", "x : what to scale. y : array\n", "not a name"),
        ("    What to scale.\n", "", "not a name"),
        ("x : array\n", "X : array\n", "X is no parameter"),
        ("*more : array\n    Also these.\n", "", "parameter more has no entry"),
        (", default 1.0", "", "factor: its default is not told"),
        ("Examples\n--------\n", "", "not a name"),
    ],
)
def test_an_entry_has_one_name_a_type_and_a_text(old, new, told, monkeypatch):
    text = inspect.getdoc(scaled)
    assert old in text
    monkeypatch.setattr(scaled, "__doc__", text.replace(old, new))
    assert any(told in fault for fault in faults(scaled)) if told else not faults(scaled)


def test_fitted_attributes_are_found_where_they_are_set_computed_saved_or_spoken_of():
    found = fitted(maxent.FenchelYoungClassifierCV)
    assert {"best_params_", "coef_", "n_features_in_"} <= set(found)
    assert "X_fit_" in fitted(maxent.FenchelYoungClassifier)


# Estimators of one family share their settings. Entries are written out all the same, for editors
# read them from the source; what differs between estimators is listed here.
FAMILIES = {
    "FenchelYoungClassifier FenchelYoungRegressor FenchelYoungMultilabel FenchelYoungClassifierCV "
    "LabelRanker": "entropy alpha potential cost fit_intercept class_weight temperature classes_ "
    "coef_ intercept_ gap_",
    "Aligner Matcher TreeClassifier": "entropy potential cost coef_ n_features_in_ tol",
    "ChainClassifier CRF L2CRF L1CRF M3N L1M3N LaplaceMEDN M3NCV L2CRFCV": "C weights_ gap_ "
    "best_params_ cv_results_",
}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda names: names.split()[0])
def test_settings_of_a_family_are_declared_and_described_alike(family):
    described, declared = {}, {}
    for estimator in (getattr(maxent, name) for name in family.split()):
        for heading, lines in entries(estimator, "Parameters") + entries(estimator, "Attributes"):
            name = heading.partition(" : ")[0]
            described.setdefault(name, set()).add((heading, " ".join(lines)))
        for name, parameter in inspect.signature(estimator).parameters.items():
            declared.setdefault(name, set()).add((parameter.annotation, parameter.default))
    different = {name for table in (described, declared) for name in table if len(table[name]) > 1}
    assert different == set(FAMILIES[family].split())
