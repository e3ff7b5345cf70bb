"""Species fitted together: one problem over the places of a group, and what each gains by it.

The places are the cells with a record of any species of the group, so that records of other
species tell where people looked; and the species share the features of a kernel, with weights that
follow those of species which respond alike (``maxent.density.joint_recipe`` has the problem). The
density of a species is the mean of logs of the joint one, with three quarters, and of its own.

Cross-validation hides some of the places from all species at once, so that no neighbour tells of
what is hidden: a joint fit for each fold, and the species' own fits to the same records beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxent._support.threads import num_threads, one_blas_thread
from maxent.density import FittedDensity, JointDensity, JointRecipe, Points
from maxent.density.joint_recipe import Sightings
from maxent.features import Kernel
from maxent.rows.arrays import Array
from maxent.species.fitting.results import BlockSize, Borrowing, Sample
from maxent.species.fitting.settings import Settings
from maxent.species.input.layers.grid import Grid
from maxent.species.input.layers.places import PLACE, looks_at_places
from maxent.species.judging.refits import REFIT_TOL
from maxent.species.judging.replicates import (
    FittedSplit,
    Split,
    held_out,
    split_records,
    suitable_kind,
)
from maxent.species.judging.spatial_folds import block_size
from maxent.species.study.samples import Region

OWN = 0.25  # share of the species' own density in the mean of logs
SPATIAL = 0.3  # variance of the kernel of coordinates, where it is asked for
_FINEST = 1e-9  # duality gap per record that sums in float32 still reach
_ALIKE = 10  # species that a report names as most like one
_COLUMNS = 256  # species whose log densities at all places are there at once


@dataclass(frozen=True, eq=False)
class SpeciesGroup:
    """The species that are fitted together: their places, and who was recorded at which.

    Attributes
    ----------
    name : str
        Name of the group, "" for all species of a run.
    species : tuple of str
        Their names.
    sample : Sample
        The places, with the records of all species in ``counts``.
    counts : sparse array (n_places, n_species)
        The records of each.
    cell : array (n_places,) or None
        Index of each place in the grid, ascending; None of tables with data, of whose species each
        has all places as its sample.
    categorical : tuple of str
        Variables that hold categories.
    """

    name: str
    species: tuple[str, ...]
    sample: Sample
    counts: Any
    cell: Array | None
    categorical: tuple[str, ...]

    @classmethod
    def from_region(cls, name: str, region: Region, samples: Mapping[str, Sample]) -> SpeciesGroup:
        """The species with the samples of one region; ``samples`` are those to be fitted."""
        every = sparse.lil_array((region.cell.size, len(samples)))
        for s, sample in enumerate(samples.values()):
            found = np.flatnonzero(sample.counts)
            assert sample.coordinates is not None
            at = region.rows(region.grid.cells_at(*sample.coordinates[found].T))
            every[at, [s]] = sample.counts[found]
        counts = every.tocsr()
        total = np.asarray(counts.sum(axis=1)).ravel()
        rows = np.flatnonzero(region.background | (total > 0))
        places = Sample(
            region.X.iloc[rows].reset_index(drop=True),
            total[rows],
            np.column_stack(region.grid.centres(region.cell[rows])),
            None,
            region.background[rows],
            region.grid.crs,
        )
        return cls(
            name,
            tuple(samples),
            places,
            counts[rows].tocsc(),
            region.cell[rows],
            region.categorical,
        )

    @classmethod
    def from_tables(
        cls, name: str, samples: Mapping[str, Sample], categorical: tuple[str, ...]
    ) -> SpeciesGroup:
        """The species of tables with data, with counts of the same rows."""
        counts = np.column_stack([sample.counts for sample in samples.values()])
        places = replace(next(iter(samples.values())), counts=counts.sum(axis=1))
        kept = tuple(c for c in categorical if c in places.X.columns)
        counts = sparse.csc_array(counts.astype(np.float64))
        return cls(name, tuple(samples), places, counts, None, kept)


class _Fold(NamedTuple):
    """Records of every species to train on and to test with, and the places of the fit."""

    train: Any
    test: Any
    domain: Array


@dataclass(frozen=True, eq=False)
class Joint:
    """What a species has of the joint fit: its density, what to say of it, and the refits.

    Each refit has the records of the species at the places to train on and to test with, the
    places of the fit, and the density (None without training records).

    Attributes
    ----------
    density : FittedDensity
        Its density.
    borrowing : Borrowing
        What the report says.
    cell : array (n_places,) or None
        Index of each place of the group in the grid, ascending; None where every species has them
        all.
    blocks : BlockSize or None
        The size of the blocks of the cross-validation, None for equal numbers of records.
    folds : tuple of FittedSplit
        The refits of the cross-validation.
    replicates : tuple of FittedSplit
        Further refits that were asked for.
    notes : tuple of str
        What was assumed.
    """

    density: FittedDensity
    borrowing: Borrowing
    cell: Array | None
    blocks: BlockSize | None
    folds: tuple[FittedSplit, ...]
    replicates: tuple[FittedSplit, ...]
    notes: tuple[str, ...] = ()

    def splits(self, refits: Sequence[FittedSplit], sample: Sample, grid: Grid | None) -> list[Any]:
        """The refits on the rows of a sample, whose cells are among the places."""
        if self.cell is None or grid is None:
            return list(refits)
        assert sample.coordinates is not None
        at = np.searchsorted(self.cell, grid.cells_at(*sample.coordinates.T))
        return [
            FittedSplit(Split(split.train[at], split.test[at], split.domain[at]), density)
            for split, density in refits
        ]


def fit_group(
    group: SpeciesGroup, settings: Settings, stage: Callable[[str], None] = lambda name: None
) -> tuple[JointDensity, dict[str, Joint]]:
    """Fit the species of a group together; and what each of them has of it.

    Parameters
    ----------
    group : SpeciesGroup
        Places and records.
    settings : Settings
        What the fit is told.
    stage : callable, default does nothing
        Called with the name of each step as it begins.
    """
    recipe = joint_recipe(settings, group.categorical)
    stage(f"joint fit of {len(group.species)} species")
    recipe.check()
    data = recipe.read(group.sample.X, group.counts, group.species)
    # what the gap of all promises of the species with the fewest records
    rarest = float(data.n_presences.min() / data.n_presences.sum())
    recipe = replace(recipe, tol=float(np.clip(recipe.tol * rarest, _FINEST, recipe.tol)))
    with one_blas_thread():
        whole = recipe.pose(data).fit()
    kind, notes, size = _cross_validation(group, settings)
    folds: list[_Fold] = []
    if kind != "none":
        folds = list(_folds(group, kind, settings.folds, settings.seed, size))
    repeated: list[_Fold] = []
    if settings.replicates:
        how = settings.replicate_split
        repeated = list(_folds(group, how, settings.replicates, settings.seed))
    scores = _Scores(group, kind)
    made: list[list[tuple[_Fold, JointDensity]]] = [[], []]
    for what, parts, kept in (("fold", folds, made[0]), ("replicate", repeated, made[1])):
        for number, fold in enumerate(parts):
            stage(f"joint {what} {number + 1} of {len(parts)}")
            kept.append((fold, _refit(recipe, data, fold)))
            if what == "fold":
                scores.add(*kept[-1])
    found = {}
    for s, name in enumerate(group.species):
        splits, again = (
            tuple(FittedSplit(_of_one(fold, s), _density(joint, name)) for fold, joint in kept)
            for kept in made
        )
        told = scores.told(whole, s)
        found[name] = Joint(whole.density(name), told, group.cell, size, splits, again, notes)
    return whole, found


def joint_recipe(settings: Settings, categorical: tuple[str, ...]) -> JointRecipe:
    """How a group is fitted; features, penalty and multiplier are of the species' own part."""
    space: dict[str, Any] = {"spatial": SPATIAL, "coordinates": PLACE} if settings.spatial else {}
    return JointRecipe(
        Kernel(seed=settings.seed, **space),
        own=OWN,
        own_recipe=settings.recipe(categorical),
        categorical=categorical,
        prevalence=settings.prevalence,
        n_jobs=num_threads(),
        verbose=settings.verbose,
    )


