"""The ``.lambdas`` file of the Maxent program (maxent.jar): a fitted density as lines of text.

One line per feature, ``name, weight, min, max``: the name says what the feature is, min and max
what it is scaled with, so that it is 0 at one and 1 at the other.

==============  =======================================================================
``x``           the variable itself; the line is there also with weight 0, because its
                min and max are what the variable is clamped to
``x^2, x*y``    a square and a product of two variables, scaled by their own min and max
``(12.5<x)``    a threshold: 1 where x > 12.5
``'x``          a forward hinge, from the knot (min) up to the variable's max
```x``          a reverse hinge, from the knot (max) down to the variable's min
``(x=3.0)``     a level of a categorical variable, always a number
==============  =======================================================================

Four lines ``name, value`` follow. With theta the weighted sum of the features,

    raw = exp(theta - linearPredictorNormalizer) / densityNormalizer;

``numBackgroundPoints`` is the number of points over which raw sums to 1, ``entropy`` that of raw
over them, from which the logistic and cloglog outputs are made.
"""

from __future__ import annotations

import math
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from maxent import io
from maxent.core.entropies import Shannon
from maxent.density.link import DensityLink
from maxent.density.model import (
    Certificate,
    FittedDensity,
    fitted_density,
)
from maxent.density.origin import Offered
from maxent.density.sums import cumulative_table
from maxent.features import Additive, Levels, Operator, Products, Schema, with_weights
from maxent.features.additive import FORWARD, LINEAR, QUADRATIC, REVERSE, THRESHOLD
from maxent.features.cells import column_units
from maxent.features.letters import MONOTONE
from maxent.rows.arrays import Array

_TRAILER = ("linearPredictorNormalizer", "densityNormalizer", "numBackgroundPoints", "entropy")
_RESERVED = re.compile(r"""[,'"`*^=<\r\n]|^\s|\s$|^$""")
_LEVEL = re.compile(r"\(([^=<]+)=([^=<]+)\)")
_THRESHOLD_NAME = re.compile(r"\(([^=<]+)<([^=<]+)\)")
_CURVES = (LINEAR, QUADRATIC, FORWARD, REVERSE, THRESHOLD)
_PRODUCT, _CATEGORY = 5, 6  # kinds of term besides those of Additive
_LETTERS = "lqhhtpc"


class _Term(NamedTuple):
    """A feature line; ``knot`` is the threshold or the level where there is one."""

    line: int
    kind: int
    variables: tuple[str, ...]
    weight: float
    low: float
    high: float
    knot: float


# -- writing -------------------------------------------------------------------------------------


