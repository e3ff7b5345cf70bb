"""Domains made from domains: a multiple of one, several copies of one."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from maxent import io
from maxent.core.domains.base import Domain, SumProductDomain
from maxent.rows.arrays import Array, Rows, like, uneven


@io.register
@dataclass(frozen=True)
class ScaledDomain(Domain):
    """``scale`` times another domain, {scale p : p in domain}.

    Parameters
    ----------
    domain : Domain
        The domain to scale.
    scale : float
        Factor, > 0.

    Examples
    --------
    >>> from maxent.core.domains import KSubset
    >>> ScaledDomain(KSubset(2), 0.5).project([9.0, 0.0, 0.0])  # capped at 1/2
    array([0.5 , 0.25, 0.25])
    """

    domain: Domain
    scale: float

    @property
    def constant_norm(self) -> bool:
        """Whether the vertices have one length."""
        return self.domain.constant_norm

    def __post_init__(self) -> None:
        if not (np.isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"ScaledDomain needs a finite scale > 0, got {self.scale!r}")
        object.__setattr__(self, "scale", float(self.scale))

    @property
    def bounded(self) -> bool:
        """Whether the scaled domain is bounded."""
        return self.domain.bounded

    def roundings(self, size: int) -> float:
        """As many as the domain's."""
        return self.domain.roundings(size)

    def may_be_empty(self, size: int) -> bool:
        """Where the domain's rows may."""
        return self.domain.may_be_empty(size)

    def vertices(self, size: int) -> Array:
        """The scaled vertices."""
        return self.scale * self.domain.vertices(size)

    def _argmax(self, theta: Rows) -> Rows:
        return self.scale * self.domain._argmax(theta)

    def _project(self, theta: Rows) -> Rows:
        return self.scale * self.domain._project(theta / self.scale)

    def _contains(self, p: Rows, atol: float) -> Array:
        return self.domain._contains(p / self.scale, atol / self.scale)

    def project_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """The unscaled derivative at the unscaled point."""
        return self.domain.project_jvp(theta / self.scale, p / self.scale, v)

    @property
    def largest_entry(self) -> float:
        """That of the domain, scaled."""
        return self.scale * self.domain.largest_entry

    @property
    def has_project_kl(self) -> bool:
        """Where the domain has it."""
        return self.domain.has_project_kl

    def _project_kl(self, theta: Rows) -> Rows:
        # sum s p log(s p) = s (sum p log p + log s sum p)
        return self.scale * self.domain._project_kl(theta - math.log(self.scale))

    def project_kl_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """That of the unscaled point, scaled."""
        inside = theta - math.log(self.scale), p / self.scale, v
        return self.scale * self.domain.project_kl_jvp(*inside)


@io.register
@dataclass(frozen=True)
class Product(SumProductDomain):
    """``copies`` rows of one domain taken as a single point, flattened.

    Parameters
    ----------
    domain : Domain
        The domain of each row.
    copies : int
        Number of rows.

    Examples
    --------
    >>> from maxent.core.domains import Simplex
    >>> Product(Simplex(), 2).argmax([1.0, 2.0, 4.0, 3.0])
    array([0., 1., 1., 0.])
    """

    domain: Domain
    copies: int

    @property
    def constant_norm(self) -> bool:
        """Whether the factor's vertices have one length."""
        return self.domain.constant_norm

    def __post_init__(self) -> None:
        if not isinstance(self.copies, int | np.integer) or self.copies < 1:
            raise ValueError(f"Product needs an integer number of copies >= 1, got {self.copies!r}")

    @property
    def bounded(self) -> bool:
        """Whether the factor is bounded."""
        return self.domain.bounded

    def roundings(self, size: int) -> float:
        """As many as the factor's."""
        return self.domain.roundings(size // self.copies)

    def may_be_empty(self, size: int) -> bool:
        """Where the factor's rows may."""
        return self.domain.may_be_empty(size // self.copies)

    def vertices(self, size: int) -> Array:
        """Every combination of the factor's vertices."""
        self._split(np.empty((1, size)))
        each = self.domain.vertices(size // self.copies)
        return np.array([np.concatenate(c) for c in itertools.product(each, repeat=self.copies)])

    def _split(self, theta: Rows) -> Array:
        if uneven(theta) or theta.shape[-1] % self.copies:
            size = "ragged" if uneven(theta) else theta.shape[-1]
            raise ValueError(f"rows of size {size} cannot be cut into {self.copies} equal parts")
        return theta.reshape(-1, theta.shape[-1] // self.copies)

    def _argmax(self, theta: Rows) -> Rows:
        return like(self.domain.argmax(self._split(theta)), theta)

    def _project(self, theta: Rows) -> Rows:
        return like(self.domain.project(self._split(theta)), theta)

    def _contains(self, p: Rows, atol: float) -> Array:
        inside = self.domain._contains(self._split(p), atol).reshape(-1, self.copies)
        return np.asarray(inside.all(axis=-1))

    def _factor(self) -> SumProductDomain:
        if not isinstance(self.domain, SumProductDomain):
            raise TypeError(f"{self.domain} has no softmax, so neither has a product of its copies")
        return self.domain

    def _softmax(self, theta: Rows) -> tuple[Array, Rows]:
        log_partition, mean = self._factor().softmax(self._split(theta))
        return log_partition.reshape(-1, self.copies).sum(axis=-1), like(mean, theta)

    def negentropy(self, p: Rows) -> Array:
        """The sum over the factors, which are independent."""
        return self._factor().negentropy(self._split(p)).reshape(-1, self.copies).sum(axis=-1)

    def softmax_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """Factor by factor."""
        parts = (self._split(x) for x in (theta, p, v))
        return like(self._factor().softmax_jvp(*parts), theta)

    def project_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """Factor by factor."""
        parts = (self._split(x) for x in (theta, p, v))
        return like(self.domain.project_jvp(*parts), theta)

    @property
    def largest_entry(self) -> float:
        """That of the factor."""
        return self.domain.largest_entry

    @property
    def has_project_kl(self) -> bool:
        """Where the factor has it."""
        return self.domain.has_project_kl

    def _project_kl(self, theta: Rows) -> Rows:
        return like(self.domain.project_kl(self._split(theta)), theta)

    def project_kl_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """Factor by factor."""
        parts = (self._split(x) for x in (theta, p, v))
        return like(self.domain.project_kl_jvp(*parts), theta)
