"""Log-partitions and marginals of any domain that has them, as differentiable functions.

The domain's own programmes run on the CPU, which CUDA tensors make the way to and back; chains and
alignments have functions of their own that stay on the device.
"""

from __future__ import annotations

from typing import Any

import torch
from maxent.core.domains import Domain, SumProductDomain
from maxent.torch._operators import Operation
from maxent.torch.structured._domains import domain_argument, domain_of
from maxent.torch.structured._oracle import sums
from torch import Tensor


def log_partition(domain: SumProductDomain, theta: Tensor) -> Tensor:
    """log sum over structures v of `exp<theta, v>`, for scores (..., size) of a domain.

    Its gradient is the marginals, its second derivative the covariance of the structure.

    Parameters
    ----------
    domain : Domain
        The domain.
    theta : tensor (..., size)
        Scores.

    Examples
    --------
    >>> import torch
    >>> from maxent import Tree
    >>> log_partition(Tree([(0, 1), (0, 2)], 2), torch.zeros(14)).exp().round()
    tensor(8.)
    """
    return sums_of(domain, as_rows(theta, domain))[0].reshape(theta.shape[:-1])


def marginals(domain: SumProductDomain, theta: Tensor) -> Tensor:
    """The mean structure under probabilities `exp<theta, v> / Z`, for scores (..., size).

    Parameters
    ----------
    domain : Domain
        The domain.
    theta : tensor (..., size)
        Scores.

    Examples
    --------
    >>> import torch
    >>> from maxent import KSubset
    >>> marginals(KSubset(1), torch.tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """
    return sums_of(domain, as_rows(theta, domain))[1].reshape(theta.shape)


def argmax(domain: Domain, theta: Tensor) -> Tensor:
    """A best structure for scores (..., size); its derivative is 0.

    Parameters
    ----------
    domain : Domain
        The domain.
    theta : tensor (..., size)
        Scores.

    Examples
    --------
    >>> import torch
    >>> from maxent import KSubset
    >>> argmax(KSubset(2), torch.tensor([0.3, 0.1, 0.2]))
    tensor([1., 0., 1.])
    """
    rows = as_rows(theta, domain).detach()
    best: Tensor = _Best.apply(rows, domain_argument(domain, rows))
    return best.reshape(theta.shape)


def sums_of(domain: SumProductDomain, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Log-partitions and marginals of rows of scores."""
    both: tuple[Tensor, Tensor] = _Softmax.apply(rows, domain_argument(_with_sums(domain), rows))
    return both


def as_rows(theta: Tensor, domain: Domain) -> Tensor:
    """Scores as contiguous rows of float32 or float64."""
    if not isinstance(domain, Domain):
        raise TypeError(
            f"the domain is one of maxent's, such as Chain(5) or KSubset(2), got {domain!r}"
        )
    if not isinstance(theta, Tensor) or not theta.is_floating_point():
        raise TypeError(
            f"scores must be a tensor of floats, got {getattr(theta, 'dtype', type(theta))}"
        )
    if not theta.ndim:
        raise ValueError(f"scores of {domain} need at least one dimension, got a single number")
    if theta.shape[-1] == 0:
        raise ValueError(f"scores of {domain} have the shape (..., size), got {tuple(theta.shape)}")
    dtype = torch.float64 if theta.dtype == torch.float64 else torch.float32
    return theta.reshape(-1, theta.shape[-1]).to(dtype).contiguous()


def beside(x: Any, theta: Tensor) -> Tensor:
    """An array as a tensor of the type and on the device of another."""
    return torch.as_tensor(x).to(theta.device, theta.dtype)


def arrays(*tensors: Tensor) -> list[Any]:
    """Tensors as arrays on the CPU."""
    return [x.detach().cpu().contiguous().numpy() for x in tensors]


def _softmax(theta: Tensor, domain: str) -> tuple[Tensor, Tensor]:
    """By the domain's programme."""
    value, mean = domain_of(domain).softmax(*arrays(theta))
    return beside(value, theta), beside(mean, theta)


def _covariance(theta: Tensor, v: Tensor, domain: str) -> Tensor:
    """By the domain's derivative."""
    structures = domain_of(domain)
    scores, along = arrays(theta, v)
    mean = structures.softmax(scores)[1]
    return beside(structures.softmax_jvp(scores, mean, along), theta)


_Softmax = sums("domain", _softmax, _covariance)


class _Best(Operation, name="domain_argmax"):
    """Best structures."""

    @staticmethod
    def run(theta: Tensor, domain: str) -> Tensor:
        return beside(domain_of(domain).argmax(*arrays(theta)), theta)

    @staticmethod
    def fake(theta: Tensor, domain: str) -> Tensor:
        return theta.new_empty(theta.shape)


def _with_sums(domain: SumProductDomain) -> SumProductDomain:
    if isinstance(domain, Domain) and not isinstance(domain, SumProductDomain):
        raise TypeError(f"{domain} has no log-partition: sums over its structures are intractable")
    return domain
