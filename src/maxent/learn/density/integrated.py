"""IntegratedDensity: one intensity from presences, surveys with absences and counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from maxent import io
from maxent._support.threads import one_blas_thread
from maxent.density import FittedDensity, FittedIntensity, Recipe, Source, SourcesTask
from maxent.density.sources import Agreement, SourceFit, agreement, held_out_weights
from maxent.density.sources.blocked import BlockSourcesTask
from maxent.learn.delegated import Delegated
from maxent.learn.saving import SavesFields
from maxent.rows.arrays import Array
from maxent.rows.blocks.lazy import lazy_rows
from maxent.rows.blocks.table import is_blocked
from maxent.typing import ArrayLike, PotentialLike, SolverLike, TableLike

WEIGHTS = ("likelihood", "held-out")


@io.register
class IntegratedDensity(SavesFields, BaseEstimator):
    """An intensity `lambda(x) = exp(b + <w, f(x)>)` fitted to several kinds of records at once.

    `min sum_k (v_k / m) loss_k + V*(-w)`: the loss of presences is that of ``MaxentDensity``, that
    of a survey is cloglog, `P(found) = 1 - exp(-a lambda)`, that of counts Poisson or negative
    binomial of mean `a lambda`; m counts the records of all. One convex problem with one duality
    gap. The scale b is known where a survey or counts tell it.

    Parameters
    ----------
    features : str or list of FeatureClass, default "auto"
        As of ``MaxentDensity``, fitted to the rows of all sources.
    potential : str or Potential, default "box"
        As of ``MaxentDensity``; named ones are scaled by what the rows with records say.
    solver : str or Solver, default "auto"
        How to solve the problem; see ``Problem.solve``. "auto" chooses by the problem.
    multiplier : float, default 1.0
        c in `V_c(r) = c V(r / c)`.
    regularization : "practical" or callable, default None
        As of ``MaxentDensity``.
    categorical : iterable of str or int, default ()
        Columns that are categories whatever their type.
    weights : "likelihood" or "held-out", default "likelihood"
        What sources count: their likelihood, times ``Source.weight``; or all but the survey or
        counts with most records as much as predicts held-out rows of that one best, 0 included.
    tol : float, default 1e-7
        Duality gap at which to stop.
    missing : "error" or "drop", default "error"
        What to do with rows that have a missing value.
    prevalence : float, default 0.5
        `tau` of the logistic output.
    verbose : int, default 0
        1 shows a progress line.
    intervals : "none", "laplace" or "bootstrap", default "none"
        What ``intensity_.intervals`` is to be made of: the curvature of the problem in the features
        in use, or 100 refits to records and rows drawn with replacement.

    Attributes
    ----------
    intensity_ : FittedIntensity
        The fitted intensity, a value that can be kept, saved and passed on without this class.
    density_ : FittedDensity
        Its shape, as a density.
    sources_ : tuple of SourceFit
        Records, weight, deviance and effort of each source.
    is_absolute_ : bool
        Whether the scale is known: of presences alone it is not.
    log_scale_ : float or None
        b.
    coef_ : dict
        Weight of every feature in use, by its name.
    gap_ : float
        Duality gap.
    n_features_in_ : int
        Number of columns of the sources.

    Examples
    --------
    >>> import numpy as np
    >>> from maxent import Source
    >>> X = np.linspace(0, 1, 60)[:, None]
    >>> records = Source("presences", X, np.arange(60) > 45)
    >>> survey = Source("survey", X, (np.arange(60) > 30) & (np.arange(60) % 3 > 0), area=2.0)
    >>> model = IntegratedDensity("lq").fit([records, survey])
    >>> bool(model.gap_ < 1e-6), model.is_absolute_
    (True, True)
    >>> model.predict([[0.9]], "probability", area=2.0).shape
    (1,)
    """

    _fitted_fields: ClassVar[tuple[str, ...]] = ("n_features_in_", "intensity_")
    n_features_in_: int
    intensity_: FittedIntensity

    def __init__(
        self,
        features: Any = "auto",
        potential: PotentialLike = "box",
        *,
        solver: SolverLike = "auto",
        multiplier: float = 1.0,
        regularization: Any = None,
        categorical: Iterable[Any] = (),
        weights: str = "likelihood",
        tol: float = 1e-7,
        missing: str = "error",
        prevalence: float = 0.5,
        verbose: int = 0,
        intervals: str = "none",
    ) -> None:
        self.features = features
        self.potential = potential
        self.solver = solver
        self.multiplier = multiplier
        self.regularization = regularization
        self.categorical = categorical
        self.weights = weights
        self.tol = tol
        self.missing = missing
        self.prevalence = prevalence
        self.verbose = verbose
        self.intervals = intervals

    def recipe(self) -> Recipe:
        """The parameters that pose the problem, as a value."""
        settings = self.get_params(deep=False)
        del settings["weights"], settings["intervals"]
        return Recipe(**settings)

    def task(self, sources: Sequence[Source]) -> SourcesTask | BlockSourcesTask:
        """What ``fit`` solves, with the weights of the sources as they were given."""
        given = [sources] if isinstance(sources, Source) else sources
        in_blocks = any(isinstance(source, Source) and source.in_blocks for source in given)
        kind = BlockSourcesTask if in_blocks else SourcesTask
        return kind.of(sources, self.recipe())

    def fit(self, sources: Sequence[Source], y: None = None) -> IntegratedDensity:
        """Fit to the records of several sources, or of one.

        Sources in blocks (of dask, an xarray Dataset, ``maxent.rows.blocks.open_table``) are read
        where they are, with the coefficients and the certificate of a fit in memory, and may stand
        beside sources in memory.
        """
        if self.weights not in WEIGHTS:
            raise ValueError(f"weights must be one of {', '.join(WEIGHTS)}, got {self.weights!r}")
        with one_blas_thread():
            task = self.task(sources)
            if self.weights == "held-out" and len(task.sources) > 1:
                if isinstance(task, BlockSourcesTask):
                    raise ValueError(
                        'weights="held-out" are of tables in memory: choose them on a sample of '
                        "the rows, and give each Source its weight"
                    )
                able = [source for source in task.sources if source.kind != "presences"]
                if not able:
                    raise ValueError(
                        'weights="held-out" needs a survey or counts, whose rows can be held out; '
                        "presences alone count by their likelihood"
                    )
                target = max(able, key=lambda source: source.n_records).name
                choice = held_out_weights(task, target)
                task = SourcesTask.of(choice.of(task.sources, target), self.recipe())
            intensity = task.fit(self.intervals)
        self.n_features_in_ = len(intensity.density.schema.names)
        self.intensity_ = intensity
        return self

    def predict(
        self,
        X: TableLike,
        output: str = "intensity",
        *,
        area: ArrayLike = 1.0,
        clamp: bool = True,
    ) -> Array:
        """Intensity, probability of presence or expected count; see ``FittedIntensity.predict``.

        A table in blocks gives a lazy array with the same chunks; there ``area`` is one number.
        """
        check_is_fitted(self)
        rows = partial(
            self.intensity_.predict, output=output, area=area, clamp=clamp, missing=self.missing
        )
        if not is_blocked(X):
            return rows(X)
        if np.ndim(area):
            raise ValueError(
                f"area must be one number for a table in blocks, got shape {np.shape(area)}: ask "
                'for output="intensity", and multiply'
            )

        def prepared(head: Any) -> tuple[Any, Array]:
            self.intensity_.density.schema.read(head)  # what is wrong shows at once
            return rows, rows(head)

        return lazy_rows(X, prepared)

    def agreement(self, sources: Sequence[Source]) -> Agreement:
        """Whether the sources tell the same story; see ``maxent.density.sources.agreement``."""
        return agreement(sources, self.recipe())

    def summary(self) -> str:
        """The sources, the scale and the certificate in a few lines."""
        check_is_fitted(self)
        return self.intensity_.summary()

    density_ = Delegated[FittedDensity]("intensity_.density", "The shape, as a density.")
    sources_ = Delegated[tuple[SourceFit, ...]](
        "intensity_.sources", "What there is to say of each."
    )
    is_absolute_ = Delegated[bool]("intensity_.is_absolute", "Whether the scale is known.")
    log_scale_ = Delegated[float | None]("intensity_.log_scale", "b, where it is known.")
    coef_ = Delegated[dict[str, float]](
        "intensity_.density.coef", "Weight of every feature in use, by its name."
    )
    gap_ = Delegated[float]("intensity_.density.certificate.gap", "Duality gap.")
