"""The reference: every parameter and every fitted attribute of a public name has an entry."""

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap

import pytest

import maxent
from maxent import species

SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}$", re.MULTILINE)
ENTRY = re.compile(r"^\S.*$")
NAME = re.compile(r"\*{0,2}\w+")
FITTED = re.compile(r"^[A-Za-z]\w*_$")
TORCH = ("maxent.torch", "maxent.torch.structured")


def documents():
    """Every public class and function, by the module that lists it."""
    tables = [maxent.PUBLIC, species.PUBLIC]
    try:
        tables += [{module: importlib.import_module(module).__all__} for module in TORCH]
    except ImportError:
        pass
    found = [(module, name) for table in tables for module in table for name in table[module]]
    return [pair for pair in found if is_document(thing(*pair))]


def thing(module, name):
    return getattr(importlib.import_module(module), name)


def is_document(what):
    return inspect.isfunction(what) or (inspect.isclass(what) and not issubclass(what, Warning))


def sections(what):
    """The lines of each section of a docstring, by its title."""
    parts = SECTION.split(inspect.getdoc(what) or "")
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def entries(text):
    """The entries of a section, each with its heading and its body."""
    found = []
    for line in text.strip("\n").splitlines():
        if line.startswith(">>>"):
            break
        if line[:1].strip():
            found.append((line, []))
        elif found:
            found[-1][1].append(line.strip())
    return found


def parameters(what):
    """The names that a caller may give."""
    if dataclasses.is_dataclass(what):
        return [field.name for field in dataclasses.fields(what) if field.init]
    if inspect.isclass(what):
        if what.__init__ is object.__init__ or "__init__" not in vars_of(what):
            return []
        what = what.__init__
    return [n for n in inspect.signature(what).parameters if n != "self"]


def vars_of(cls):
    return {name for base in cls.__mro__ if base.__module__.startswith("maxent") for name in vars(base)}


def fitted(cls):
    """The public names ending in _ that an estimator sets, computes or speaks of."""
    names = set()
    for base in cls.__mro__:
        if base.__module__.startswith("maxent."):
            names |= {n for n, value in vars(base).items() if isinstance(value, property)}
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
            names |= {
                node.attr
                for node in ast.walk(tree)
                if isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store)
                and isinstance(node.value, ast.Name)
            }
        names |= set(vars(base).get("_fitted_fields", ()))
    text = re.sub(r"^>>>.*?(\n\n|\Z)", "", inspect.getdoc(cls), flags=re.M|re.S)
    names |= set(re.findall(r"\b[a-z]\w*_\b", text))
    return sorted(n for n in names if FITTED.match(n))


def faults(what):
    told = {title: entries(text) for title, text in sections(what).items()}
    wrong = []
    named = {}
    for title in ("Parameters", "Attributes"):
        named[title] = []
        for heading, body in told.get(title, []):
            name, colon, kind = heading.partition(" : ")
            if not NAME.fullmatch(name): wrong.append(f"{title}: {heading!r}")
            elif not colon or not kind or not any(body): wrong.append(f"{title}: {heading!r} bare")
            named[title].append(name.lstrip("*"))
    both = named["Parameters"] + named["Attributes"]
    taken = both if dataclasses.is_dataclass(what) else named["Parameters"]
    wrong += [n for n in parameters(what) if n not in taken]
    if inspect.isclass(what) and what.__module__.startswith("maxent.learn"):
        wrong += [n for n in fitted(what) if n not in named["Attributes"]]
    return wrong
