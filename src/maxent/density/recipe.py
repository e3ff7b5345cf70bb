"""Recipe: what a user chooses before any data, and the task it makes of points."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from maxent import io
from maxent._support.checks import positive
from maxent.core import potentials
from maxent.core.entropies import Entropy, Shannon
from maxent.core.potentials import Potential
from maxent.density import regularization
from maxent.density.blocked import BlockDensityTask, BlockPoints, Reading, SummarisedPoints
from maxent.density.link import required_power
from maxent.density.origin import Offered
from maxent.density.points import Points, Table
from maxent.density.task import DensityTask
from maxent.features import FeatureClass, Operator, Schema
from maxent.features.cells import not_used
from maxent.features.letters import ALL, LETTERS
from maxent.rows.arrays import Array
from maxent.rows.blocks.row_laws import law_of
from maxent.rows.blocks.table import BlockTable

_DENSE_KNOTS = 50  # of a variable, where every feature is in use


class Preset(NamedTuple):
    """What a program does: knots, levels, regularization, and equal rows as one point."""

    knots: int | None
    occupied: bool
    rule: regularization.Rule
    merge: bool


PRESETS = {
    None: Preset(None, True, regularization.jar, False),
    "maxent": Preset(None, True, regularization.jar, True),
    "maxnet": Preset(50, False, regularization.maxnet, True),
}


@io.register
@dataclass(frozen=True, eq=False)
class Recipe:
    """Features, potential, entropy and solver of a density; see ``MaxentDensity`` for each.

    Parameters
    ----------
    features : str or list of FeatureClass, default "auto"
        "auto" (by the number of presences: linear; with 10 quadratic, with 15 hinge, with 80
        product), letters from "lqpthck" (linear, quadratic, product, threshold, hinge, categorical,
        kernel), or a list of feature classes (``[Linear(), Hinge(knots=20)]``). All but those of
        kernels are scaled to [0, 1].
        Letters mean a knot at every value, or 50 per variable where the potential is named and sets
        no weight to 0, as then every feature is in use.
    potential : str or Potential, default "box"
        "box" (l1), "ball" (l2), "quadratic" (l2 squared), "elastic", "smooth-box", "laplace",
        "equality": scaled by the preset's `beta_j`; or a Potential, taken as it is. Under every
        name but "equality" the features of a kernel carry `||w||^2 / (2 m)`, m presences: the norm
        of their function, not a sum over features that depends on their choice.
    entropy : str or Entropy, default "shannon"
        "shannon", or an Entropy (``Tsallis(1.5)`` has exact zeros on the map).
    solver : str or Solver, default "auto"
        How to solve the problem; see ``Problem.solve``. "auto" chooses by the problem.
    multiplier : float, default 1.0
        c in `V_c(r) = c V(r / c)`; maxent.jar's betamultiplier.
    preset : "maxent" or "maxnet", default None
        Knots, regularization tables and floors of that program. Both merge a presence with a
        background row of the same values, as those programs do with samples and background points;
        leave it out where every row is a cell of a grid.
    regularization : "practical" or callable, default None
        None for the `beta_j` of the preset; "practical" for `beta_j = sd_j / sqrt(m)`, the density
        paper's with ``multiplier`` as `beta_0`; or a function (kinds, mean, sd, m) -> beta of the
        letters, means and deviations of all features over the m presences.
    categorical : iterable of str or int, default ()
        Columns that are categories whatever their type; those of type category or string always
        are.
    tol : float, default 1e-7
        Duality gap at which to stop.
    missing : "error" or "drop", default "error"
        What to do with rows that have a missing value.
    prevalence : float, default 0.5
        `tau` of the logistic output.
    verbose : int, default 0
        1 shows a progress line.
    checkpoint : path, default None
        File that holds weights and history after each step, from which a fit goes on.

    Examples
    --------
    >>> task = Recipe(features="lq").task([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> task.fit().density.coef.keys()
    dict_keys(['x0'])
    """

    features: Any = "auto"
    potential: Any = "box"
    entropy: Any = "shannon"
    solver: Any = "auto"
    multiplier: float = 1.0
    preset: str | None = None
    regularization: Any = None
    categorical: Iterable[Any] = ()
    tol: float = 1e-7
    missing: str = "error"
    prevalence: float = 0.5
    verbose: int = 0
    checkpoint: str | None = field(default=None, metadata=io.LATER)

    def task(self, X: Any, y: Any, sample_weight: Any = None, prior: Any = None) -> DensityTask:
        """The density of cells X with y occurrences in each (0: background), to be fitted."""
        return self.task_of(self.points(Table.from_rows(X, y, sample_weight, prior, self.missing)))

    def task_in_blocks(
        self, table: BlockTable, without: dict[int, Array] | None = None
    ) -> DensityTask:
        """The density over a table in blocks with a column y, perhaps sample_weight and prior.

        ``without`` are rows to leave out, by the number of their block.
        """
        preset = self.chosen_preset()
        if preset.merge:
            raise ValueError(
                f"preset={self.preset!r} makes one point of equal rows, which are in several "
                "blocks here; use preset=None, or fit in memory"
            )
        law_of(self.chosen_entropy())  # refuses what cannot be fitted, before the rows are read

        rows = Reading(self.missing, without or {})
        return self.task_of(BlockPoints.from_table(table, self.classes, self.categorical, rows))

    def points(self, table: Table, schema: Schema | None = None) -> Points:
        """The points of checked rows; a ``schema`` given knows levels that these rows lack."""
        merge = self.chosen_preset().merge
        return Points.of_table(table, self.categorical, merge=merge, schema=schema)

    def task_of(self, points: Points | BlockPoints) -> DensityTask:
        """The density over given points, to be fitted."""
        entropy = self.chosen_entropy()
        operators = self.operators(points)
        required_power(entropy)  # refuses what could not be predicted, before the fit
        kind: Any = BlockDensityTask if isinstance(points, BlockPoints) else DensityTask
        task: DensityTask = kind(
            points,
            operators,
            points.features(operators),
            self.rule(),
            entropy,
            self.potential_of,
            positive("multiplier", self.multiplier),
            self.solver,
            self.tol,
            self.verbose,
            self.prevalence,
            self.notes(points),
            self.checkpoint,
        )
        if task.is_empty:
            raise ValueError(
                f"no feature of {self.features!r} varies over the {points.n_presences:g} "
                'presences: add linear features ("l")'
            )
        return task

    def offered(self, points: Points | SummarisedPoints) -> Offered:
        """What the features of a density over given points are chosen from."""
        return Offered.from_operators(self._fitted_classes(points), points.schema)

    # -- choices -------------------------------------------------------------------------------

    def chosen_preset(self) -> Preset:
        """The preset by its name."""
        if self.preset not in PRESETS:
            raise ValueError(f'preset must be None, "maxent" or "maxnet", got {self.preset!r}')
        return PRESETS[self.preset]

    def chosen_entropy(self) -> Entropy:
        """The entropy, by its name or itself."""
        return named_entropy(self.entropy)

    def rule(self) -> regularization.Rule:
        """(kinds, mean, sd, m) -> penalties `beta_j`, and which features are left out."""
        if self.regularization is None:
            return self.chosen_preset().rule
        if callable(self.regularization):
            return regularization.own(self.regularization)
        if self.regularization == "practical":
            return regularization.practical
        raise ValueError(
            'regularization must be None, "practical" or a function (kinds, mean, sd, m) -> beta, '
            f"got {self.regularization!r}"
        )

    def potential_of(self, beta: Array, kinds: Array) -> Potential:
        """V of features with these deviations; named ones leave kernels their own norm."""
        if isinstance(self.potential, Potential) or self.potential == "equality":
            return potentials.make_potential(self.potential, beta)
        kernel = kinds == "k"
        edges = [0, *(np.flatnonzero(np.diff(kernel)) + 1).tolist(), kernel.size]
        runs = [(slice(a, b), bool(kernel[a])) for a, b in pairwise(edges) if b > a]
        parts = [
            potentials.make_potential("quadratic" if own else self.potential, beta[run])
            for run, own in runs
        ]
        if len(parts) == 1:
            return parts[0]
        return potentials.Families(parts, [run.stop - run.start for run, _ in runs])

    # -- features ------------------------------------------------------------------------------

    def _letters(self, points: Points | SummarisedPoints) -> tuple[str | None, tuple[str, ...]]:
        """Letters of feature classes, None where classes are given; and what to tell the user."""
        letters = self.features
        if not isinstance(letters, str):
            return None, ()
        if letters == "auto":
            letters = auto_letters(points.n_presences)
        if not letters or set(letters) - set(ALL):
            raise ValueError(
                f'features must be "auto", letters from "{ALL}" or a list of feature classes, got '
                f"{self.features!r}"
            )
        unused = points.schema.categorical
        if not unused or "c" in letters:
            return letters, ()
        if self.preset is not None:  # both programs always use them
            return letters + "c", ()
        if "k" in letters:  # a kernel looks at all columns
            return letters, ()
        note = (
            f"categorical columns {', '.join(unused)} are not used; add c to features={letters!r}"
        )
        return letters, (note,)

    def operators(self, points: Points | SummarisedPoints) -> list[Operator]:
        """All features that the fit may use; an error where there is none."""
        operators = self._fitted_classes(points)
        if not operators:
            raise ValueError(
                f"no feature of {self.features!r} varies over the {points.n_cells} cells"
                + (f": {', '.join(points.constant)} are constant" if points.constant else "")
            )
        return operators

    def notes(self, points: Points | SummarisedPoints) -> tuple[str, ...]:
        """What a user should know of the columns: constant ones, categories not in use."""
        _, notes = self._letters(points)
        return (not_used(points.constant), *notes) if points.constant else notes

    def _fitted_classes(self, points: Points | SummarisedPoints) -> list[Operator]:
        return points.operators(self.classes(points))

    def classes(self, points: Points | SummarisedPoints) -> list[FeatureClass]:
        """The feature classes that will be fitted, from what is known of the records."""
        return self._classes(self._letters(points)[0], self.chosen_preset())

    def _classes(self, letters: str | None, preset: Preset) -> list[FeatureClass]:
        if letters is None:
            return _listed_classes(self.features)
        knots = preset.knots
        named = isinstance(self.potential, str) and potentials.BY_NAME.get(self.potential)
        if knots is None and named and named.dense:
            knots = _DENSE_KNOTS
        return [LETTERS[letter].make(knots, preset.occupied) for letter in dict.fromkeys(letters)]


def auto_letters(n_presences: float) -> str:
    """The classes of "auto", by the number of presences.

    >>> auto_letters(12), auto_letters(100)
    ('lqc', 'lqhpc')
    """
    m = n_presences
    return "l" + "q" * (m >= 10) + "h" * (m >= 15) + "p" * (m >= 80) + "c"


def named_entropy(entropy: Any) -> Entropy:
    """An entropy given as itself or as "shannon"."""
    if isinstance(entropy, Entropy):
        return entropy
    if entropy == "shannon":
        return Shannon()
    raise ValueError(f'entropy must be "shannon" or an Entropy, got {entropy!r}')


def _listed_classes(features: Any) -> list[FeatureClass]:
    """A list of feature classes."""
    listed = [features] if isinstance(features, FeatureClass) else list(features)
    wrong = [f for f in listed if not isinstance(f, FeatureClass)]
    if wrong or not listed:
        raise ValueError(
            "features must be letters or a list of feature classes such as Linear() and "
            f"Hinge(knots=20), got {features!r}"
        )
    return listed


def as_recipe(model: Any) -> Recipe:
    """The recipe itself, or that of an estimator such as MaxentDensity."""
    recipe = model.recipe() if hasattr(model, "recipe") else model
    if not isinstance(recipe, Recipe):
        raise TypeError(f"expected a Recipe or a MaxentDensity, got {model!r:.80}")
    return recipe
