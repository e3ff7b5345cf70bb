"""One species fitted to several kinds of records, and refitted to parts of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from maxent._support.threads import num_threads, one_blas_thread
from maxent.density import FittedDensity, FittedIntensity, Recipe, Source, SourcesTask
from maxent.density.sources import Agreement, WeightChoice, compared, held_out_weights
from maxent.rows.arrays import Array
from maxent.species.fitting.record_kinds import KindsOfRecords, SourceFile, per
from maxent.species.fitting.results import BlockSize, Replicates, Sample
from maxent.species.fitting.settings import Settings
from maxent.species.input.source_settings import HELD_OUT, PRESENCES
from maxent.species.judging.bands import OF_LAPLACE, REFITS, of_refits, record_blocks
from maxent.species.judging.refits import REFIT_TOL
from maxent.species.judging.replicates import FittedSplit, Split, replicate, split_records
from maxent.species.study.kinds import Kinds

_APART = 30  # times as many: the units of areas are 100 or more apart
_LARGEST = 700.0  # whose exponential does not overflow


@dataclass(frozen=True, eq=False)
class KindsFit:
    """A density of several kinds of records, and what to say of it."""

    density: FittedDensity
    told: KindsOfRecords
    notes: list[str]
    choice: WeightChoice | None
    target: str
    task: SourcesTask


def check_kinds(settings: Settings, *, held_out: bool, presences: bool) -> None:
    """Refuse settings that say nothing of several kinds of records, or are not done with them."""
    for asked, flag, why in (
        (settings.joint, "--joint", "fits presences of many species"),
        (settings.replicates, "--replicates", "draws presences anew"),
        (settings.select == "forward", "--select forward", "adds variables by presences alone"),
        (settings.preset, "--preset", "makes one point of equal rows"),
        (settings.entropy != "shannon", "--entropy", "is of densities of presences"),
        (settings.block_size == "residuals", "--block-size residuals", "is of presences"),
        (held_out and not presences, "--test and --test-share", "hold out presences"),
    ):
        if asked:
            raise ValueError(f"{flag} {why}, and cannot be with surveys or counts; leave it out")


def fit_kinds(recipe: Recipe, sample: Sample, kinds: Kinds) -> KindsFit:
    """The one intensity of all sources; whether they agree, and what each says alone."""
    unit, _, notes = kinds.scale()
    with warnings.catch_warnings(record=True) as caught, one_blas_thread():
        warnings.simplefilter("always", UserWarning)
        whole = task = SourcesTask.of(kinds.sources(sample.X, sample.counts), recipe)
        choice, target = None, ""
        agreement, fit, apart = _compared(task)
        alone = {name: one.density for name, one in apart.items()}
        if kinds.settings.weigh == HELD_OUT and len(task.sources) > 1:
            target = _target(task.sources)
            choice = held_out_weights(task, target)
            whole = SourcesTask.of(choice.of(task.sources, target), recipe)
            fit = whole.fit()
    notes += [str(warning.message) for warning in caught]
    notes += _scales_apart(task, apart, sample.X, unit)
    if kinds.settings.weigh == HELD_OUT and choice is None:
        notes.append(
            f"--weigh-sources held-out has no effect: {task.sources[0].name} alone tells something"
        )
    told = KindsOfRecords(
        tuple(_files(kinds, sample, task.sources)),
        fit.sources,
        fit.log_scale,
        unit,
        _area(kinds, unit, fit.log_scale, notes),
        kinds.settings.weigh,
        _chosen(choice, target),
        agreement,
        alone,
        {name: _level(d, sample.X) for name, d in (("", fit.density), *alone.items())},
    )
    notes += [told.scale_in_words()]
    notes += [told.agreement_in_words()] if agreement is not None else []
    notes += [told.weights_in_words()] if choice is not None else []
    return KindsFit(fit.density, told, notes, choice, target, whole)


def with_intervals(
    fitted: KindsFit, sample: Sample, kinds: Kinds, method: str, *, seed: int = 0, verbose: int = 0
) -> tuple[FittedDensity, str]:
    """The density with what its intervals, and those of the intensity, are made of; in words.

    Blocks are of places: the visits in one are drawn together with its presences.
    """
    task = fitted.task
    told = fitted.told.intensity(fitted.density)
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore", UserWarning)  # told of the fit
        w = task.solve(verbose=0).w
        if method == "laplace":
            return task.with_laplace(told, w).density, OF_LAPLACE
        block, said = record_blocks(sample, len(sample.counts))
        blocks = None
        if block is not None:
            sites = zip(kinds.sites, _nearest(sample, kinds), strict=True)
            by_name = {PRESENCES: block, **{site.name: block[near] for site, near in sites}}
            blocks = [by_name[source.name] for source in task.sources]
        known = task.with_refits(
            told, w, n=REFITS, blocks=blocks, seed=seed, n_jobs=num_threads(), verbose=verbose
        )
    return known.density, of_refits(said)


def _compared(
    task: SourcesTask,
) -> tuple[Agreement | None, FittedIntensity, dict[str, FittedIntensity]]:
    """Whether sources agree, where there are several; the fit of all, and that of each."""
    if len(task.sources) < 2:
        return None, task.fit(), {}
    agreement, fit, alone = compared(task)
    pairs = zip(task.sources, alone, strict=True)
    return agreement, fit, {source.name: one for source, one in pairs if one is not None}


def _scales_apart(
    task: SourcesTask, alone: Mapping[str, FittedIntensity], X: Any, unit: str
) -> list[str]:
    """What to say of sources whose numbers per unit are so far apart that a unit may be wrong."""
    means = {}
    for source in task.sources:
        own = alone.get(source.name)
        if source.knows_scale and own is not None and own.log_scale is not None:
            means[source.name] = own.log_scale + _level(own.density, X)
    if len(means) < 2:
        return []
    few, many = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
    times = float(np.exp(min(means[many] - means[few], _LARGEST)))
    if times < _APART:
        return []
    return [
        f"by itself {many} tells of {float(f'{times:.2g}'):,.0f} times as many per {per(unit)} as "
        f"{few}: check the units of both, and whether they count the same thing"
    ]


def refits(
    recipe: Recipe,
    sample: Sample,
    kinds: Kinds,
    fitted: KindsFit,
    settings: Settings,
    kind: str,
    size: BlockSize | None,
) -> Replicates | None:
    """The cross-validation of the whole fit: visits at the places left out are hidden too."""
    names = fitted.density.schema.continuous
    splits = split_records(
        sample, kind, settings.folds, seed=settings.seed, blocks=size, variables=names
    )
    coarse = replace(recipe, tol=max(recipe.tol, REFIT_TOL), verbose=0)
    near = _nearest(sample, kinds)
    made = []
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore", UserWarning)  # told of the whole fit
        for split in splits:
            try:
                density = _refit(coarse, sample, kinds, fitted, split, near)
            except ValueError:  # nothing is left to fit to, which the scores say
                density = None
            made.append(FittedSplit(split, density))
    made = [part for part in made if part.density is not None]
    if not made:
        return None
    scored, _ = replicate(
        recipe,
        sample,
        kind=kind,
        n=len(made),
        seed=settings.seed,
        blocks=size,
        fitted=made,
        n_jobs=num_threads(),
        verbose=settings.verbose,
    )
    return scored


def _refit(
    recipe: Recipe,
    sample: Sample,
    kinds: Kinds,
    fitted: KindsFit,
    split: Split,
    near: list[Array],
) -> FittedDensity:
    """The density of the training part of a split."""
    used = {fit.name: fit for fit in fitted.told.fits}
    rows = np.flatnonzero(split.domain)
    parts = []
    for source in kinds.sources(sample.X, split.train):
        if source.name == PRESENCES:
            parts.append(source.take(rows))
            continue
        place = [site.name for site in kinds.sites].index(source.name)
        kept = np.flatnonzero(split.domain[near[place]])
        if kept.size:
            parts.append(source.take(kept))
    parts = [replace(p, weight=used[p.name].weight) for p in parts if p.name in used]
    if fitted.choice is not None:
        parts = [
            part if part.name == fitted.target else replace(part, deviation=fitted.choice.deviation)
            for part in parts
        ]
    return SourcesTask.of(parts, recipe).fit().density


def _nearest(sample: Sample, kinds: Kinds) -> list[Array]:
    """Of each visit the row of the sample that is nearest, whose fold is its own."""
    if not kinds.presences:
        ends = np.cumsum([0, *(len(site.records) for site in kinds.sites)])
        return [np.arange(a, b) for a, b in pairwise(ends.tolist())]
    from scipy.spatial import KDTree

    assert sample.coordinates is not None
    tree = KDTree(sample.coordinates)
    places = [site.records.places for site in kinds.sites]
    return [tree.query(np.column_stack([p.x, p.y]))[1] for p in places]


def _target(sources: Sequence[Source]) -> str:
    """The survey or counts with most records, of which rows can be held out."""
    able = [s for s in sources if s.kind != PRESENCES and s.one_sided is None]
    if not able:
        raise ValueError(
            "weigh held-out (--weigh-sources held-out) needs a survey or counts with visits that "
            "found the species and visits that did not; weigh by likelihood"
        )
    return max(able, key=lambda source: source.n_records).name


def _chosen(choice: WeightChoice | None, target: str) -> dict[str, Any]:
    if choice is None:
        return {}
    by_weight = {f"{weight:g}": value for (weight, _), value in choice.deviances.items()}
    return {"target": target, "weight": choice.weight, "deviances": by_weight}


def _files(kinds: Kinds, sample: Sample, used: Sequence[Source]) -> list[SourceFile]:
    """Every source, and why the fit does without it."""
    files = []
    if kinds.presences:
        nothing = float("nan")
        files.append(
            SourceFile(
                *(PRESENCES, PRESENCES, "", nothing, nothing, nothing),
                len(sample.counts),
                float(sample.counts.sum()),
            )
        )
    files += [site.file() for site in kinds.sites]
    names = {source.name for source in used}
    why = "found nothing, or the species at every visit, and has no scale in common with others"
    return [file if file.name in names else replace(file, left_out=why) for file in files]


def _area(kinds: Kinds, unit: str, log_scale: float | None, notes: list[str]) -> float | None:
    asked = kinds.settings.area
    if log_scale is not None:
        return kinds.typical(unit) if asked is None else asked
    if asked is not None:
        notes.append(
            f"--area {asked:g} has no effect: no source tells the scale, so that there are no "
            "probabilities"
        )
    return None


def _level(density: FittedDensity, X: Any) -> float:
    """Log of the mean of exp(score) over the rows of a sample."""
    theta = density.scores(X)
    top = float(theta.max())
    return top + float(np.log(np.exp(theta - top).mean()))
