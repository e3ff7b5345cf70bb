"""Formulas of docstrings: marked where they stand, readable in help(), typeset on the pages."""

import importlib
import inspect
import re

import pytest

from tools import docs_extension, needs

formulas = docs_extension("formulas")
reference = docs_extension("reference")
LITERAL = re.compile(r"``.+?``|:\w+:`[^`]+`")
# What only a formula has: scripts, norms, conjugates, inner products, sums with an index.
SIGNS = re.compile(
    r"\w\)?\^|\|\||\)_\+|\w\*\(|<\w+, \w|\bOmega\b"
    r"|\b[A-Za-z]_[a-z0-9]\b(?!\()|\bsum_\w|\b(?:max|min)_(?:[A-Za-z]|theta)\b"
)


def documents():
    """The names that the reference describes, and their methods and properties."""
    for name in reference.reference():
        home, _, short = name.rpartition(".")
        what = getattr(importlib.import_module(home), short)
        yield name, what
        if inspect.isclass(what):
            for member, value in vars(what).items():
                function = getattr(value, "fget", None) or getattr(value, "__func__", value)
                if not member.startswith("_") and inspect.isfunction(function):
                    yield f"{name}.{member}", function


def prose():
    """The lines of their docstrings without examples and ``literals``."""
    for module in ("rasterio", "geopandas", "torch", "distributed"):
        needs(module)
    for name, what in documents():
        in_example = False
        for line in (inspect.getdoc(what) or "").splitlines():
            in_example = line.lstrip().startswith(">>>") or (in_example and bool(line.strip()))
            if not in_example:
                yield name, LITERAL.sub("", line)


@pytest.mark.parametrize(
    ("plain", "tex"),
    [
        ("sum_j p_j^alpha", r"\sum_{j}p_{j}^{\alpha}"),
        ("Omega*(theta) <= V*", r"\Omega^{*}(\theta)\leqV^{*}"),
        ("<w_hat - w*, f(x)>", r"\langle\hat{w}-w^{*},f(x)\rangle"),
        ("a < b > c", "a<b>c"),
        ("1/2 ||w||_1^2 / d", r"\frac{1}{2}\|w\|_{1}^{2}/d"),
        ("n^(-1/6) e^{-t}", r"n^{-\frac{1}{6}}e^{-t}"),
        ("KL(p || q0)", r"\mathrm{KL}(p\,\|\,q_{0})"),
        ("q in (1, inf]", r"q\in(1,\infty]"),
        ("inf_theta pi~[f]", r"\inf_{\theta}\tilde{\pi}[f]"),
        ("sqrt(log(k)) sqrt 2 sqrt w_j", r"\sqrt{\log(k)}\sqrt{2}\sqrt{w_{j}}"),
        ("l1_j |v_j| + [r]_+", r"\ell_{1,j}|v_{j}|+[r]_{+}"),
        ("{m >= 0} -> I_-", r"\{m\geq0\}\toI_{-}"),
        ("a_(1) x (x) y a * b", r"a_{(1)}x\otimesya\cdotb"),
        ("cost(y) step V(., j) 10,000", r"\mathrm{cost}(y)\,\mathrm{step}\,V(\cdot,j)10{,}000"),
    ],
)
def test_the_plain_notation_becomes_tex(plain, tex):
    assert formulas.to_tex(plain).replace(" ", "") == tex


@pytest.mark.parametrize("plain", ["a_", "x ^ 2", "sqrt(x", "f(x}", "x)", "5 € more", "f(x", "{x)"])
def test_what_is_no_formula_is_an_error(plain):
    with pytest.raises(formulas.FormulaError, match=re.escape(f"`{plain}`")):
        formulas.to_tex(plain)


def test_formulas_of_the_reference_can_be_typeset():
    mathtext = needs("matplotlib.mathtext").MathTextParser("path")
    found = set()
    for name, line in prose():
        assert line.count("`") % 2 == 0, f"{name}: a formula begins and ends on one line: {line}"
        found.update(formulas.FORMULA.findall(line))
    assert len(found) > 500
    for plain in sorted(found):
        assert mathtext.parse(f"${formulas.to_tex(plain)}$"), plain


def test_no_formula_of_the_reference_is_left_unmarked():
    entry = re.compile(r"^[\w*]+ : ")
    left = [
        f"{name}: {line.strip()}"
        for name, line in prose()
        if not entry.match(line) and SIGNS.search(formulas.FORMULA.sub("", line))
    ]
    assert not left, "\n".join(left)


def test_pages_have_formulas_as_mathematics_and_other_signs_as_they_are():
    lines = ["`w_j^2` of |w| and ``p_w``, see :class:`X`"]
    reference.tidy_docstring(None, "class", "X", None, None, lines)
    assert lines == [r":math:`w_{j}^{2}` of \|w\| and ``p_w``, see :class:`X`"]
