"""Potentials: how far the moments may be from the observed ones (density paper, §4 and §5).

V is a closed convex function of the residual r = F p - mu; its conjugate V* is the penalty on
the weights, V*(-w). All potentials here but ``ShiftedPotential`` are even with V(0) = 0 = min V.

=====================================  =====================  ================================
potential                              V(r)                   penalty V*(v)
=====================================  =====================  ================================
``Equality()``                         I(r = 0)               0
``Box(beta)``                          I(|r_j| <= beta_j)     sum beta_j |v_j|
``Ball(radius)``                       I(||r||_2 <= radius)   radius ||v||_2
``NormBall(radius, p)``                I(||r||_p <= radius)   radius ||v||_p'
``Quadratic(strength)``                ||r||^2 / 2 strength   strength/2 ||v||^2
``QuadraticForm(A)``                   r'A^+r / 2             v'Av / 2
``ElasticNet(beta, strength)``         dead-zone quadratic    beta |v| + strength/2 v^2
``SquaredNormPotential(strength, p)``  ||r||_p^2 / 2 strength strength/2 ||v||_p'^2
``NormPlusSquare(radius, c, p, s)``    dist_s(r, ball)^2 / 2c radius ||v||_p' + c/2 ||v||_s'^2
``SmoothBox(beta, smoothing)``         a b KL                 a b log cosh(v/a)
``DualBall(radius, p)``                radius ||r||_p'        I(||v||_p <= radius)
``LaplacePrior(lam)``                  log(lam/(lam - r^2))   KL to the Laplace prior
``Coupled(A, inner)``                   inner(R A^1/2)         inner*(W A^-1/2)
``Spectral(columns, radius, c)``        spectral dead zone     radius ||W||_* + c/2 ||W||^2
``CumulantPrior(K, K')``               K(-r)                  KL to the prior with cumulants K
=====================================  =====================  ================================
"""

from maxent.core.potentials.base import Potential
from maxent.core.potentials.coupled import Coupled, Spectral
from maxent.core.potentials.elastic import Box, ElasticNet, ElasticPotential, Equality, Quadratic
from maxent.core.potentials.names import BY_NAME, make_potential
from maxent.core.potentials.norms import (
    Ball,
    DualBall,
    NormBall,
    NormPlusSquare,
    QuadraticForm,
    SquaredNormPotential,
)
from maxent.core.potentials.priors import Centred, CumulantPrior, gaussian_prior
from maxent.core.potentials.separable import LaplacePrior, SmoothBox
from maxent.core.potentials.spiked import Spiked
from maxent.core.potentials.wrappers import Families, ScaledPotential, ShiftedPotential, scaled

__all__ = [
    "BY_NAME",
    "Ball",
    "Box",
    "Centred",
    "Coupled",
    "CumulantPrior",
    "DualBall",
    "ElasticNet",
    "ElasticPotential",
    "Equality",
    "Families",
    "LaplacePrior",
    "NormBall",
    "NormPlusSquare",
    "Potential",
    "Quadratic",
    "QuadraticForm",
    "ScaledPotential",
    "ShiftedPotential",
    "SmoothBox",
    "Spectral",
    "Spiked",
    "SquaredNormPotential",
    "gaussian_prior",
    "make_potential",
    "scaled",
]
