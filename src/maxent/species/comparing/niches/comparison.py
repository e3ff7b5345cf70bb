"""compare_niches: two fits, on the map or in the space of the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.comparing.folders import OUTPUT, map_of
from maxent.species.comparing.niches.data import Fit, read_fits, read_niches
from maxent.species.comparing.niches.environment import EnvironmentSpace
from maxent.species.comparing.niches.geography import geographic_tests, judged_cells
from maxent.species.comparing.niches.null_tests import NullTest, check_null
from maxent.species.comparing.overlap import Overlap, niche_overlap
from maxent.species.report.tables.text import plain_json

GEOGRAPHY, ENVIRONMENT = "geography", "environment"
SPACES = (GEOGRAPHY, ENVIRONMENT)
_JUDGED = 10_000  # cells of the maps that null models are compared over at most
_DIGITS = 6  # of densities in JSON


@dataclass(frozen=True, eq=False)
class NicheComparison:
    """What :func:`compare_niches` found.

    Attributes
    ----------
    species : tuple of str
        The two species.
    space : "geography" or "environment"
        Where their niches were compared.
    n_records : tuple of int
        Training records of each.
    n_background : tuple of int
        Background cells of each.
    variables : tuple of str
        Variables of both models.
    d : float
        Schoener's D that a test is of: of models fitted again, over the cells judged, or of the
        occupancies in the space of the environment.
    i : float
        Warren's I of the same.
    output : str
        Which output of the models was compared; "" in the space of the environment.
    tests : tuple of NullTest
        For each statistic, and each direction of a background test; none if not asked for.
    maps : Overlap or None
        Of the two maps, over all cells that both know; None in the space of the environment.
    n_judged : int
        Cells that null models were compared over; 0 in the space of the environment.
    environment : EnvironmentSpace or None
        The two niches there.
    notes : tuple of str
        What was assumed.
    """

    species: tuple[str, str]
    space: str
    n_records: tuple[int, int]
    n_background: tuple[int, int]
    variables: tuple[str, ...]
    d: float
    i: float
    output: str
    tests: tuple[NullTest, ...]
    maps: Overlap | None
    n_judged: int
    environment: EnvironmentSpace | None
    notes: tuple[str, ...]

    def rows(self) -> list[dict[str, Any]]:
        """One line per statistic and direction, or one with D and I where nothing was tested."""
        pair = {"species_one": self.species[0], "species_two": self.species[1]}
        pair |= {"space": self.space}
        if not self.tests:
            return [pair | {"schoener_d": self.d, "warren_i": self.i}]
        return [pair | test.row() for test in self.tests]

    def null_rows(self) -> list[dict[str, Any]]:
        """One line per null model and direction: its D and I."""
        rows = []
        for d, i in zip(self.tests[::2], self.tests[1::2], strict=True):
            for k, (a, b) in enumerate(zip(d.null.tolist(), i.null.tolist(), strict=True)):
                rows.append(
                    {
                        "test": d.test,
                        "direction": d.direction,
                        "null_model": k + 1,
                        d.statistic: a,
                        i.statistic: b,
                    }
                )
        return rows

    def facts(self) -> dict[str, Any]:
        """Everything as plain numbers, texts, lists and dicts, for JSON; None for NaN."""
        names = ("species", "space", "n_records", "n_background", "variables", "output")
        said: dict[str, Any] = {name: getattr(self, name) for name in (*names, "n_judged", "notes")}
        said |= {"schoener_d": self.d, "warren_i": self.i, "maps": self.maps}
        said["tests"] = [
            test.row() | {"level": test.level, "sentence": test.describe(), "null": test.null}
            for test in self.tests
        ]
        space = self.environment
        said["environment"] = None if space is None else _environment_facts(space)
        return dict(plain_json(said))


def compare_niches(
    one: str | os.PathLike[str],
    other: str | os.PathLike[str],
    *,
    test: str | None = None,
    space: str = GEOGRAPHY,
    n_null: int = 100,
    level: float = 0.05,
    output: str = OUTPUT,
    seed: int = 0,
    n_jobs: int | None = None,
    verbose: int = 1,
) -> NicheComparison:
    """Overlap of the niches of two fits, on the map or in the space of the environment.

    On the map the overlap is that of the two maps of suitability, and a test fits models again, to
    records that were shuffled or drawn (Warren, Glor and Turelli 2008). For those, both are
    compared over at most 10,000 of the cells that both maps know. In the space of the environment
    niches are densities of records, divided by that of the environment, on the first two principal
    components (Broennimann et al. 2012); no model takes part.

    Identity asks whether the two are one niche: records of both are pooled and dealt out again, and
    p is the share of null models that overlap as little as the two. Background asks whether the two
    are more or less alike than one of them and a species that ignores the environment of its own
    region, in both directions; its p is two-sided.

    Parameters
    ----------
    one : path
        A folder of `maxent fit`.
    other : path
        Another, fitted to the same variables; on the map also to the same grid.
    test : "identity" or "background", default None
        Which test. None for the overlap alone.
    space : "geography" or "environment", default "geography"
        Where niches are compared.
    n_null : int, default 100
        Null models, for each direction of a background test.
    level : float, default 0.05
        Where p is called small; refused where no p could be.
    output : str, default "cloglog"
        Output of the models that is compared on the map.
    seed : int, default 0
        Seed of everything random.
    n_jobs : int, default None
        Threads.
    verbose : int, default 1
        0 silences progress.

    Examples
    --------
    >>> import tempfile
    >>> from maxent.datasets import virtual_landscape, write_landscape
    >>> from maxent.species import RecordFile, LayerFiles, Settings, fit_files
    >>> place = write_landscape(virtual_landscape(20, 25, n_occurrences=40), tempfile.mkdtemp())
    >>> layers = LayerFiles((str(place["layers"]),), categorical=("biome",))
    >>> quick = Settings(features="lq", cv="none", jackknife=False, permutations=0, bootstrap=0)
    >>> out = place["layers"].parent / "out"
    >>> done = fit_files(RecordFile(str(place["occurrences"])), layers, out, quick, maps=False)
    >>> found = compare_niches(out, out, test="identity", space="environment", verbose=0)
    >>> round(found.d, 6), found.tests[0].p_value
    (1.0, 1.0)
    """
    if space not in SPACES:
        raise ValueError(f"space must be one of {', '.join(SPACES)}, got {space!r}")
    if test is not None:
        check_null(test, n_null, level)
    nulls: dict[str, Any] = {"n_null": n_null, "level": level, "seed": seed}
    nulls |= {"n_jobs": n_jobs, "verbose": verbose}
    if space == GEOGRAPHY and test is None:
        raise ValueError(
            'overlap on the map without a test is what niche_overlap computes: give test="identity"'
            ' or test="background", or space="environment"'
        )
    fits = read_fits(Path(one), Path(other))
    if test is None or space == ENVIRONMENT:
        return _in_environment(fits, test, nulls)
    return _on_the_map(fits, test, output, nulls)


def _on_the_map(
    fits: tuple[Fit, Fit], test: str, output: str, nulls: dict[str, Any]
) -> NicheComparison:
    maps = map_of(fits[0].folder), map_of(fits[1].folder)
    of_maps = niche_overlap(*maps)
    judged = judged_cells(*maps, _JUDGED, nulls["seed"], nulls["verbose"])
    first, second, notes = read_niches(*fits, also=judged.cell, verbose=nulls["verbose"])
    tests = geographic_tests(first, second, judged.cell, test, output=output, **nulls)
    if judged.cell.size < judged.n_known:
        notes.append(
            f"null models are compared over {judged.cell.size:,} of the {judged.n_known:,} cells "
            "that both maps know, drawn at random"
        )
    return NicheComparison(
        (first.species, second.species),
        GEOGRAPHY,
        (first.n_records, second.n_records),
        (int(first.background.sum()), int(second.background.sum())),
        tuple(first.X.columns),
        tests[0].observed,
        tests[1].observed,
        output,
        tests,
        of_maps,
        int(judged.cell.size),
        None,
        tuple(notes),
    )


def _in_environment(
    fits: tuple[Fit, Fit], test: str | None, nulls: dict[str, Any]
) -> NicheComparison:
    first, second, notes = read_niches(*fits, verbose=nulls["verbose"])
    space = EnvironmentSpace.from_niches(first, second)
    names = (first.species, second.species)
    tests = () if test is None else space.tests(names, test, **nulls)
    return NicheComparison(
        names,
        ENVIRONMENT,
        (first.n_records, second.n_records),
        (int(first.background.sum()), int(second.background.sum())),
        space.axes.variables,
        space.d,
        space.i,
        "",
        tests,
        None,
        0,
        space,
        (*notes, *space.notes),
    )


def _environment_facts(space: EnvironmentSpace) -> dict[str, Any]:
    axes = space.axes
    return {
        "variables": axes.variables,
        "loadings": axes.loadings,
        "explained": axes.explained,
        "low": axes.low,
        "high": axes.high,
        "niches": [
            {
                "occupancy": _rounded(niche.occupancy / niche.occupancy.max()),
                "available": _rounded(niche.available / niche.available.max()),
                "half_of_available": niche.level(0.5) / float(niche.available.max()),
                "records": _rounded(scores),
            }
            for niche, scores in zip(space.niches, space.records, strict=True)
        ],
    }


def _rounded(values: Array) -> Array:
    return np.round(values, _DIGITS)
