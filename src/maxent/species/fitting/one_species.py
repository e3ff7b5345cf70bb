"""One species fitted, judged and explained: no file is written here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import numpy as np

from maxent._support.threads import num_threads
from maxent._version import __version__
from maxent.density import FittedDensity, Recipe
from maxent.species import judging
from maxent.species.fitting.joint import Joint
from maxent.species.fitting.kinds import KindsFit, check_kinds, fit_kinds, refits
from maxent.species.fitting.kinds import with_intervals as intervals_of_kinds
from maxent.species.fitting.results import BlockSize, Replicates, Sample, SpeciesResult
from maxent.species.fitting.settings import Settings
from maxent.species.fitting.sharing import Shared, share
from maxent.species.input.layers.grid import Grid
from maxent.species.judging import bands
from maxent.species.judging.refits import sample_task
from maxent.species.judging.replicates import Refit, suitable_kind
from maxent.species.judging.spatial_folds import block_size
from maxent.species.study.samples import Prepared
from maxent.species.study.selection import selected

_OF_OWN = (
    "cross-validation and replicates refit the shared density; the jackknife and the responses to "
    "single variables are of the species' own model, and response curves have no bands"
)

_OF_JOINT = (
    "map, evaluation, cross-validation and replicates are of the joint density; the jackknife and "
    "the responses to single variables are of a model of the species' own records"
)

_OF_KINDS = (
    "map, evaluation, cross-validation and response curves are of the fit of all kinds of records; "
    "there is no jackknife"
)

_NO_BANDS = "response curves have no bands without --intervals"


def fit_species(
    prepared: Prepared,
    settings: Settings | None = None,
    *,
    categorical: tuple[str, ...] = (),
    labels: dict[str, str] | None = None,
    grid: Grid | None = None,
    command: str = "",
    lenders: Mapping[str, FittedDensity] | None = None,
    whole: Callable[[Recipe, Sample], tuple[FittedDensity, list[str]]] | None = None,
    joint: Joint | None = None,
    stage: Callable[[str], None] = lambda name: None,
) -> tuple[SpeciesResult, list[FittedDensity]]:
    """Fit one species and diagnose the fit; also returns the models of the replicates asked for.

    Parameters
    ----------
    prepared : Prepared
        The species, ready to be fitted.
    settings : Settings, default None
        What the fit is told; None is ``Settings()``.
    categorical : sequence of str, default ()
        Names of the variables that hold categories.
    labels : dict, default None
        File and band of each layer.
    grid : Grid, default None
        The grid of the layers.
    command : str, default ""
        The command that repeats the run, for the report.
    lenders : dict of FittedDensity, default None
        Densities of other species, for ``settings.share``.
    whole : callable, default None
        (recipe, sample) -> density over more cells than those of the sample, which is used for all
        else, and notes.
    joint : Joint, default None
        The species' part of a joint fit, for ``settings.joint``.
    stage : callable, default does nothing
        Called with the name of each step as it begins.
    """
    settings = settings or Settings()
    if settings.share and lenders is None:
        raise ValueError("share needs the densities of other species: give lenders=")
    if settings.joint and joint is None:
        raise ValueError("joint needs the species' part of a joint fit: give joint=")
    if prepared.kinds is not None:
        tested = prepared.test is not None or settings.test_share > 0
        check_kinds(settings, held_out=tested, presences=prepared.kinds.presences)
    clock = _Clock(stage)
    collinearity = judging.collinearity(prepared.train, categorical)
    if settings.select is not None:
        with clock("selection"):
            prepared = selected(prepared, settings, categorical)
    sample, test = prepared.train, prepared.test
    recipe = settings.recipe(tuple(c for c in categorical if c in sample.X.columns))
    several: KindsFit | None = None
    with clock("fit"):
        if prepared.kinds is not None:
            several = fit_kinds(recipe, sample, prepared.kinds)
            model, more = several.density, several.notes
        else:
            model, more = _fitted(recipe, prepared, whole, joint)
    notes = [
        *prepared.notes,
        *more,
        *([] if several is not None else _unused(model, recipe, sample)),
        *_remarks(model, sample, test),
    ]
    n_cells = _more_cells(model, sample)
    of_tables = joint is not None and joint.cell is None  # its splits are of all rows
    whole_sample = of_tables or several is not None
    small = sample if whole_sample else _thinned(sample, settings)
    size = _block_size(small, model, settings) if joint is None else joint.blocks
    if joint is None and size is not None:
        notes.append(f"cross-validation: {size.describe()}")
    sharing, refit = None, None
    if settings.share and lenders is not None:
        with clock("sharing"):
            model, sharing, refit = _shared(recipe, sample, small, model, lenders, settings, size)
        notes.append(f"{prepared.species}: {sharing.describe()}")
    if settings.intervals != "none" and model.weights.size:
        how: dict[str, Any] = {"seed": settings.seed, "verbose": settings.verbose}
        with clock("intervals"):
            if several is not None and prepared.kinds is not None:
                model, said = intervals_of_kinds(
                    several, sample, prepared.kinds, settings.intervals, **how
                )
            else:
                model, said = bands.with_intervals(recipe, sample, model, settings.intervals, **how)
        notes.append(said)
    with clock("evaluation"):
        evaluation = judging.evaluate(model, sample, test)
    if len(sample.counts) > settings.diagnostic_cells * 1.5:
        notes.append(
            f"cross-validation, jackknife and response bands use {len(small.counts)} of the "
            f"{len(sample.counts)} cells"
        )
    models: list[FittedDensity] = []
    if several is not None:
        with clock("cross-validation"):
            replicates = _refits_of_kinds(several, recipe, prepared, settings, size, notes)
        notes.append(_OF_KINDS)
        notes += [] if model.uncertainty is not None else [_NO_BANDS]
    elif joint is None:
        replicates, models = _replicated(recipe, small, settings, clock, notes, refit, size)
    else:
        with clock("cross-validation"):
            replicates, models = _refits_of(joint, recipe, small, settings, grid)
        notes.append(_OF_JOINT)
        notes += [] if model.uncertainty is not None else [_NO_BANDS]
    if refit is not None:
        notes.append(_OF_OWN)
    result = SpeciesResult(
        species=prepared.species,
        model=model,
        settings=_listed(settings, prepared),
        command=command,
        created=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=__version__,
        layers=labels or {name: name for name in sample.X.columns},
        categorical=model.schema.categorical,
        grid=grid,
        records=prepared.records,
        n_background=int(sample.at_background.sum()),
        cleaning=prepared.cleaning,
        notes=list(dict.fromkeys(notes)),
        evaluation=evaluation,
        replicates=replicates,
        **_by_variable(
            recipe,
            model,
            prepared,
            small,
            settings,
            clock,
            refit is None and joint is None,
            several is not None,
        ),
        maps=[],
        tables={},
        bound=str(model.bound()) if settings.entropy == "shannon" else "",
        seconds=clock.seconds,
        study=prepared.study,
        collinearity=collinearity,
        selection=prepared.selection,
        sharing=sharing,
        borrowing=None if joint is None else joint.borrowing,
        n_cells=n_cells,
        origins=prepared.origins,
        timing=prepared.timing,
        kinds=None if several is None else several.told,
    )
    return result, models


def _fitted(
    recipe: Recipe,
    prepared: Prepared,
    whole: Callable[[Recipe, Sample], tuple[FittedDensity, list[str]]] | None,
    joint: Joint | None,
) -> tuple[FittedDensity, list[str]]:
    """The density over the cells of the sample, or over more of them; notes."""
    if joint is not None:
        return joint.density, [
            *joint.notes,
            f"{prepared.species}: {joint.borrowing.describe()}",
        ]
    sample = prepared.train
    if whole is None:
        return judging.fit_sample(recipe, sample), []
    model, notes = whole(recipe, sample)
    n_cells = _more_cells(model, sample)
    if n_cells is None:
        return model, notes
    used = int(sample.at_background.sum())
    return model, [
        *notes,
        f"the density is over all {n_cells:,} cells; evaluation, thresholds,"
        " refits, response curves, importance and the similarity of projections "
        f"(MESS, ExDet) use {used:,} of them",
    ]


def _by_variable(
    recipe: Recipe,
    model: FittedDensity,
    prepared: Prepared,
    small: Sample,
    settings: Settings,
    clock: _Clock,
    banded: bool,
    several: bool = False,
) -> dict[str, Any]:
    """What each variable does: importance and jackknife where asked for, and response curves."""
    refits: dict[str, Any] = {"n_jobs": num_threads(), "verbose": settings.verbose}
    importance = jackknife = None
    if settings.permutations:
        with clock("importance"):
            importance = judging.importance(
                model, prepared.train, repeats=settings.permutations, seed=settings.seed
            )
    if settings.jackknife and not several:
        with clock("jackknife"):
            jackknife = judging.jackknife(recipe, small, prepared.test, **refits)
    with clock("response curves"):
        if several:
            curves = judging.marginal_responses(model, small)
            return {"importance": importance, "jackknife": None, "responses": curves}
        responses = judging.responses(
            recipe,
            model,
            small,
            bootstrap=settings.bootstrap if banded else 0,
            seed=settings.seed,
            **refits,
        )
    return {"importance": importance, "jackknife": jackknife, "responses": responses}


def _more_cells(model: FittedDensity, sample: Sample) -> int | None:
    """The points of a density, where there are more than the sample has."""
    return None if model.merged or model.n_points <= len(sample.counts) else round(model.n_points)


def _listed(settings: Settings, prepared: Prepared) -> dict[str, Any]:
    """The settings by name; those of sampling effort only where there is one."""
    listed = settings.listed()
    if settings.bias_kernel is None:
        del listed["bias_kernel"]
    if prepared.effort is None:
        del listed["bias"]
        return listed
    return listed | {"bias": f"{prepared.effort}, as {settings.bias}"}


def _shared(
    recipe: Recipe,
    sample: Sample,
    small: Sample,
    own: FittedDensity,
    lenders: Mapping[str, FittedDensity],
    settings: Settings,
    size: BlockSize | None,
) -> Shared:
    return share(
        recipe,
        sample,
        own,
        lenders,
        kind=_folds(sample, settings)[0],
        n=settings.folds,
        seed=settings.seed,
        judged_on=small,
        n_jobs=num_threads(),
        verbose=settings.verbose,
        blocks=size,
    )


def _block_size(sample: Sample, model: FittedDensity, settings: Settings) -> BlockSize | None:
    """The size of blocks, where one was asked for."""
    if settings.block_size is None:
        return None
    names = model.schema.continuous
    return block_size(sample, settings.block_size, names, lambda: model, settings.seed)


def _folds(sample: Sample, settings: Settings) -> tuple[str, str]:
    """The kind of cross-validation, and why it is not that of blocks where it was to be chosen."""
    return suitable_kind(sample, settings.folds) if settings.cv == "auto" else (settings.cv, "")


def _unused(model: FittedDensity, recipe: Recipe, sample: Sample) -> list[str]:
    """What to say of a model without any weight, and which multiplier would change that."""
    if model.weights.size:
        return []
    problem = sample_task(recipe, sample).problem
    most = recipe.multiplier * problem.potential.critical_multiplier(problem.origin().gradient)
    less = f", or lower the multiplier (-m) below {most:.2g}" if 0 < most < np.inf else ""
    return [
        f"no variable is used: {model.n_presences:g} records differ too little from the background "
        "for the penalty, so the gain is 0, the AUC 0.5 and every place equally suitable; add "
        f"records{less}"
    ]


def _remarks(model: FittedDensity, sample: Sample, test: Sample | None) -> list[str]:
    """What the reader of the report should know about the fit."""
    schema, remarks = model.schema, []
    spread = dict(zip(schema.continuous, model.high > model.low, strict=True))
    spread |= {n: len(s) > 1 for n, s in zip(schema.categorical, schema.levels, strict=True)}
    constant = [name for name in schema.names if not spread[name]]
    if constant:
        remarks.append(f"constant columns are not used: {', '.join(constant)}")
    told = model.certificate
    if told.status is not None and not told.status.reached:
        remarks.append(
            f"the fit did not converge ({told.status.value} after {told.n_iter} iterations): its "
            f"duality gap is {told.gap:.1e}"
        )
    tested = sample.X[:0] if test is None else test.X[test.counts > 0]
    for name, levels in zip(schema.categorical, schema.levels, strict=True):
        new = sorted(set(tested[name].tolist()).difference(levels))
        if new:
            remarks.append(
                f"{name}: levels {', '.join(map(repr, new[:10]))} of the test records were not "
                "there at the fit; they get no effect"
            )
    return remarks


def _replicated(
    recipe: Recipe,
    sample: Sample,
    settings: Settings,
    clock: _Clock,
    notes: list[str],
    refit: Refit | None,
    size: BlockSize | None,
) -> tuple[list[Replicates], list[FittedDensity]]:
    made: list[Replicates] = []
    kind, why = _folds(sample, settings)
    presences = int((sample.counts > 0).sum())
    how: dict[str, Any] = {
        "seed": settings.seed,
        "n_jobs": num_threads(),
        "verbose": settings.verbose,
        "refit": refit,
    }
    if kind != "none" and presences < settings.folds:
        notes.append(f"no cross-validation: {presences} records for {settings.folds} folds")
    elif kind != "none":
        if why:
            notes.append(f"cross-validation in random folds, not in spatial blocks: {why}")
        with clock("cross-validation"):
            folds: dict[str, Any] = {"kind": kind, "n": settings.folds, "blocks": size}
            made.append(judging.replicate(recipe, sample, **folds, **how)[0])
    models: list[FittedDensity] = []
    if settings.replicates:
        with clock("replicates"):
            repeated, models = judging.replicate(
                recipe,
                sample,
                kind=settings.replicate_split,
                n=settings.replicates,
                keep_models=True,
                **how,
            )
        made.append(repeated)
    return made, models


def _refits_of(
    joint: Joint, recipe: Recipe, sample: Sample, settings: Settings, grid: Grid | None
) -> tuple[list[Replicates], list[FittedDensity]]:
    """Scores of the joint refits; and the densities of the replicates asked for."""
    made: list[Replicates] = []
    models: list[FittedDensity] = []
    how: dict[str, Any] = {"n_jobs": num_threads(), "verbose": settings.verbose}
    if joint.folds:
        fitted = joint.splits(joint.folds, sample, grid)
        kind = joint.borrowing.kind
        made.append(
            judging.replicate(
                recipe, sample, kind=kind, n=len(fitted), blocks=joint.blocks, fitted=fitted, **how
            )[0]
        )
    if joint.replicates:
        fitted = joint.splits(joint.replicates, sample, grid)
        repeated, models = judging.replicate(
            recipe,
            sample,
            kind=settings.replicate_split,
            n=len(fitted),
            fitted=fitted,
            keep_models=True,
            **how,
        )
        made.append(repeated)
    return made, models


def _refits_of_kinds(
    fitted: KindsFit,
    recipe: Recipe,
    prepared: Prepared,
    settings: Settings,
    size: BlockSize | None,
    notes: list[str],
) -> list[Replicates]:
    """Scores of refits to all sources without the places of a fold."""
    sample, kinds = prepared.train, prepared.kinds
    assert kinds is not None
    kind, why = _folds(sample, settings)
    presences = int((sample.counts > 0).sum())
    if kind == "none":
        return []
    if presences < settings.folds:
        notes.append(f"no cross-validation: {presences} records for {settings.folds} folds")
        return []
    notes += [f"cross-validation in random folds, not in spatial blocks: {why}"] if why else []
    made = refits(recipe, sample, kinds, fitted, settings, kind, size)
    if made is None:
        notes.append("no cross-validation: no fold leaves records enough to fit to")
    return [] if made is None else [made]


def _thinned(sample: Sample, settings: Settings) -> Sample:
    """All presences and at most ``diagnostic_cells`` of the other cells."""
    others = np.flatnonzero(sample.counts == 0)
    if others.size <= settings.diagnostic_cells:
        return sample
    rng = np.random.default_rng(settings.seed)
    chosen = rng.choice(others, settings.diagnostic_cells, replace=False)
    return sample.take(np.sort(np.concatenate([np.flatnonzero(sample.counts > 0), chosen])))


class _Clock:
    """Seconds by stage; tells whoever listens which stage begins."""

    def __init__(self, stage: Callable[[str], None]) -> None:
        self.stage = stage
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        self.stage(name)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
