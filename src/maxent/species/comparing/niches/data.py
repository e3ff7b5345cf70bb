"""What two fits were made of, read again from their folders and layers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from maxent.density import Recipe
from maxent.rows.arrays import Array
from maxent.species.batch.outputs import RESULT
from maxent.species.fitting.model import load_model
from maxent.species.fitting.results import SpeciesResult, read_result
from maxent.species.fitting.settings import Settings
from maxent.species.input.files import LayerFiles
from maxent.species.input.layers.grid import OUTSIDE, Grid
from maxent.species.input.layers.similarity import Reference
from maxent.species.input.records.columns import listed
from maxent.species.study.background import Drawn, draw_background
from maxent.species.study.samples import GROUPED

LEAST_RECORDS = 5  # fewer make neither a model nor a density that could be tested
_MODEL = ("features", "potential", "entropy", "multiplier", "preset", "prevalence")
_CELLS = 10_000  # background of a fit to all cells


@dataclass(frozen=True, eq=False)
class Niche:
    """Records and background of one fit, on cells with their environment.

    Attributes
    ----------
    species : str
        Name of the species.
    recipe : Recipe
        How its model is fitted.
    clamp : bool
        Whether its map holds variables in their ranges.
    categorical : tuple of str
        Variables that hold categories.
    grid : Grid
        Grid of its layers.
    cell : array (n_rows,)
        Cells, increasing.
    X : table
        Their values, one column per variable of the model.
    counts : array (n_rows,)
        Training records in each.
    background : array (n_rows,)
        Which of them were drawn as background.
    """

    species: str
    recipe: Recipe
    clamp: bool
    categorical: tuple[str, ...]
    grid: Grid
    cell: Array
    X: Any
    counts: Array
    background: Array

    @property
    def n_records(self) -> int:
        """Training records."""
        return int(self.counts.sum())

    @property
    def record_rows(self) -> Array:
        """The row of each training record."""
        return np.repeat(np.arange(self.counts.size), self.counts.astype(np.int64))


def read_fits(one: Path, other: Path) -> tuple[Fit, Fit]:
    """The folders of two fits, once they are known to have the same variables.

    Parameters
    ----------
    one : path
        A folder of `maxent fit`.
    other : path
        Another.
    """
    first, second = Fit.read(one), Fit.read(other)
    _check_variables(first, second)
    return first, second


def read_niches(
    first: Fit, second: Fit, *, also: Array | None = None, verbose: int = 1
) -> tuple[Niche, Niche, list[str]]:
    """The data of two fits, and notes.

    Each background is drawn again as at the fit. Layers that both fits share are read once.

    Parameters
    ----------
    first : Fit
        A fit.
    second : Fit
        Another with the same variables.
    also : array, default None
        Further cells to read, of layers on one grid.
    verbose : int, default 1
        0 silences progress.
    """
    fits = (first, second)
    wanted = [fit.cells() for fit in fits]
    asked = [[cells] if also is None else [cells, also] for cells in wanted]
    if first.layers == second.layers:
        asked = [[*asked[0], wanted[1]]] * 2
    drawn = [first.draw(np.concatenate(asked[0]), verbose)]
    drawn.append(
        drawn[0] if first.draws_like(second) else second.draw(np.concatenate(asked[1]), verbose)
    )
    made = [fit.niche(part, cells) for fit, part, cells in zip(fits, drawn, wanted, strict=True)]
    notes = [note for fit in fits for note in fit.notes()]
    settings = [{name: fit.result.settings.get(name) for name in _MODEL} for fit in fits]
    differ = [name for name in _MODEL if settings[0][name] != settings[1][name]]
    if differ:
        notes.append(
            f"the two fits have different {listed(differ)}: each species keeps its own in refits"
        )
    places = [
        set(zip(*(fit.result.records[k].tolist() for k in "xy"), strict=True)) for fit in fits
    ]
    if places[0] == places[1]:
        notes.append("both results are of the same records, so that they are of the same niche")
    return made[0], made[1], list(dict.fromkeys(notes))


def _not_drawn(folder: Path, how: str, options: str) -> ValueError:
    """Why the null models of a fit cannot be had, and what to do instead."""
    return ValueError(
        f"{folder}: its background {how} ({options}), and null models need one that can be drawn "
        f"again. Fit both species to new folders without {options} and test those; for both, one "
        "study region (--region) and thinned records (--thin) make up for some of the uneven "
        "sampling. D and I of the maps as they are need no --test: maxent overlap with the same "
        "two folders"
    )


@dataclass(frozen=True, eq=False)
class Fit:
    """A folder of `maxent fit` whose layers can be read again.

    Attributes
    ----------
    folder : path
        The folder.
    result : SpeciesResult
        Its result.
    layers : LayerFiles
        How its layers were read.
    """

    folder: Path
    result: SpeciesResult
    layers: LayerFiles

    @classmethod
    def read(cls, folder: Path) -> Fit:
        """Refuse what is no folder of a fit to layers, or whose background is not known."""
        if not folder.is_dir():
            raise ValueError(
                f"{folder} is no folder: a test, and the environmental space, need the records and "
                "layers of two fits; give the folders that `maxent fit` wrote, one per species"
            )
        result = read_result(folder)
        if result.reading is None or result.grid is None:
            raise ValueError(
                f"{folder / RESULT} names no layers (it was fitted to tables with --swd, or by an "
                "earlier version); fit to layers again"
            )
        layers = replace(LayerFiles.stored(result.reading), categorical=result.categorical)
        for source in layers.sources:
            if not Path(source).exists():
                raise FileNotFoundError(
                    f"{source}: the layers that {folder} was fitted to are not there; put them "
                    "back, or run in the folder where it was fitted"
                )
        if "bias" in result.settings or result.settings.get("bias_kernel") is not None:
            raise _not_drawn(folder, "was drawn by sampling effort", "--bias or --bias-kernel")
        if any(GROUPED in note for note in result.notes if note.startswith("background: ")):
            what = "is the cells with records of a group"
            raise _not_drawn(folder, what, "--target-group or --background-records")
        return cls(folder, result, layers)

    @property
    def variables(self) -> tuple[str, ...]:
        """Those of the model."""
        return self.result.model.schema.names

    @property
    def n_background(self) -> int | None:
        """Background cells to draw, None for all."""
        asked: int | None = self.result.settings["background"]
        return _CELLS if self.result.n_cells is not None else asked

    def cells(self) -> Array:
        """The cell of each training record."""
        records, grid = self.result.records, self.result.grid
        assert grid is not None
        kept = ~np.asarray(records["test"], dtype=bool)
        cells = grid.cells_at(records["x"][kept], records["y"][kept])
        outside = int((cells == OUTSIDE).sum())
        if outside:
            raise ValueError(
                f"{self.folder}: {outside} of its {cells.size} records lie outside of its layers"
            )
        if cells.size < LEAST_RECORDS:
            raise ValueError(
                f"{self.result.species} has {cells.size} records to fit, in {self.folder}; a test "
                f"of its niche needs at least {LEAST_RECORDS}"
            )
        return cells

    def draws_like(self, other: Fit) -> bool:
        """Whether the background is that of another fit."""
        regions = [fit.result.study for fit in (self, other)]
        same = regions[0] is regions[1]
        if regions[0] is not None and regions[1] is not None:
            same = bool(regions[0].shape.equals(regions[1].shape))
        seeds = [fit.result.settings["seed"] for fit in (self, other)]
        return (
            same
            and self.layers == other.layers
            and self.n_background == other.n_background
            and seeds[0] == seeds[1]
        )

    def draw(self, at: Array, verbose: int) -> Drawn:
        """Read the layers once: the background of the fit, and these cells."""
        with self.layers.open() as opened:
            lacking = [name for name in self.variables if name not in opened.names]
            if lacking:
                raise ValueError(
                    f"{', '.join(self.layers.sources)}: no layer {listed(lacking)}, which "
                    f"{self.folder} was fitted to"
                )
            return draw_background(
                opened,
                self.n_background,
                at=at,
                within=self.result.study,
                seed=self.result.settings["seed"],
                verbose=verbose,
            )

    def niche(self, drawn: Drawn, cells: Array) -> Niche:
        """The cells of the fit, once they are known to be those."""
        result, X = self.result, drawn.X[list(self.variables)]
        place = np.minimum(np.searchsorted(drawn.cell, cells), drawn.cell.size - 1)
        lost = int((drawn.cell[place] != cells).sum())
        self._check_same(X, drawn.background, drawn.background | np.isin(drawn.cell, cells), lost)
        settings = Settings(
            **{name: result.settings[name] for name in _MODEL if name in result.settings}, verbose=0
        )
        categorical = tuple(name for name in result.categorical if name in self.variables)
        assert result.grid is not None
        return Niche(
            result.species,
            settings.recipe(categorical),
            bool(result.settings.get("clamp", True)),
            categorical,
            result.grid,
            drawn.cell,
            X,
            np.bincount(place, minlength=drawn.cell.size).astype(np.float64),
            drawn.background,
        )

    def _check_same(self, X: Any, background: Array, used: Array, lost: int) -> None:
        """Refuse a background that is not the one of the fit."""
        if lost:
            raise ValueError(
                f"{self.folder}: {lost} of its records lie on cells without data; its layers have "
                "changed since the fit, so fit again"
            )
        if self.result.n_cells is not None:  # the sample of its windows is drawn otherwise
            return
        then = load_model(self.folder).reference
        same = int(background.sum()) == self.result.n_background
        if then is not None:  # models of before were compared with their background alone
            same = same and any(
                _same_values(Reference.from_table(X[rows], self.result.categorical), then)
                for rows in (used, background)
            )
        if not same:
            raise ValueError(
                f"{self.folder}: drawing its background again gives other cells, so its layers "
                "have changed since the fit; fit again"
            )

    def notes(self) -> list[str]:
        """What a reader should know."""
        result, said = self.result, []
        if result.sharing is not None and result.sharing.chosen:
            said.append(
                f"{result.species} was lent strength by other species: refits are of its own "
                "records alone"
            )
        if result.n_cells is not None:
            said.append(
                f"{result.species} was fitted to all {result.n_cells:,} cells: refits and "
                f"densities use {_CELLS:,} of them"
            )
        return said


def _same_values(now: Reference, then: Reference) -> bool:
    return all(_alike(now.values[name], then.values[name]) for name in now.values)


def _alike(one: Array, other: Array) -> bool:
    """Whether values agree but for what another version of a library rounds otherwise."""
    return one.shape == other.shape and np.allclose(one, other, rtol=1e-5, atol=0)


def _check_variables(one: Fit, other: Fit) -> None:
    alone = [
        [name for name in a.variables if name not in b.variables]
        for a, b in ((one, other), (other, one))
    ]
    if not any(alone):
        return
    said = [
        f"{fit.folder} alone has {listed(names)}"
        for fit, names in zip((one, other), alone, strict=True)
        if names
    ]
    chosen = any(fit.result.selection is not None for fit in (one, other))
    raise ValueError(
        f"the two models were fitted to different variables: {'; '.join(said)}. Fit both to the "
        "same layers" + (", without --select" if chosen else "")
    )
