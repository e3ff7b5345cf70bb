"""Posterior: how well the weights of a density are known, and what a visit somewhere would tell.

With n records, the loss n (log Z(w) - w . fbar) and the penalty n beta_j |w_j|, which is a Laplace
prior of rate n beta_j, the weights of the features in use are about normal around the fit, with
the covariance

    Sigma = (n Cov_q(f) + diag((n beta_j)^2 / 2))^-1.

The last term is the precision of the prior (a Laplace prior has the variance 2 / rate^2, and the
normal one of a kernel's features, of penalty n beta_j^2 w_j^2 / 2, has n beta_j^2): without
it features that the cells cannot tell apart would have no variance at all. Features with weight 0
are left out, as if the fit had been told of the others alone, so that variances are rather small.

The exponent of the cloglog output, eta(x) = log q(x) + H(q), has the slope

    g(x) = d eta / dw = f(x) - E_q[f] - Cov_q(f) w,

so that Var eta = g' Sigma g, and Var p = p'^2 Var eta of p = 1 - exp(-exp(eta)) (delta method).

A visit to x finds the species with probability d p(x), d the chance to see it where it lives. Its
Fisher information on eta is I(x) = d p'^2 / (p (1 - d p)), and what it takes off Sigma is

    Sigma g g' Sigma I / (1 + I g' Sigma g).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from maxent.core.entropies import Shannon
from maxent.density.intervals import bound_features, curvature
from maxent.features import Cells
from maxent.rows.arrays import Array

if TYPE_CHECKING:
    from maxent.density.model import FittedDensity

_BLOCK = 1 << 13  # cells whose features are written out at once


@dataclass(frozen=True, eq=False)
class Posterior:
    """The normal distribution of the weights of a density around the fit.

    Attributes
    ----------
    density : FittedDensity
        The fit, with Shannon's entropy.
    centre : array (n_used,)
        `E_q[f] + Cov_q(f) w`: slopes of the exponent are `f(x)` less this.
    covariance : array (n_used, n_used)
        `Sigma`, of the weights of the features in use.

    Examples
    --------
    >>> from maxent import MaxentDensity
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> density = MaxentDensity("lq").fit(X, np.arange(50) % 7 == 3).density_
    >>> posterior = Posterior.from_density(density, X)
    >>> posterior.deviation(X).shape, posterior.covariance.shape == (len(density.weights),) * 2
    ((50,), True)
    """

    density: FittedDensity
    centre: Array
    covariance: Array

    @classmethod
    def from_density(cls, density: FittedDensity, X: Any, weight: Any = None) -> Posterior:
        """From a fit and cells that stand for its region, such as its background.

        Parameters
        ----------
        density : FittedDensity
            The fit.
        X : table (n_cells, n_variables)
            The cells.
        weight : array (n_cells,), default None
            How many cells each row stands for; None is one.
        """
        if not isinstance(density.entropy, Shannon):
            raise ValueError(
                "a posterior is known for densities of Shannon's entropy, and this one has "
                f"{density.entropy!r}; fit with that"
            )
        if not np.isfinite(density.beta).all():
            raise ValueError(
                "a posterior needs the penalties of the weights, which this density does not know: "
                "it is a mean of densities or comes from a lambdas file; fit the species "
                "by itself, or with --joint"
            )
        cells = density.schema.read(X)
        mass = np.ones(cells.n_cells) if weight is None else np.asarray(weight, dtype=np.float64)
        if mass.shape != (cells.n_cells,):
            raise ValueError(f"weight has shape {mass.shape}, expected ({cells.n_cells},)")
        theta = density.scorer.scores(cells)
        raw = mass * np.exp(theta - theta.max(initial=-np.inf))
        if not raw.sum() > 0:
            raise ValueError(f"{cells.n_cells} cells of no weight: give those of the region")
        q = raw / raw.sum()
        features = bound_features(density.operators, density, cells)
        n = density.n_presences if density.evidence is None else density.evidence.effective
        # of a kernel's features the prior is normal, with the strength beta^2 of the penalty
        prior = np.where(density.kinds == "k", n * density.beta**2, (n * density.beta) ** 2 / 2)
        known = curvature(features, q, density.weights, n, prior)
        return cls(density, known.mean + known.curved, known.covariance)

    def slopes(self, cells: Cells) -> Array:
        """`g` at cells that were read by the schema of the density, (n_cells, n_used)."""
        features = bound_features(self.density.operators, self.density, cells)
        return features.columns() - self.centre

    def at(self, X: Any) -> Places:
        """What is known at the rows of a table, all held in memory."""
        cells = self.density.schema.read(X)
        return self.places(cells)

    def places(self, cells: Cells) -> Places:
        """What is known at cells that were read by the schema of the density."""
        theta = self.density.scorer.scores(cells)
        log_raw = self.density.output(theta, "log")
        return Places(self.slopes(cells), log_raw + self.density.raw_entropy)

    def deviation(self, X: Any) -> Array:
        """Standard deviation of the cloglog output, `sqrt(p'^2 g' Sigma g)`, at the rows of X.

        Parameters
        ----------
        X : table (n_cells, n_variables)
            The cells.
        """
        cells = self.density.schema.read(X)
        found = np.empty(cells.n_cells)
        for start in range(0, cells.n_cells, _BLOCK):
            rows = slice(start, start + _BLOCK)
            places = self.places(cells.take(np.arange(cells.n_cells)[rows]))
            found[rows] = np.sqrt(places.variance(self.covariance))
        return found

    def after(self, places: Places, detection: float = 1.0) -> Posterior:
        """The posterior that is expected after visits to places, one each.

        `Sigma <- (Sigma^-1 + sum_i I_i g_i g_i')^-1`.
        """
        root = places.slopes * np.sqrt(places.information(detection))[:, None]
        spread = root @ self.covariance
        inner = np.eye(len(root)) + spread @ root.T
        return replace(self, covariance=self.covariance - spread.T @ np.linalg.solve(inner, spread))


@dataclass(frozen=True, eq=False)
class Places:
    """Slopes and exponents of some cells.

    Attributes
    ----------
    slopes : array (n_cells, n_used)
        `g`.
    exponent : array (n_cells,)
        `eta`, of which `1 - exp(-exp(eta))` is the cloglog output.
    """

    slopes: Array
    exponent: Array

    def take(self, rows: Any) -> Places:
        """Some of them."""
        return Places(self.slopes[rows], self.exponent[rows])

    @property
    def suitability(self) -> Array:
        """`p`, the cloglog output."""
        return -np.expm1(-np.exp(self.exponent))

    @property
    def steepness(self) -> Array:
        """`p' = dp / d eta = exp(eta - exp(eta))`."""
        return np.exp(self.exponent - np.exp(self.exponent))

    def variance(self, covariance: Array) -> Array:
        """`p'^2 g' Sigma g`, of the cloglog output."""
        inner = np.einsum("ij,ij->i", self.slopes @ covariance, self.slopes)
        return np.maximum(inner, 0.0) * self.steepness**2

    def information(self, detection: float = 1.0) -> Array:
        """`I = d p'^2 / (p (1 - d p))`: what a visit tells of the exponent."""
        if not 0 < detection <= 1:
            raise ValueError(f"detection must lie above 0 and at most at 1, got {detection:g}")
        rate = np.exp(np.minimum(self.exponent, 700.0))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if detection == 1:
                told = rate**2 / np.expm1(rate)  # 1 - p rounds to 0 long before this does
            else:
                found = self.suitability
                told = detection * self.steepness**2 / (found * (1 - detection * found))
        return np.nan_to_num(told, nan=0.0, posinf=0.0)

    def importance(self) -> Array:
        """`M = mean of p'^2 g g'`: `tr(M Sigma)` is the mean variance of the cloglog output."""
        root = self.slopes * self.steepness[:, None]
        return root.T @ root / len(root)

    def reduction(self, covariance: Array, importance: Array, detection: float = 1.0) -> Array:
        """What a visit to each place takes off the mean variance.

        `I g' Sigma M Sigma g / (1 + I g' Sigma g)`.

        Parameters
        ----------
        covariance : array (n_used, n_used)
            `Sigma` before the visit.
        importance : array (n_used, n_used)
            `M` of the cells whose variance counts.
        detection : float, default 1.0
            Chance to find the species where it lives.
        """
        spread = self.slopes @ covariance
        told = self.information(detection)
        gained = np.einsum("ij,ij->i", spread @ importance, spread)
        known = np.einsum("ij,ij->i", spread, self.slopes)
        return told * gained / (1 + told * known)
