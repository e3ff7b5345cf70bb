"""Units: whether the values of other layers are on the scale of those that a model was fitted to.

A layer in tenths of a degree where the fit had degrees is no error of any file, and makes a map
that means nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from maxent import io
from maxent._support.terminal import CAUTION
from maxent.density import FittedDensity
from maxent.rows.arrays import Array
from maxent.species.input.layers.similarity import Reference

_PERCENTS = np.array([5.0, 25.0, 50.0, 75.0, 95.0])
_MOST = 0.5  # share of cells outside the range of the fit that is worth a word by itself
_WITHIN = 0.8  # share that a conversion must bring inside: a warmer climate leaves some outside
_CLOSE, _CLOSER = 0.35, 0.1  # furthest quantile, in widths: where most is outside, and elsewhere
_PART = 0.05  # of what quantiles were apart before that may be left, up to their width
_FAR = 0.5  # of quantiles that are called different


class Conversion(NamedTuple):
    """A change of units: `value * scale + offset`."""

    words: str
    scale: float
    offset: float = 0.0

    def of(self, values: Array) -> Array:
        """The values in the other units."""
        return values * self.scale + self.offset


CONVERSIONS = (
    Conversion("multiplied by 10", 10.0),
    Conversion("divided by 10", 0.1),
    Conversion("multiplied by 100", 100.0),
    Conversion("divided by 100", 0.01),
    Conversion("multiplied by 1000", 1000.0),
    Conversion("divided by 1000", 0.001),
    Conversion("plus 273.15 (degrees Celsius to kelvin)", 1.0, 273.15),
    Conversion("minus 273.15 (kelvin to degrees Celsius)", 1.0, -273.15),
    Conversion(
        "divided by 10 and minus 273.15 (tenths of kelvin to degrees Celsius)", 0.1, -273.15
    ),
    Conversion(
        "plus 273.15 and multiplied by 10 (degrees Celsius to tenths of kelvin)", 10.0, 2731.5
    ),
    Conversion("minus 32 and divided by 1.8 (Fahrenheit to Celsius)", 1 / 1.8, -32 / 1.8),
    Conversion("multiplied by 1.8 and plus 32 (Celsius to Fahrenheit)", 1.8, 32.0),
    Conversion("multiplied by 0.3048 (feet to metres)", 0.3048),
    Conversion("divided by 0.3048 (metres to feet)", 1 / 0.3048),
    Conversion("multiplied by 25.4 (inches to millimetres)", 25.4),
    Conversion("divided by 25.4 (millimetres to inches)", 1 / 25.4),
    Conversion("multiplied by 86400 (a rate per second to one per day)", 86400.0),
    Conversion("divided by 86400 (a rate per day to one per second)", 1 / 86400),
    Conversion("multiplied by 180/pi (radians to degrees)", 180 / np.pi),
    Conversion("multiplied by pi/180 (degrees to radians)", np.pi / 180),
)


@io.register
@dataclass(frozen=True)
class UnlikeUnits:
    """A variable whose values in other layers are hardly those of the fit.

    Attributes
    ----------
    variable : str
        Its name.
    cells : int
        Known cells of the other layers.
    outside : int
        Of these, the cells with a value outside the range of the fit.
    fitted : tuple of float
        Smallest and largest value at the fit.
    found : tuple of float
        The values between which nine tenths of the other layers' cells lie.
    guess : str
        What would make their values like those of the fit, in words, "" where nothing simple does.
    """

    variable: str
    cells: int
    outside: int
    fitted: tuple[float, float]
    found: tuple[float, float]
    guess: str = ""

    def describe(self, name: str, spoiled: str = "the map and its range change") -> str:
        """A note for the user; ``name`` is that of the other layers, ``spoiled`` what it spoils.

        >>> found = UnlikeUnits("bio5", 80, 80, (12, 31), (130, 300), "divided by 10")
        >>> print(found.describe("wet"))
        caution: wet: bio5 lies outside its range at the fit in 80 of 80 cells: 12 to 31 at the \