def _cross_validation(
    group: SpeciesGroup, settings: Settings
) -> tuple[str, tuple[str, ...], BlockSize | None]:
    """The kind of cross-validation, what to say of it, and the size of blocks where asked for."""
    kind, why = settings.cv, ""
    if kind == "auto":
        kind, why = suitable_kind(group.sample, settings.folds)
    if int((group.sample.counts > 0).sum()) < settings.folds:
        return "none", (f"no cross-validation: {settings.folds} folds need as many places",), None
    said = (f"cross-validation in random folds, not in spatial blocks: {why}",) if why else ()
    if settings.block_size is None:
        return kind, said, None
    names = [name for name in group.sample.X.columns if name not in group.categorical]
    size = block_size(group.sample, settings.block_size, names, None, settings.seed)
    return kind, (*said, f"cross-validation: {size.describe()}"), size


def _folds(
    group: SpeciesGroup, kind: str, n: int, seed: int, size: BlockSize | None = None
) -> Iterator[_Fold]:
    """Splits of the places, the same for all species; bootstrap draws the records of each."""
    counts = sparse.csr_array(group.counts)
    if kind == "bootstrap":
        rng = np.random.default_rng(seed)
        for _ in range(n):
            drawn = counts.tocsc(copy=True)
            for first, last in zip(drawn.indptr[:-1], drawn.indptr[1:], strict=True):
                mine = drawn.data[first:last]
                if mine.size:
                    mine[:] = rng.multinomial(round(mine.sum()), mine / mine.sum())
            drawn.eliminate_zeros()
            left = counts - counts.multiply(drawn > 0)
            seen = np.asarray(drawn.sum(axis=1)).ravel() > 0
            yield _Fold(drawn, left.tocsc(), group.sample.at_background | seen)
        return
    names = [name for name in group.sample.X.columns if name not in group.categorical]
    for split in split_records(group.sample, kind, n, seed=seed, blocks=size, variables=names):
        train, test = (
            (sparse.diags_array((part > 0).astype(float)) @ counts).tocsc()
            for part in (split.train, split.test)
        )
        yield _Fold(train, test, split.domain)


