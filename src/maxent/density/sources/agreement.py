"""Whether sources agree: the deviance of one intensity for all against one for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special

from maxent import io
from maxent.density.recipe import Recipe
from maxent.density.sources.intensity import FittedIntensity
from maxent.density.sources.source import Source
from maxent.density.sources.task import SourcesTask


@io.register
@dataclass(frozen=True)
class Agreement:
    """The likelihood ratio of separate fits to the joint one.

    Under penalties `statistic` is only roughly chi-squared, with effective degrees of freedom; the
    p-value is a guide to look at the maps, not a verdict.

    Attributes
    ----------
    names : tuple of str
        The sources.
    joint : tuple of float
        The deviance of each source under the joint fit.
    separate : tuple of float
        That under its own.
    statistic : float
        Sum of joint less separate.
    degrees : float
        Effective degrees of freedom of the separate fits less those of the joint one; NaN where
        they are not known.
    p_value : float
        `P(chi2_degrees >= statistic)`.
    """

    names: tuple[str, ...]
    joint: tuple[float, ...]
    separate: tuple[float, ...]
    statistic: float
    degrees: float
    p_value: float

    def __str__(self) -> str:
        rows = zip(self.names, self.joint, self.separate, strict=True)
        lines = [f"{name}: deviance {a:.4g} together, {b:.4g} alone" for name, a, b in rows]
        return "\n".join([
            *lines,
            f"difference {self.statistic:.4g} on {self.degrees:.3g} effective degrees of freedom, "
            f"p {self.p_value:.2g}",
        ])  # fmt: skip


def agreement(sources: Sequence[Source], recipe: Recipe | None = None) -> Agreement:
    """Compare one fit of all sources with a fit of each, on the features of all of them.

    Parameters
    ----------
    sources : sequence of Source
        Two or more.
    recipe : Recipe, default None
        Features, potential and solver.

    Examples
    --------
    >>> X = np.linspace(0, 1, 60)[:, None]
    >>> same, opposite = np.arange(60) // 10, np.arange(60)[::-1] // 10
    >>> def story(other):
    ...     pair = Source("counts", X, same, name="a"), Source("counts", X, other, name="b")
    ...     return agreement(pair, Recipe("l")).p_value
    >>> bool(story(same) > 0.5), bool(story(opposite) < 1e-6)
    (True, True)
    """
    return compared(SourcesTask.of(sources, recipe)).agreement


class Compared(NamedTuple):
    """The agreement of sources, the fit of all, and the fit of each of them alone.

    None of a source that found nothing, or the species everywhere, which has no fit alone.
    """

    agreement: Agreement
    together: FittedIntensity
    alone: tuple[FittedIntensity | None, ...]


def compared(task: SourcesTask) -> Compared:
    """One fit of all sources of a task, and a fit of each.

    The weights of the sources are those of the task.
    """
    if len(task.sources) < 2:
        raise ValueError("agreement needs at least two sources that tell something")
    together = task.solve()
    w = together.w
    joint, degrees = task.deviances(w), -task.degrees_of_freedom(w)
    separate: list[float] = []
    fits: list[FittedIntensity | None] = []
    for k, source in enumerate(task.sources):
        if source.one_sided is not None:  # its own best scale is 0 or infinite, and fits perfectly
            separate.append(0.0)
            degrees += 1
            fits.append(None)
            continue
        kept = [np.ones(s.n_rows, bool) if i == k else None for i, s in enumerate(task.sources)]
        alone = task.among(kept)
        solution = alone.solve()
        separate.append(alone.deviances(solution.w)[0])
        degrees += alone.degrees_of_freedom(solution.w)
        fits.append(alone.intensity(solution))
    statistic = float(sum(joint) - sum(separate))
    p_value = float(special.chdtrc(degrees, max(statistic, 0.0))) if degrees > 0 else float("nan")
    told = Agreement(
        tuple(source.name for source in task.sources),
        tuple(joint),
        tuple(separate),
        statistic,
        float(degrees),
        p_value,
    )
    return Compared(told, task.intensity(together), tuple(fits))