fit, mostly 130 to 300 here. Are its units others? Divided by 10, its values would agree with \
those of the fit. Until they do, the map and its range change mean nothing
        """
        fitted, found = (f"{low:.4g} to {high:.4g}" for low, high in (self.fitted, self.found))
        where = f"{self.outside:,} of {self.cells:,} cells"
        said = f"{self.variable} lies outside its range at the fit in {where}"
        if self.guess and self.outside <= _MOST * self.cells:
            said = f"{self.variable} has other values than at the fit (outside their range {where})"
        said += f": {fitted} at the fit, mostly {found} here. Are its units others? "
        if self.guess:
            said += (
                f"{self.guess[0].upper()}{self.guess[1:]}, its values would agree with those of "
                f"the fit. Until they do, {spoiled} mean nothing"
            )
        else:
            said += "If not, the model extrapolates nearly everywhere"
        return f"{CAUTION}{name}: {said}"


def ranges_of(density: FittedDensity) -> dict[str, tuple[float, float]]:
    """Smallest and largest value of each variable of numbers at the fit."""
    ends = zip(density.schema.continuous, density.low, density.high, strict=True)
    return {name: (float(low), float(high)) for name, low, high in ends}


def unlike_units(
    values: Mapping[str, Array],
    ranges: Mapping[str, tuple[float, float]],
    references: Sequence[Reference] = (),
    outside: Mapping[str, int] | None = None,
    cells: int | None = None,
) -> list[UnlikeUnits]:
    """The variables most of whose cells lie outside the range of the fit, or in other units.

    A change of units is proposed where one of ``CONVERSIONS`` brings four fifths of the values into
    the range of a reference and the quantiles at 5, 25, 50, 75 and 95 % close to its own: within
    0.35 of the width from the first to the last of these (or a twentieth of what they were apart
    before, up to that width), and within 0.1 where most values are inside the range anyway.

    Parameters
    ----------
    values : dict of array
        Values of the other layers (or of a sample of their cells) by variable.
    ranges : dict of tuple
        Smallest and largest value of each variable at the fit.
    references : sequence of Reference, default ()
        What the background of the fit, or the layers that it was drawn from, hold: values may be
        like either. Without any nothing is proposed.
    outside : dict of int, default None
        Cells outside the range, where more were counted than ``values`` holds.
    cells : int, default None
        How many were counted then.

    Examples
    --------
    >>> fitted = np.linspace(-5.0, 30.0, 500)
    >>> reference = Reference.from_table(fitted[:, None])
    >>> (found,) = unlike_units({"x0": 10 * fitted + 20}, {"x0": (-5.0, 30.0)}, [reference])
    >>> found.guess, found.outside
    ('divided by 10', 450)
    """
    found = []
    for name, (low, high) in ranges.items():
        column = np.asarray(values.get(name, ()), np.float64)
        column = column[np.isfinite(column)]
        if not column.size:
            continue
        n = column.size if cells is None else cells
        beyond = int(((column < low) | (column > high)).sum())
        if outside is not None:
            beyond = int(outside.get(name, 0))
        most = beyond > _MOST * n
        guesses = (_guessed(column, known, name, most) for known in references)
        guess = next((words for words in guesses if words), "")
        if most or guess:
            here = np.percentile(column, [5, 95], method="inverted_cdf").tolist()
            found.append(UnlikeUnits(name, n, beyond, (low, high), (here[0], here[1]), guess))
    return found


def _guessed(values: Array, reference: Reference, name: str, most: bool) -> str:
    """The conversion that makes values like those of the fit, in words; "" without any."""
    if name not in reference.values:
        return ""
    low, high = reference.values[name][[0, -1]]
    there = reference.quantiles(name, _PERCENTS)
    width = there[-1] - there[0]
    here = np.percentile(values, _PERCENTS, method="inverted_cdf")
    before = float(np.abs(here - there).max()) / width if width > 0 else 0.0
    if before < _FAR:
        return ""
    best, words = max(_CLOSE, min(1.0, _PART * before)) if most else _CLOSER, ""
    for conversion in CONVERSIONS:
        apart = float(np.abs(conversion.of(here) - there).max()) / width
        if apart < best:
            converted, slack = conversion.of(values), 1e-6 * width  # of rounding
            if np.mean((converted >= low - slack) & (converted <= high + slack)) >= _WITHIN:
                best, words = apart, conversion.words
    return words
