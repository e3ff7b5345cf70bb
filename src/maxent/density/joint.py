"""JointDensity: the densities of all species of a group, fitted as one problem, as a value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from maxent import io
from maxent.core.entropies import Shannon
from maxent.core.potentials import Spiked
from maxent.density.evidence import Evidence, RecordWeights
from maxent.density.explanation import MeanPlace
from maxent.density.link import DensityLink
from maxent.density.model import Certificate, FittedDensity
from maxent.density.origin import Offered
from maxent.density.points import check_missing
from maxent.features import Cells, Operator, Schema, bind
from maxent.features.cells import is_frame, missing_rows, take_rows
from maxent.rows.arrays import Array

_ENTRIES = 1 << 22  # scores that are there at once


@io.register
@dataclass(frozen=True, eq=False)
class JointDensity:
    """One density for each species of a group, which share features and borrow from each other.

    `log p_s(x) = (1 - own_share) <w_s, phi(x)> + own_share theta_s(x) - log Z_s`, theta_s the
    exponent of a density of the species' own records alone, where there is one. Each density sums
    to 1 over the places of the fit. ``density(species)`` gives any of them as a FittedDensity.

    Attributes
    ----------
    schema : Schema
        Columns, which are categorical, and their levels.
    species : tuple of str
        Names of the species, in the order of the columns.
    operators : tuple of Operator
        The features, the same for all.
    weights : array (n_features, n_species)
        W.
    relation : Spiked
        A of the penalty `strength/2 tr(W A^-1 W')`.
    strength : float
        Its factor, in units of all records: 1 for the kernel's own norm.
    rounds : int
        How often A was taken anew from the weights.
    own_share : float
        Share of the species' own density in the mean of logs.
    own : tuple of FittedDensity or None
        The species' own densities; empty where ``own_share`` is 0.
    shift : array (n_species,)
        The largest score of each density over the places.
    log_total : array (n_species,)
        Normalisation of each, relative to that.
    raw_entropy : array (n_species,)
        Entropy of each.
    cumulative : array (n_species, 2, n)
        Raw values and the mass of the places at or below each.
    n_presences : array (n_species,)
        Number of records of each.
    gains : array (n_species,)
        Mean log density of the records of each, against an even one.
    penalties : array (n_species,)
        Its part of the penalty, per record of its own.
    low : array (n_continuous,)
        Lowest value of each continuous variable at the fit, to which it is clamped.
    high : array (n_continuous,)
        Highest value, likewise.
    mean_place : MeanPlace
        What explanations are relative to.
    n_points : float
        Number of places.
    certificate : Certificate
        That of the joint problem for its A: the gap, in nats per record of the group.
    prevalence : float
        `tau` of the logistic output.

    Examples
    --------
    >>> from maxent import JointRecipe
    >>> X = np.linspace(-1, 1, 60)[:, None]
    >>> Y = np.column_stack([X[:, 0] > 0.3, X[:, 0] > 0.5, X[:, 0] < -0.5]).astype(int)
    >>> joint = JointRecipe().fit(X, Y, species=["a", "b", "c"])
    >>> bool(joint.certificate.gap < 1e-6), joint.predict(X).shape
    (True, (60, 3))
    >>> bool(np.allclose(joint.density("a").predict(X), joint.predict(X)[:, 0]))
    True
    """

    schema: Schema
    species: tuple[str, ...]
    operators: tuple[Operator, ...]
    weights: Array
    relation: Spiked
    strength: float
    rounds: int
    own_share: float
    own: tuple[FittedDensity | None, ...]
    shift: Array
    log_total: Array
    raw_entropy: Array
    cumulative: Array
    n_presences: Array
    gains: Array
    penalties: Array
    low: Array
    high: Array
    mean_place: MeanPlace
    n_points: float
    certificate: Certificate
    prevalence: float = field(default=0.5)

    def __post_init__(self) -> None:
        features, count = sum(o.n_features for o in self.operators), len(self.species)
        variables = (len(self.schema.continuous),)
        expected = {
            "weights": (features, count),
            **dict.fromkeys(
                ("shift", "log_total", "raw_entropy", "n_presences", "gains", "penalties"), (count,)
            ),
            "cumulative": (count, 2, np.shape(self.cumulative)[-1]),
            "low": variables,
            "high": variables,
        }
        for name, shape in expected.items():
            given = getattr(self, name)
            if np.shape(given) != shape or given.dtype.kind != "f":
                raise ValueError(
                    f"{name} must hold floats of shape {shape}, got {given.dtype} of shape "
                    f"{np.shape(given)}"
                )
        if len(set(self.species)) < count:
            raise ValueError("the names of the species must differ")
        if self.relation.size != count:
            raise ValueError(f"relation is of {self.relation.size} species, there are {count}")
        if len(self.own) != (count if self.own_share else 0):
            raise ValueError(f"own has {len(self.own)} densities for {count} species")
        for operator in self.operators:
            if not operator.matches(self.schema):
                raise ValueError(f"the {type(operator).__name__} is for other columns")

    # -- the densities -------------------------------------------------------------------------

    def index(self, species: str | int) -> int:
        """The column of a species, by its name or number."""
        if isinstance(species, str):
            if species not in self._columns:
                raise ValueError(
                    f"no species {species!r} among {len(self.species)}: "
                    f"{', '.join(self.species[:10])} ..."
                )
            return self._columns[species]
        if not 0 <= int(species) < len(self.species):
            raise ValueError(f"species {species!r} is not in 0 ... {len(self.species) - 1}")
        return int(species)

    @cached_property
    def _columns(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.species)}

    def density(self, species: str | int) -> FittedDensity:
        """The density of one species, for everything that takes a single one.

        Its certificate holds what the joint gap says of it: `KL(p*_s || p_s) <= gap n / n_s`.
        ``beta`` is the deviation of its prior given the weights of the others; of a mean with the
        species' own density, those of both parts, for weights times their share.
        """
        s = self.index(species)
        own = self.own[s] if self.own else None
        joint, mine = self._parts(s)
        operators, weights, beta = list(self.operators), joint * self.weights[:, s], self._beta(s)
        if own is not None:
            operators += own.operators
            weights = np.append(weights, mine * own.weights)
            # what the penalty of each part says of its weights times its share in the mean
            beta = np.append(beta / joint, own.beta / mine)
        number = float(self.n_presences[s])
        others = Offered.from_operators(self.operators, self.schema)
        if own is not None:  # its features were chosen by the records: all it could have are paid
            others = others.together(Offered.at_most(self.schema))
        return FittedDensity(
            schema=self.schema,
            operators=tuple(operators),
            weights=weights,
            beta=beta,
            low=self.low,
            high=self.high,
            entropy=Shannon(),
            link=DensityLink(0.0, float(self.shift[s])),
            log_total=float(self.log_total[s]),
            raw_entropy=float(self.raw_entropy[s]),
            cumulative=self.cumulative[s],
            mean_place=self.mean_place,
            n_points=self.n_points,
            n_presences=number,
            n_features=len(weights),
            biased=False,
            merged=False,
            origin=others,
            certificate=self._certificate(s, own),
            prevalence=self.prevalence,
            evidence=RecordWeights.alike(number).evidence() if number else Evidence(0, 0.0, 0.0),
        )

    def __iter__(self) -> Iterator[FittedDensity]:
        return (self.density(s) for s in range(len(self.species)))

    def __len__(self) -> int:
        return len(self.species)

    def _parts(self, s: int) -> tuple[float, float]:
        """The shares of the joint exponent and of its own."""
        alone = not self.own or self.own[s] is None
        return (1.0, 0.0) if alone else (1 - self.own_share, self.own_share)

    def _beta(self, s: int) -> Array:
        """The root of the penalty's strength per record, given the other species."""
        of_one = self.strength * self.relation.diagonal(-1.0)[s]
        return np.full(len(self.weights), np.sqrt(of_one / max(float(self.n_presences[s]), 1.0)))

    def _certificate(self, s: int, own: FittedDensity | None) -> Certificate:
        told, number = self.certificate, float(self.n_presences[s])
        gap = told.gap * float(self.n_presences.sum()) / number if number else np.inf
        gain = float(self.gains[s])
        mine = Certificate(
            status=told.status,
            gap=gap,
            optimality=told.optimality,
            gain=gain - float(self.penalties[s]),
            unregularized_gain=gain,
            n_iter=told.n_iter,
            guarantees={"kl": gap, "l1": float(np.sqrt(2 * gap))},
            history=[],
        )
        return mine if own is None else Certificate.of_parts([mine, own.certificate], gain)

    # -- prediction ----------------------------------------------------------------------------

    def predict(
        self,
        X: Any,
        output: str = "raw",
        *,
        species: Sequence[str | int] | None = None,
        clamp: bool = True,
        missing: str = "error",
    ) -> Array:
        """The densities at the rows of X, (rows, species); see ``FittedDensity.predict``.

        ``species`` : some of them, by name or number; all by default.
        """
        chosen = self._chosen(species)
        heads = [self.density(s) for s in chosen]
        check_missing(missing)
        X = X if is_frame(X) else np.asarray(X)
        count = int(np.shape(X)[0])
        out = np.empty((count, len(chosen)))
        step = max(_ENTRIES // max(len(chosen), len(self.weights)), 1)
        for start in range(0, count, step):
            rows = slice(start, start + step)
            part = take_rows(X, rows)
            theta = self.scores(
                self.schema.read(part, missing=missing == "drop"), chosen, clamp=clamp
            )
            for column, head in enumerate(heads):
                out[rows, column] = head.output(theta[:, column], output)
            if missing == "drop":
                out[rows][missing_rows(part)] = np.nan
        return out

    def scores(
        self, cells: Cells, species: Sequence[int] | None = None, *, clamp: bool = True
    ) -> Array:
        """The exponents at cells that were read by ``schema``, (cells, species)."""
        chosen = list(range(len(self.species))) if species is None else list(species)
        held = self.clamped(cells) if clamp else cells
        parts = [self._parts(s) for s in chosen]
        scale = np.array([joint for joint, _ in parts])
        theta = np.asarray(design(self.operators, held) @ (self.weights[:, chosen] * scale))
        for column, (s, (_, mine)) in enumerate(zip(chosen, parts, strict=True)):
            if mine:
                density = self.own[s]
                assert density is not None
                theta[:, column] += mine * density.scorer.scores(cells, clamp)
        return theta

    def clamped(self, cells: Cells) -> Cells:
        """The cells with every variable held in its range at the fit."""
        low, high = (x.astype(cells.values.dtype)[:, None] for x in (self.low, self.high))
        return Cells(np.clip(cells.values, low, high), cells.codes)

    def _chosen(self, species: Sequence[str | int] | None) -> list[int]:
        if species is None:
            return list(range(len(self.species)))
        return [self.index(s) for s in ([species] if isinstance(species, str | int) else species)]

    # -- what it says of the species -----------------------------------------------------------

    def correlations(self, species: Sequence[str | int] | None = None) -> Array:
        """How alike the weights of species are: `<w_r, w_s> / ||w_r|| ||w_s||`.

        1 for the same response to everything, 0 for nothing in common, 0 where there is no response
        at all.
        """
        return cosines(self.weights[:, self._chosen(species)])

    def lenders(self, species: str | int, n: int = 5) -> list[tuple[str, float]]:
        """The species whose weights are most like those of one, with their correlations."""
        s = self.index(species)
        size = np.sqrt((self.weights**2).sum(axis=0))
        like = (self.weights.T @ self.weights[:, s]) / np.maximum(size * size[s], 1e-300)
        like[s] = -np.inf
        order = np.argsort(-like, kind="stable")[: min(n, len(like) - 1)]
        return [(self.species[r], float(like[r])) for r in order]

    def linkage(self, species: Sequence[str | int] | None = None, method: str = "average") -> Array:
        """The tree of the species, for ``scipy.cluster.hierarchy.dendrogram``: distance 1 - r."""
        from scipy.cluster import hierarchy
        from scipy.spatial.distance import squareform

        apart = np.maximum(1 - self.correlations(species), 0.0)
        if len(apart) < 2:
            raise ValueError("a tree needs two species at least")
        np.fill_diagonal(apart, 0.0)
        return np.asarray(hierarchy.linkage(squareform((apart + apart.T) / 2), method))

    def summary(self) -> str:
        """The fit in a few lines."""
        n, told = self.n_presences, self.certificate
        lines = [
            f"{len(self.species)} species, {n.sum():g} records, {n.min():g} to {n.max():g} each, "
            f"{self.n_points:g} places, {len(self.weights)} features",
            f"{told.describe()} per record, for the relation of the last of {self.rounds} rounds",
        ]
        if self.own_share:
            lines.append(f"{self.own_share:.0%} of every log density is of the species' own fit")
        return "\n".join(lines)


def cosines(W: Array) -> Array:
    """The cosines of the angles between the columns of W, 1 on the diagonal."""
    size = np.sqrt((W * W).sum(axis=0))
    unit = W / np.maximum(size, 1e-300)
    made = unit.T @ unit
    np.fill_diagonal(made, 1.0)
    return np.clip(made, -1.0, 1.0)


def design(operators: Sequence[Operator], cells: Cells) -> Array:
    """The features of cells as a dense float32 matrix, a block of cells at a time."""
    if len(operators) == 1 and hasattr(operators[0], "matrix"):
        return np.asarray(operators[0].matrix(cells))
    features = bind(operators, cells)
    out = np.empty((cells.n_cells, features.n_features), dtype=np.float32)
    for start in range(0, cells.n_cells, 1 << 12):
        stop = min(start + (1 << 12), cells.n_cells)
        out[start:stop] = features.columns(start, stop)
    return out