def write_lambdas(density: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted density as a ``.lambdas`` file, which the Maxent program projects with.

    Shannon entropy only. Numbers have all their digits, and variables come in the order of the
    columns; the file is replaced in one step. What the format has no room for is lost: the gain,
    the certificate and the table of the cumulative output. ``maxent.save`` keeps all.

    The program itself differs from ``predict`` in that it projects in single precision, caps raw
    at 1, counts a value that equals a threshold as above it and, when clamping, holds squares at
    the smallest of the fit also where x is nearer to 0 than any cell was.

    Parameters
    ----------
    density : FittedDensity or estimator
        A fitted density, or a fitted estimator that holds one as ``density_``.
    path : path
        The file.

    Examples
    --------
    >>> import os.path, tempfile
    >>> import numpy as np
    >>> from maxent import MaxentDensity
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> model = MaxentDensity("lq").fit(X, np.arange(50) > 30)
    >>> path = os.path.join(tempfile.mkdtemp(), "species.lambdas")
    >>> write_lambdas(model, path)
    >>> with open(path) as file:
    ...     [line.split(",")[0] for line in file]
    ['x0', 'linearPredictorNormalizer', 'densityNormalizer', 'numBackgroundPoints', 'entropy']
    >>> bool(np.allclose(read_lambdas(path).predict(X), model.predict(X), rtol=1e-12))
    True
    """
    density = fitted_density(density)
    if density.link.power != 0:
        raise ValueError(
            "a lambdas file holds a density exp(theta) / Z, that of the Shannon entropy; this one "
            f"has {density.entropy!r}: keep it with maxent.save"
        )
    schema = density.schema
    wrong = [name for name in schema.names if _RESERVED.search(name) or name in _TRAILER]
    if wrong:
        raise ValueError(
            f"a lambdas file cannot hold variables named {', '.join(map(repr, wrong))}: a name "
            "has no comma, quote mark, *, ^, =, < or space at its ends and is none of "
            f"{', '.join(_TRAILER)}; rename the columns before the fit"
        )
    for name, levels in zip(schema.categorical, schema.levels, strict=True):
        _check_levels(name, levels)
    _check_sizes(schema, density.low, density.high)
    points = density.n_points
    trailer = (
        density.link.shift,
        math.exp(density.log_total),
        int(points) if float(points).is_integer() else float(points),
        density.raw_entropy,
    )
    lines = [f"{name}, {w!r}, {low!r}, {high!r}" for name, w, low, high in _lines(density)]
    lines += [f"{name}, {value!r}" for name, value in zip(_TRAILER, trailer, strict=True)]
    io.write_atomically(path, ("\n".join(lines) + "\n").encode())


def _check_levels(name: str, levels: Sequence[Any]) -> None:
    numbers = [v for v in levels if isinstance(v, int | float)]
    other = [v for v in levels if not isinstance(v, int | float)]
    # the program compares in single precision, and would never find other levels again
    other += [v for v in numbers if float(np.float32(v)) != v]
    if other:
        raise ValueError(
            f"the levels of {name!r} must be numbers that single precision holds, as those of the "
            f"Maxent program are, got {', '.join(map(repr, other[:5]))}; code them as 1, 2, 3 ..."
        )


def _check_sizes(schema: Schema, low: Array, high: Array) -> None:
    wrong = np.flatnonzero(column_units(low, high) != 1)
    if wrong.size:
        raise ValueError(
            f"{schema.continuous[wrong[0]]!r} has values from {low[wrong[0]]:g} to "
            f"{high[wrong[0]]:g}, whose squares no lambdas file can hold: fit in other units"
        )


def _lines(density: FittedDensity) -> Iterator[tuple[str, float, float, float]]:
    """Name, weight, min and max of every feature line."""
    schema = density.schema
    alone: dict[Any, float] = defaultdict(float)  # weights of variables and of levels
    rest: list[tuple[str, float, float, float]] = []
    for operator, weights in with_weights(density.operators, density.weights):
        if isinstance(operator, Additive):
            for v, kind, t, w in zip(
                operator.variable, operator.kind, operator.knot, weights.tolist(), strict=True
            ):
                if kind == LINEAR:
                    alone[operator.variables[v]] += w
                else:
                    rest.append(_curve_line(operator, int(v), int(kind), float(t), w))
        elif isinstance(operator, Products):
            limits = zip(weights, operator.least, operator.most, strict=True)
            rest += [
                (name, float(w), float(low), float(high))
                for name, (w, low, high) in zip(operator.names(), limits, strict=True)
            ]
        elif isinstance(operator, Levels):
            for v, code, w in zip(operator.variable, operator.level, weights.tolist(), strict=True):
                alone[operator.variables[v], int(code)] += w
        else:
            raise ValueError(
                f"a lambdas file has no line for the features of {type(operator).__name__}"
            )
    ranges = dict(zip(schema.continuous, zip(density.low, density.high, strict=True), strict=True))
    for name in schema.names:
        if name in ranges:
            low, high = map(float, ranges[name])
            if math.isfinite(low) and math.isfinite(high):
                yield name, alone[name], low, high
        else:
            levels = schema.levels[schema.categorical.index(name)]
            for code, level in enumerate(levels):
                yield f"({name}={float(level)!r})", alone[name, code], 0.0, 1.0
    yield from rest


def _curve_line(
    operator: Additive, v: int, kind: int, knot: float, weight: float
) -> tuple[str, float, float, float]:
    name, low, high = operator.variables[v], float(operator.low[v]), float(operator.high[v])
    if kind == QUADRATIC:
        return (
            f"{name}^2",
            weight,
            float(operator.square_low[v]),
            float(operator.square_high[v]),
        )
    if kind == THRESHOLD:
        return f"({knot!r}<{name})", weight, 0.0, 1.0
    return (f"'{name}", weight, knot, high) if kind == FORWARD else (f"`{name}", weight, low, knot)


# -- reading -------------------------------------------------------------------------------------


def read_lambdas(path: str | os.PathLike[str], background: Any = None) -> FittedDensity:
    """A FittedDensity from a ``.lambdas`` file of the Maxent program or of write_lambdas.

    Its columns are the variables in the order of the file, ``schema.names``; levels of categorical
    variables are floats, and those without a line get no effect, with a warning. Clamping is to the
    range of each variable's own line, as in the program (``write_lambdas`` says what differs). A
    variable that has none is held within the range that its other lines show. Hinges whose range
    is not the variable's are rescaled, and clamped with the variable.

    The file does not say how the model was fitted: the numbers of ``certificate``, ``n_presences``
    and ``beta`` are NaN, the status is None. Nor does it hold the distribution that the cumulative
    output needs.

    Parameters
    ----------
    path : path
        The file.
    background : array or table, default None
        Cells of the fit, for the cumulative output.

    Examples
    --------
    >>> import os.path, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "species.lambdas")
    >>> with open(path, "w") as file:
    ...     _ = file.write(
    ...         "x0, 2.0, 0.0, 100.0\\n(x1=7.0), 1.0, 0.0, 1.0\\n"
    ...         "linearPredictorNormalizer, 3.0\\ndensityNormalizer, 4.0\\n"
    ...         "numBackgroundPoints, 10\\nentropy, 2.0\\n"
    ...     )
    >>> model = read_lambdas(path)
    >>> model.schema.names, model.coef
    (('x0', 'x1'), {'x0': 2.0, 'x1=7.0': 1.0})
    >>> model.predict([[100.0, 7.0], [150.0, 7.0]])
    array([0.25, 0.25])
    """
    terms, trailer = _parse(Path(path))
    density = _density(terms, trailer)
    if background is None:
        return density
    raw = density.predict(background)
    raw = raw[~np.isnan(raw)]
    return replace(density, cumulative=cumulative_table(raw, np.ones(raw.size)))


def _wrong(path: Any, line: int | None, found: str, expected: str) -> ValueError:
    where = f"{os.fspath(path)!r}" + ("" if line is None else f", line {line}")
    return ValueError(f"{where}: found {found}, expected {expected}")


def _parse(path: Path) -> tuple[list[_Term], dict[str, float]]:
    """The feature lines, and the values of the four lines that follow."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise _wrong(path, None, f"no UTF-8 text ({error})", "a lambdas file") from error
    terms: list[_Term] = []
    trailer: dict[str, float] = {}
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        name, *rest = (part.strip() for part in text.split(","))
        wanted = 1 if name in _TRAILER else 3
        if len(rest) != wanted:
            expected = f"'{name}, value'" if wanted == 1 else "'name, weight, min, max'"
            raise _wrong(path, number, f"{text!r:.80}", expected)
        values = [_number(part, path, number) for part in rest]
        if name in _TRAILER:
            trailer[name] = values[0]
        else:
            terms.append(_term(name, values, path, number))
    missing = [name for name in _TRAILER if name not in trailer]
    if missing:
        raise _wrong(
            path,
            None,
            f"no line {', '.join(missing)} ({len(lines)} lines)",
            f"{', '.join(_TRAILER)} after the features; the file is cut short, or an old one",
        )
    for name in ("densityNormalizer", "numBackgroundPoints"):
        if not trailer[name] > 0:
            raise _wrong(path, None, f"{name} {trailer[name]!r}", "a positive number")
    if not terms:
        raise _wrong(path, None, "no feature", "a line 'name, weight, min, max' for every feature")
    _check_terms(terms, path)
    return terms, trailer


