"""Names for what parameters take, as type checkers and people read them.

==================  ===============================================================================
``ArrayLike``       what ``numpy.asarray`` takes
``TableLike``       rows and columns: an array, a sparse matrix, a data frame, a table in blocks
``SequencesLike``   a table for each sequence, or the tokens of each
``EntropyLike``     an entropy, or its name
``PotentialLike``   a potential, its name, a number, or potentials of groups of columns
``SolverLike``      a solver, or its name
``RandomState``     a seed, a generator of scikit-learn's kind, or None
``ClassWeights``    a weight for each class, "balanced", or None
``KernelLike``      the name of a kernel, a function of two tables, or None
``SplitterLike``    a number of folds, or an object with ``split``
``ScoringLike``     the name of a score of scikit-learn, a function, or None
==================  ===============================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from maxent.core.entropies import Entropy
from maxent.core.potentials import Potential
from maxent.core.solvers import Solver

__all__ = [
    "ArrayLike",
    "ClassWeights",
    "EntropyLike",
    "KernelLike",
    "PotentialLike",
    "RandomState",
    "ScoringLike",
    "SequencesLike",
    "SolverLike",
    "SplitterLike",
    "TableLike",
]


class _Shaped(Protocol):
    @property
    def shape(self) -> Any: ...


class _Sequences(Protocol):
    @property
    def lengths(self) -> Any: ...


class _Splitter(Protocol):
    def split(self, X: Any, y: Any = None, groups: Any = None) -> Any: ...


TableLike: TypeAlias = ArrayLike | _Shaped | Mapping[str, Any]
SequencesLike: TypeAlias = Iterable[Any] | _Sequences
EntropyLike: TypeAlias = Entropy | str
PotentialLike: TypeAlias = Potential | str | float | Mapping[Any, Any] | None
SolverLike: TypeAlias = Solver | str
RandomState: TypeAlias = int | np.random.RandomState | None
ClassWeights: TypeAlias = Mapping[Any, float] | str | None
KernelLike: TypeAlias = str | Callable[..., Any] | None
SplitterLike: TypeAlias = int | _Splitter | Sequence[Any] | None
ScoringLike: TypeAlias = str | Callable[..., Any] | None
