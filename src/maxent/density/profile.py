"""Profiles: the additive part of a density's exponent in one variable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from maxent.density.explanation import pieces_of
from maxent.features import Cells, bind, part_of, variables_used
from maxent.features.cells import UNKNOWN
from maxent.rows.arrays import Array

if TYPE_CHECKING:
    from maxent.density.model import FittedDensity


@dataclass(frozen=True, eq=False)
class Profile:
    """A variable's additive part of the exponent: ``y`` at the values (or levels) ``x``.

    ``complete`` says whether no other feature in use looks at the variable.
    """

    variable: str
    x: Array
    y: Array
    complete: bool

    def plot(self, ax: Any = None) -> Any:
        """Draw it, shifted to start at 0; returns the axes."""
        import matplotlib.pyplot as plt

        ax = plt.subplots()[1] if ax is None else ax
        if self.x.dtype.kind in "fiu" and self.x.size > 50:
            ax.plot(self.x, self.y - self.y[0])
        else:
            ax.bar([str(level) for level in self.x], self.y)
        ax.set_xlabel(self.variable)
        ax.set_ylabel("additive contribution" + ("" if self.complete else ", without products"))
        return ax


def profile(density: FittedDensity, variable: str | int, n: int) -> Profile:
    """See ``FittedDensity.profile``."""
    schema = density.schema
    name = schema.names[variable] if isinstance(variable, int | np.integer) else variable
    if name not in schema.names:
        raise ValueError(f"no variable {variable!r}; the model has {', '.join(schema.names)}")
    pieces, weights = pieces_of(density)
    uses = variables_used(pieces, schema.names)
    looks = uses[schema.names.index(name)]
    alone = np.flatnonzero(looks & (uses.sum(axis=0) == 1))
    x, cells = _along(density, name, n)
    features = bind(part_of(pieces, alone), cells)
    return Profile(name, x, features.scores(weights[alone]), alone.size == looks.sum())


def _along(density: FittedDensity, name: str, n: int) -> tuple[Array, Cells]:
    """``n`` values of a variable or all its levels, the other variables standing anywhere."""
    schema = density.schema
    if name in schema.categorical:
        v = schema.categorical.index(name)
        x = np.array(schema.levels[v])
    else:
        v = schema.continuous.index(name)
        x = np.linspace(density.low[v], density.high[v], n)
    values = np.tile(density.low[:, None], (1, x.size))
    codes = np.full((len(schema.categorical), x.size), UNKNOWN, dtype=np.int32)
    if name in schema.categorical:
        codes[v] = np.arange(x.size)
    else:
        values[v] = x
    return x, Cells(values, codes)