def _refit(recipe: JointRecipe, data: Sightings, fold: _Fold) -> JointDensity:
    """The joint fit of the training part, of the species that have records in it.

    It knows the levels of categories at all places, also those that are hidden from it.
    """
    rows = np.flatnonzero(fold.domain)
    kept = np.flatnonzero(np.asarray(fold.train.sum(axis=0)).ravel())
    counts = fold.train[rows][:, kept]
    total, ones = np.asarray(counts.sum(axis=1)).ravel(), np.ones(rows.size)
    known = data.points
    points = Points(known.schema, known.cells.take(rows), total, ones, ones)
    part = Sightings(points, counts, tuple(data.species[s] for s in kept))
    own = recipe.own_recipe
    assert own is not None
    own = replace(own, tol=max(own.tol, REFIT_TOL), verbose=0)
    coarse = replace(recipe, tol=max(recipe.tol, REFIT_TOL), own_recipe=own, verbose=0)
    with one_blas_thread():
        return coarse.pose(part).fit()


def _of_one(fold: _Fold, s: int) -> Split:
    train, test = (np.asarray(part[:, [s]].todense()).ravel() for part in (fold.train, fold.test))
    return Split(train, test, fold.domain)


def _density(joint: JointDensity, name: str) -> FittedDensity | None:
    return joint.density(name) if name in joint.species else None


class _Scores:
    """Held-out scores of every species, alone and joint, summed over folds."""

    def __init__(self, group: SpeciesGroup, kind: str) -> None:
        self.group, self.kind = group, kind
        self.size = np.zeros(len(group.species))
        self.folds = np.zeros(len(group.species), dtype=int)
        self.sums = {way: np.zeros((len(group.species), 2)) for way in ("own", "joint")}

    def add(self, fold: _Fold, joint: JointDensity) -> None:
        """Those of the species with records on both sides and a density of their own."""
        tested = np.asarray(fold.test.sum(axis=0)).ravel()
        X = self.group.sample.X
        scored = [
            (s, k)
            for k, name in enumerate(joint.species)
            if tested[s := self.group.species.index(name)] and joint.own[k] is not None
        ]
        for start in range(0, len(scored), _COLUMNS):
            part = scored[start : start + _COLUMNS]
            logs = joint.predict(X, "log", species=[k for _, k in part])
            for column, (s, k) in enumerate(part):
                own = joint.own[k]
                assert own is not None
                split = _of_one(fold, s)
                for way, log in (("own", own.predict(X, "log")), ("joint", logs[:, column])):
                    found = held_out(log, self.group.sample, split)
                    self.sums[way][s] += tested[s] * np.array([found["gain"], found["auc"]])
                self.size[s] += tested[s]
                self.folds[s] += 1

    def told(self, whole: JointDensity, s: int) -> Borrowing:
        """What the report says of a species."""
        ways: list[dict[str, float]] = [
            dict(zip(("gain", "auc"), (sums[s] / self.size[s]).tolist(), strict=True))
            if self.size[s]
            else {}
            for sums in self.sums.values()
        ]
        own, joint = ways
        group, count = self.group, len(self.group.species)
        reasons = []
        if count == 1:
            reasons.append(
                "it is the only species of its group, so there was nobody to borrow from"
            )
        if not own and self.kind != "none":
            reasons.append(
                "its records cannot be held out and compared: no fold has some of them on both "
                "sides that say anything by themselves"
            )
        return Borrowing(
            group=group.name,
            n_species=count,
            n_records=round(float(whole.n_presences.sum())),
            n_places=round(whole.n_points),
            n_features=len(whole.weights),
            rounds=whole.rounds if count > 1 else 0,
            own_share=whole.own_share if whole.own and whole.own[s] is not None else 0.0,
            gap=float(whole.certificate.gap),
            converged=whole.certificate.status is not None and whole.certificate.status.reached,
            alike=dict(whole.lenders(s, _ALIKE)) if count > 1 else {},
            kind=self.kind,
            folds=int(self.folds[s]),
            own=own,
            joint=joint,
            reason="; ".join(reasons),
            spatial=looks_at_places(group.sample.X.columns),
        )
