"""Structured maps and losses as modules."""

from __future__ import annotations

from collections.abc import Callable

import torch
from maxent.core.domains import Domain
from maxent.core.domains.active_set import Support
from maxent.torch.maps.losses import check_reduction
from maxent.torch.structured.alignment import check_band, check_gamma, soft_dtw
from maxent.torch.structured.chain import ChainScores
from maxent.torch.structured.sparsemap import sparsemap, sparsemap_loss, sparsemap_support
from torch import Tensor, nn

_LOSSES: dict[str, Callable[..., Tensor]] = {
    "crf": ChainScores.crf_loss,
    "hinge": ChainScores.hinge_loss,
    "perceptron": ChainScores.perceptron_loss,
}


class LinearChain(nn.Module):
    """Learnt transition, start and end scores over ``n_states``; its output is the loss of tags.

    Parameters
    ----------
    n_states : int
        Number of states.
    loss : "crf", "hinge" or "perceptron", default "crf"
        "crf" (negative log-likelihood), "hinge" (with Hamming costs) or "perceptron".
    reduction : "mean", "sum" or "none", default "mean"
        "mean" is over the sequences.

    Examples
    --------
    >>> import torch
    >>> layer = LinearChain(2)
    >>> nodes, tags = torch.zeros(4, 3, 2), torch.zeros(4, 3, dtype=torch.int64)
    >>> layer(nodes, tags).detach().exp().round(), layer.decode(nodes).shape
    (tensor(8.), torch.Size([4, 3]))
    """

    def __init__(self, n_states: int, loss: str = "crf", reduction: str = "mean") -> None:
        super().__init__()
        if loss not in _LOSSES:
            raise ValueError(f"loss must be one of {', '.join(_LOSSES)}, got {loss!r}")
        check_reduction(reduction)
        if isinstance(n_states, bool) or not isinstance(n_states, int) or n_states < 1:
            raise ValueError(f"LinearChain needs an integer n_states >= 1, got {n_states!r}")
        self.loss, self.reduction = loss, reduction
        self.transitions = nn.Parameter(torch.zeros(n_states, n_states))
        self.start = nn.Parameter(torch.zeros(n_states))
        self.end = nn.Parameter(torch.zeros(n_states))

    def extra_repr(self) -> str:
        """States, loss and reduction."""
        return f"{len(self.start)}, loss={self.loss!r}, reduction={self.reduction!r}"

    def forward(self, nodes: Tensor, tags: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The loss of tags (B, T) given scores (B, T, K)."""
        return _LOSSES[self.loss](self.scores(nodes, lengths), tags, reduction=self.reduction)

    def scores(self, nodes: Tensor, lengths: Tensor | None = None) -> ChainScores:
        """The learnt scores with those of nodes (B, T, K): what else there is to ask of them."""
        return ChainScores(nodes, self.transitions, lengths, self.start, self.end)

    def decode(self, nodes: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The best states (B, T), 0 behind the end."""
        with torch.no_grad():
            return self.scores(nodes, lengths).argmax()[1]

    def marginals(self, nodes: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The probabilities of the states (B, T, K)."""
        return self.scores(nodes, lengths).marginals()[0]


class SoftDTW(nn.Module):
    """``soft_dtw`` with its gamma and band.

    Parameters
    ----------
    gamma : float, default 1.0
        Softness: small values approach dynamic time warping.
    band : int, default None
        How far a path may leave the diagonal, see ``Alignment``; None for no limit.

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor([[0.0, 1.0, 2.0]])
    >>> SoftDTW(gamma=0.01)(x, x + 1).round(decimals=3)
    tensor([2.])
    """

    def __init__(self, gamma: float = 1.0, band: int | None = None) -> None:
        super().__init__()
        check_gamma(gamma)
        check_band(band)
        self.gamma, self.band = gamma, band

    def extra_repr(self) -> str:
        """Gamma and band."""
        return f"gamma={self.gamma}, band={self.band}"

    def forward(
        self,
        x: Tensor,
        y: Tensor,
        x_lengths: Tensor | None = None,
        y_lengths: Tensor | None = None,
    ) -> Tensor:
        """One value per pair."""
        return soft_dtw(x, y, self.gamma, self.band, x_lengths, y_lengths)


class SparseMAP(nn.Module):
    """``sparsemap`` on a domain.

    Parameters
    ----------
    domain : Domain
        The domain.
    warm_start : bool, default False
        Whether to begin with the structures found in the call before, where it had as many rows of
        the same size: for scores that change little from call to call.

    Examples
    --------
    >>> import torch
    >>> from maxent import KSubset
    >>> SparseMAP(KSubset(2))(torch.tensor([1.0, 0.5, 0.0]))
    tensor([1.0000, 0.7500, 0.2500])
    """

    def __init__(self, domain: Domain, warm_start: bool = False) -> None:
        super().__init__()
        self.domain, self.warm_start = domain, warm_start
        self._shape: torch.Size | None = None
        self._supports: list[Support] = []

    def extra_repr(self) -> str:
        """Domain and warm start."""
        return f"{self.domain}, warm_start={self.warm_start}"

    def forward(self, theta: Tensor) -> Tensor:
        """The nearest points, in the shape of the scores."""
        if not self.warm_start:
            return sparsemap(self.domain, theta)
        start = self._supports if theta.shape == self._shape else None
        p, self._supports = sparsemap_support(self.domain, theta, start)
        self._shape = theta.shape
        return p


class SparseMAPLoss(nn.Module):
    """``sparsemap_loss`` on a domain.

    Parameters
    ----------
    domain : Domain
        The domain.
    reduction : "mean", "sum" or "none", default "mean"
        "mean" is over the rows.

    Examples
    --------
    >>> import torch
    >>> from maxent import KSubset
    >>> SparseMAPLoss(KSubset(1))(torch.tensor([[0.5, 0.0]]), torch.tensor([[1.0, 0.0]]))
    tensor(0.0625)
    """

    def __init__(self, domain: Domain, reduction: str = "mean") -> None:
        super().__init__()
        check_reduction(reduction)
        self.domain, self.reduction = domain, reduction

    def extra_repr(self) -> str:
        """Domain and reduction."""
        return f"{self.domain}, reduction={self.reduction!r}"

    def forward(self, theta: Tensor, target: Tensor) -> Tensor:
        """The loss of points of the domain, given scores of their shape."""
        return sparsemap_loss(self.domain, theta, target, self.reduction)
