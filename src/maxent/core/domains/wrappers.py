"""Domains made from domains: a multiple of one, several copies of one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
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


@io.register
@dataclass(frozen=True)
class Blocks(Domain):
    """The product of several domains, each of the next entries of a row.

    Parameters
    ----------
    domains : sequence of Domain
        One for each block.
    sizes : sequence of int
        Entries of each block.

    Examples
    --------
    >>> from maxent.core.domains import Cube, Simplex
    >>> Blocks([Simplex(), Cube()], [2, 1]).argmax([1.0, 2.0, -1.0])
    array([0., 1., 0.])
    """

    domains: Sequence[Domain]
    sizes: Sequence[int]

    def __post_init__(self) -> None:
        if not len(self.domains) or len(self.domains) != len(self.sizes):
            raise ValueError(
                f"Blocks needs one size per domain, got {len(self.domains)} domains and "
                f"{len(self.sizes)} sizes"
            )
        object.__setattr__(self, "domains", tuple(self.domains))
        object.__setattr__(self, "sizes", tuple(int(size) for size in self.sizes))

    @property
    def bounded(self) -> bool:
        """Whether every block is bounded."""
        return all(domain.bounded for domain in self.domains)

    @property
    def constant_norm(self) -> bool:
        """Whether the vertices of every block have one length."""
        return all(domain.constant_norm for domain in self.domains)

    @property
    def largest_entry(self) -> float:
        """The largest of the blocks."""
        return max(domain.largest_entry for domain in self.domains)

    def may_be_empty(self, size: int) -> bool:
        """Where the rows of every block may."""
        return all(d.may_be_empty(n) for d, n in zip(self.domains, self.sizes, strict=True))

    def vertices(self, size: int) -> Array:
        """Every combination of the blocks' vertices."""
        each = [d.vertices(n) for d, n in zip(self.domains, self.sizes, strict=True)]
        return np.array([np.concatenate(c) for c in itertools.product(*each)])

    def _cut(self, rows: Rows) -> list[tuple[Domain, Array]]:
        if uneven(rows) or rows.shape[-1] != sum(self.sizes):
            raise ValueError(f"blocks of {self.sizes} entries need rows of {sum(self.sizes)}")
        parts = np.split(rows, np.cumsum(self.sizes)[:-1], axis=-1)
        return [(d, np.ascontiguousarray(x)) for d, x in zip(self.domains, parts, strict=True)]

    def _argmax(self, theta: Rows) -> Rows:
        return np.concatenate([d._argmax(x) for d, x in self._cut(theta)], axis=-1)

    def _project(self, theta: Rows) -> Rows:
        return np.concatenate([d._project(x) for d, x in self._cut(theta)], axis=-1)

    def _contains(self, p: Rows, atol: float) -> Array:
        return np.asarray(np.all([d._contains(x, atol) for d, x in self._cut(p)], axis=0))
