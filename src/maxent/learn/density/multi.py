"""MultiDensity: the densities of many species at once, which borrow strength from each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_array, check_is_fitted

from maxent import io
from maxent.core.solvers.base import Status
from maxent.density import FittedDensity, JointDensity, JointRecipe, Recipe
from maxent.learn.delegated import Delegated
from maxent.learn.density.base import COLUMNS, TableEstimator
from maxent.rows.arrays import Array
from maxent.rows.blocks.lazy import lazy_rows
from maxent.rows.blocks.table import is_blocked
from maxent.typing import ArrayLike, TableLike


@io.register
class MultiDensity(TableEstimator):
    """The densities of all species of a group over its places, as one convex problem.

    `min_W sum_s n_s/n KL-loss_s(w_s) + strength/2n tr(W A^-1 W')` with the features of a kernel:
    Shannon's entropy over one simplex of places per species and the potential ``Coupled``. Species
    with few records follow those that respond alike, as A says; A is learned in a few rounds of
    reweighting, each a convex problem that is solved to a gap. ``JointRecipe`` has the formulas.

    Parameters
    ----------
    features : FeatureClass or list of FeatureClass, default None
        None for ``Kernel()``; with the columns x and y among the variables ``Kernel(spatial=0.3)``
        looks at space too.
    strength : float, default 1.0
        Factor of the penalty: 1 / strength multiplies the variances of the kernel.
    relation : "learned", "none", array or Spiked, default "learned"
        A: learned in rounds, the identity, or given, (n_species, n_species).
    mix : float, default 0.5
        Share of the correlations in A, in [0, 1).
    rounds : int, default 3
        How often A is taken from the weights.
    own : float, default 0.0
        Share of a species' own l1 density in the mean of logs, in [0, 1).
    own_recipe : Recipe, default None
        How that is fitted; None for ``Recipe()``.
    categorical : iterable of str or int, default ()
        Columns that are categories whatever their type.
    tol : float, default 1e-6
        Duality gap at which to stop, in nats per record.
    memory : int, default 512 MiB
        Bytes of distributions that are kept for Newton's method. Where those of all places take
        more, the rounds before the last see a sample of the places; the last sees all.
    missing : "error" or "drop", default "error"
        What to do with rows that have a missing value.
    prevalence : float, default 0.5
        `tau` of the logistic output.
    n_jobs : int, default None
        Threads of the species' own fits.
    verbose : int, default 0
        1 shows progress.

    Attributes
    ----------
    joint_ : JointDensity
        What was fitted, a value; ``joint_.density(name)`` is the FittedDensity of one species.
    species_ : tuple of str
        Names of the species.
    gap_ : float
        Duality gap of the joint problem for its A, in nats per record.
    optimality_ : float
        Violation of the optimality conditions.
    n_iter_ : int
        Iterations of the last round.
    status_ : Status
        Why the solver stopped.
    n_features_in_ : int
        Number of variables.
    feature_names_in_ : array of str
        Their names, where X has some.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> odds = np.exp(2 * X @ np.array([[1.0, 1.0, 0.0], [0.0, 0.2, 1.0]]))
    >>> chances = (odds / odds.sum(axis=0)).T
    >>> Y = np.column_stack(list(map(rng.multinomial, (200, 4, 90), chances)))
    >>> model = MultiDensity().fit(X, Y)
    >>> bool(model.gap_ < 1e-6), model.predict(X).shape, model.joint_.lenders("1", 1)[0][0]
    (True, (300, 3), '0')
    """

    joint_: JointDensity
    _fitted_fields: ClassVar[tuple[str, ...]] = (*COLUMNS, "joint_")

    def __init__(
        self,
        features: Any = None,
        *,
        strength: float = 1.0,
        relation: Any = "learned",
        mix: float = 0.5,
        rounds: int = 3,
        own: float = 0.0,
        own_recipe: Recipe | None = None,
        categorical: Iterable[Any] = (),
        tol: float = 1e-6,
        memory: int = 1 << 29,
        missing: str = "error",
        prevalence: float = 0.5,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.features = features
        self.strength = strength
        self.relation = relation
        self.mix = mix
        self.rounds = rounds
        self.own = own
        self.own_recipe = own_recipe
        self.categorical = categorical
        self.tol = tol
        self.memory = memory
        self.missing = missing
        self.prevalence = prevalence
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.target_tags.positive_only = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "joint_")

    def recipe(self) -> JointRecipe:
        """The parameters as a value that fits without scikit-learn."""
        return JointRecipe(**self.get_params(deep=False))

    def fit(self, X: TableLike, y: ArrayLike, species: Sequence[str] | None = None) -> MultiDensity:
        """Fit to places X with the counts y of every species in each, (places, species).

        ``species`` are their names; by default those of the columns of y, or their numbers.
        """
        X = self._checked(X, reset=True)
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: the "
                "records of each species, a column for each, in each row of X"
            )
        self.joint_ = self.recipe().fit(X, y, species)
        return self

    def predict(
        self,
        X: TableLike,
        output: str = "raw",
        *,
        species: Sequence[str | int] | None = None,
        clamp: bool = True,
    ) -> Array:
        """The densities at the rows of X, (rows, species); see ``MaxentDensity.predict``.

        ``species`` : some of them. A table in blocks gives a lazy array with the same chunks.
        """
        check_is_fitted(self)
        rows = partial(
            self.joint_.predict, output=output, species=species, clamp=clamp, missing=self.missing
        )
        if is_blocked(X):
            none = np.empty((0, len(self.species_ if species is None else species)))
            return lazy_rows(X, partial(self._prepared, rows, none))
        return rows(self._checked(X, reset=False))

    def score_samples(self, X: TableLike) -> Array:
        """Log density of each species at each row."""
        return self.predict(X, output="log")

    def score(self, X: TableLike, y: ArrayLike) -> float:
        """Mean log density of the records y, (rows, species), in the rows of X."""
        check_is_fitted(self)
        counts = check_array(y, accept_sparse="csr", dtype=np.float64, input_name="y")
        log = self.score_samples(X)
        if counts.shape != log.shape or not counts.sum() > 0:
            raise ValueError(
                f"y must hold counts of shape {log.shape}, one positive, got shape {counts.shape}"
            )
        at, column = counts.nonzero()
        number, log = np.asarray(counts[at, column]).ravel(), log[at, column]
        return float(number @ log / number.sum())

    def density(self, species: str | int) -> FittedDensity:
        """The density of one species, for everything that takes a single one."""
        check_is_fitted(self)
        return self.joint_.density(species)

    def summary(self) -> str:
        """The fit in a few lines."""
        check_is_fitted(self)
        return self.joint_.summary()

    species_ = Delegated[tuple[str, ...]]("joint_.species", "Names of the species.")
    gap_ = Delegated[float]("joint_.certificate.gap", "Duality gap, in nats per record.")
    optimality_ = Delegated[float](
        "joint_.certificate.optimality", "Violation of the optimality conditions."
    )
    n_iter_ = Delegated[int]("joint_.certificate.n_iter", "Iterations of the last round.")
    status_ = Delegated[Status | None]("joint_.certificate.status", "Why the solver stopped.")

    def __setmodel__(self, state: dict[str, Any]) -> None:
        super().__setmodel__(state)
        if hasattr(self, "joint_") and not isinstance(self.joint_, JointDensity):
            raise ValueError(f"joint_ is {self.joint_!r:.60}, expected a JointDensity")
