"""The letters of the feature classes: what ``features="lqh"`` and ``Operator.kinds`` mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from maxent.features.additive import Hinge, Linear, Square, Threshold
from maxent.features.base import FeatureClass
from maxent.features.categorical import Categorical
from maxent.features.kernel import Kernel
from maxent.features.product import Interaction


class Letter(NamedTuple):
    """A feature class: its name, whether its features are monotone in one variable, and itself.

    ``make(knots, occupied)`` takes what only some classes use: the number of knots and whether
    levels without a presence are left out.
    """

    name: str
    monotone: bool
    make: Callable[[int | None, bool], FeatureClass]


LETTERS: dict[str, Letter] = {
    "l": Letter("linear", True, lambda knots, occupied: Linear()),
    "q": Letter("quadratic", False, lambda knots, occupied: Square()),
    "p": Letter("product", False, lambda knots, occupied: Interaction()),
    "t": Letter("threshold", True, lambda knots, occupied: Threshold(knots)),
    "h": Letter("hinge", True, lambda knots, occupied: Hinge(knots)),
    "c": Letter("categorical", False, lambda knots, occupied: Categorical(occupied=occupied)),
    "k": Letter("kernel", False, lambda knots, occupied: Kernel()),
}
ALL = "".join(LETTERS)
MONOTONE = tuple(letter for letter, kind in LETTERS.items() if kind.monotone)