def _number(text: str, path: Path, line: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise _wrong(path, line, f"{text!r:.40}", "a finite number")
    return value


def _term(name: str, values: Sequence[float], path: Path, line: int) -> _Term:
    """What the name says the feature is."""
    weight, low, high = values
    knot = math.nan
    level, threshold = _LEVEL.fullmatch(name), _THRESHOLD_NAME.fullmatch(name)
    if name.count("*") == 1:
        kind, variables = _PRODUCT, tuple(name.split("*"))
    elif name.endswith("^2"):
        kind, variables = QUADRATIC, (name[:-2],)
    elif level:
        kind, variables, knot = _CATEGORY, (level[1],), _number(level[2], path, line)
    elif threshold:
        kind, variables, knot = THRESHOLD, (threshold[2],), _number(threshold[1], path, line)
    elif name[:1] == "'":
        kind, variables, knot = FORWARD, (name[1:],), low
    elif name[:1] == "`":
        kind, variables, knot = REVERSE, (name[1:],), high
    else:
        kind, variables = LINEAR, (name,)
    if any(_RESERVED.search(variable) for variable in variables):
        raise _wrong(
            path,
            line,
            f"the feature {name!r:.60}",
            "one of x, x^2, x*y, (x=3.0), (12.5<x), 'x and `x (polyhedral features, x^p, are not "
            "read)",
        )
    if weight != 0 and not low < high:
        raise _wrong(path, line, f"min {low!r} and max {high!r}", "min < max where the weight is")
    return _Term(line, kind, variables, weight, low, high, knot)


def _check_terms(terms: Sequence[_Term], path: Path) -> None:
    """No feature twice, and no variable both categorical and continuous."""
    seen: dict[Any, int] = {}
    categories = {t.variables[0]: t.line for t in terms if t.kind == _CATEGORY}
    for term in terms:
        if term.kind not in (FORWARD, REVERSE):
            key = (term.kind, term.variables, None if math.isnan(term.knot) else term.knot)
            if key in seen:
                raise _wrong(path, term.line, f"the feature of line {seen[key]} again", "it once")
            seen[key] = term.line
        for name in term.variables:
            if term.kind != _CATEGORY and name in categories:
                raise _wrong(
                    path,
                    term.line,
                    f"{name!r} as a continuous variable",
                    f"a categorical one, as in line {categories[name]}",
                )


def _schema(terms: Sequence[_Term]) -> Schema:
    """Variables in the order of the file."""
    names = tuple(dict.fromkeys(name for term in terms for name in term.variables))
    levels: dict[str, list[float]] = {}
    for term in terms:
        if term.kind == _CATEGORY:
            levels.setdefault(term.variables[0], []).append(term.knot)
    categorical = tuple(name for name in names if name in levels)
    return Schema(names, categorical, tuple(tuple(sorted(levels[name])) for name in categorical))


def _range(terms: Sequence[_Term]) -> tuple[float, float]:
    """What a variable is clamped to, from all lines that name it.

    Never less than its range at the fit: where a side cannot be told it is infinite.
    """
    kinds = {kind: [t for t in terms if t.kind == kind] for kind in (*_CURVES, _PRODUCT)}
    if kinds[LINEAR]:
        return kinds[LINEAR][0].low, kinds[LINEAR][0].high
    low, high = -math.inf, math.inf
    if kinds[QUADRATIC]:
        high = math.sqrt(max(kinds[QUADRATIC][0].high, 0.0))
        low = -high
    elif not kinds[_PRODUCT]:  # flat beyond the outermost knots
        knots = [t.knot for t in terms]
        low, high = min(knots) - 1.0, max(knots) + 1.0
    if kinds[REVERSE]:
        low = min(t.low for t in kinds[REVERSE])
    if kinds[FORWARD]:
        high = max(t.high for t in kinds[FORWARD])
    return low, high


def _operators(
    terms: Sequence[_Term], schema: Schema, low: Array, high: Array
) -> tuple[list[Operator], Array]:
    """The operators of the features with a weight, and the weights."""
    used = [term for term in terms if term.weight != 0]
    operators: list[Operator] = []
    weights: list[Array] = []
    column = {name: v for v, name in enumerate(schema.continuous)}
    code = {
        (name, level): (v, c)
        for v, (name, levels) in enumerate(zip(schema.categorical, schema.levels, strict=True))
        for c, level in enumerate(levels)
    }
    base, top = _finite(used, column, low, high)
    _check_sizes(schema, base, top)
    curves = [term for term in used if term.kind in _CURVES]
    if curves:
        operator, w = _additive(curves, schema, column, base, top)
        operators.append(operator)
        weights.append(w)
    products = [term for term in used if term.kind == _PRODUCT]
    if products:
        first, second = (
            np.array([column[t.variables[i]] for t in products], dtype=np.int32) for i in (0, 1)
        )
        least, most = np.array([(t.low, t.high) for t in products]).T
        operators.append(Products(schema.continuous, base, top, first, second, least, most))
        weights.append(np.array([t.weight for t in products]))
    levels = [(code[t.variables[0], t.knot], t.weight) for t in used if t.kind == _CATEGORY]
    if levels:
        variable, level = np.array([place for place, _ in levels], dtype=np.int32).T
        operators.append(Levels(schema.categorical, schema.levels, variable.copy(), level.copy()))
        weights.append(np.array([w for _, w in levels]))
    return operators, np.concatenate([np.empty(0), *weights])


def _finite(
    terms: Sequence[_Term], column: Mapping[str, int], low: Array, high: Array
) -> tuple[Array, Array]:
    """Ranges to scale with: any will do for a variable without a linear line or hinge."""
    base, top = low.copy(), high.copy()
    for name, v in column.items():
        knots = [t.knot for t in terms if name in t.variables and not math.isnan(t.knot)]
        ends = [x for x in (*knots, low[v], high[v]) if math.isfinite(x)] or [0.0]
        if not math.isfinite(low[v]):
            base[v] = min(ends) - 1.0
        if not math.isfinite(high[v]):
            top[v] = max(ends) + 1.0
    return base, top


def _additive(
    terms: Sequence[_Term], schema: Schema, column: Mapping[str, int], low: Array, high: Array
) -> tuple[Additive, Array]:
    square = np.tile([[0.0], [1.0]], (1, low.size))
    weight = np.array([t.weight for t in terms])
    for i, term in enumerate(terms):
        v = column[term.variables[0]]
        if term.kind == QUADRATIC:
            square[:, v] = term.low, term.high
        elif term.kind == FORWARD and term.high != high[v]:
            weight[i] *= (high[v] - term.knot) / (term.high - term.knot)
        elif term.kind == REVERSE and term.low != low[v]:
            weight[i] *= (term.knot - low[v]) / (term.knot - term.low)
    variable = np.array([column[t.variables[0]] for t in terms], dtype=np.int32)
    kind = np.array([t.kind for t in terms], dtype=np.int8)
    knot = np.array([t.knot for t in terms])
    order = np.lexsort((knot, kind, variable))
    operator = Additive(
        schema.continuous, low, high, square[0], square[1],
        variable[order], kind[order], knot[order],
    )  # fmt: skip
    return operator, weight[order]


# -- the model -----------------------------------------------------------------------------------


def _density(terms: Sequence[_Term], trailer: Mapping[str, float]) -> FittedDensity:
    """The density of the features, with nothing known of its fit."""
    schema = _schema(terms)
    lines = {name: [t for t in terms if name in t.variables] for name in schema.continuous}
    limits = np.array([_range(lines[name]) for name in schema.continuous]).reshape(-1, 2)
    low, high = limits.T.copy()
    operators, weights = _operators(terms, schema, low, high)
    return FittedDensity(
        schema=schema,
        operators=tuple(operators),
        weights=weights,
        beta=np.full(weights.size, np.nan),
        low=low,
        high=high,
        entropy=Shannon(),
        link=DensityLink(0.0, trailer["linearPredictorNormalizer"]),
        log_total=math.log(trailer["densityNormalizer"]),
        raw_entropy=trailer["entropy"],
        cumulative=np.empty((2, 0)),
        mean_place=None,
        n_points=trailer["numBackgroundPoints"],
        n_presences=math.nan,
        n_features=len(terms),
        biased=False,
        merged=True,
        origin=Offered(sum(_LETTERS[term.kind] not in MONOTONE for term in terms)),
        certificate=Certificate(None, math.nan, math.nan, math.nan, math.nan, 0, {}, []),
        prevalence=0.5,
    )
