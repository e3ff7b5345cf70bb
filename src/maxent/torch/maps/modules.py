"""The maps and the loss as modules."""

from __future__ import annotations

import math

import torch
from maxent.torch.maps import functional, losses
from maxent.torch.maps.entropies import Entropy, as_entropy
from torch import Tensor, nn


class _Map(nn.Module):
    """A map along ``dim``."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class Softmax(_Map):
    """``softmax`` along ``dim``.

    >>> Softmax(dim=1)
    Softmax(dim=1)
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Probabilities along dim."""
        return functional.softmax(x, self.dim, mask)


class Sparsemax(_Map):
    """``sparsemax`` along ``dim``.

    >>> import torch
    >>> Sparsemax()(torch.tensor([0.0, 0.5, 3.0]))
    tensor([0., 0., 1.])
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Sparse probabilities along dim."""
        return functional.sparsemax(x, self.dim, mask)


class Entmax15(_Map):
    """``entmax15`` along ``dim``.

    >>> Entmax15()
    Entmax15(dim=-1)
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Sparse probabilities along dim."""
        return functional.entmax15(x, self.dim, mask)


class Entmax(_Map):
    """``entmax`` along ``dim``, with a fixed or learnt alpha.

    ``alpha`` is a number or a tensor that broadcasts against the scores with size 1 along dim:
    ``torch.full((heads, 1, 1), 1.5)`` gives one to each head of scores (batch, heads, queries,
    keys). With ``learnable=True`` it is 1 + softplus(``raw_alpha``), which keeps it above 1.

    >>> import torch
    >>> layer = Entmax(torch.full((4, 1, 1), 1.5), learnable=True)
    >>> layer.alpha.shape, [name for name, _ in layer.named_parameters()]
    (torch.Size([4, 1, 1]), ['raw_alpha'])
    """

    fixed_alpha: Tensor

    def __init__(self, alpha: float | Tensor = 1.5, dim: int = -1, learnable: bool = False) -> None:
        super().__init__(dim)
        self.learnable = learnable
        self._number = None if isinstance(alpha, Tensor) or learnable else float(alpha)
        given = torch.as_tensor(alpha, dtype=torch.get_default_dtype()).detach().clone()
        if not bool(((given >= 1) & (given < math.inf)).all()):
            raise ValueError(f"Entmax needs finite alphas >= 1, got {alpha!r}")
        if not learnable:
            if self._number is None:
                self.register_buffer("fixed_alpha", given)
            return
        if not bool((given > 1).all()):
            raise ValueError(f"a learnable alpha starts above 1, got {alpha!r}")
        excess = given - 1
        self.raw_alpha = nn.Parameter(excess + torch.log(-torch.expm1(-excess)))

    @property
    def alpha(self) -> Tensor:
        """The alpha in use."""
        if self.learnable:
            return 1 + nn.functional.softplus(self.raw_alpha)
        return self.fixed_alpha if self._number is None else torch.tensor(self._number)

    def extra_repr(self) -> str:
        """Alpha and dimension."""
        alpha = self.alpha.detach()
        shown = f"{alpha.item():g}" if alpha.numel() == 1 else f"tensor{tuple(alpha.shape)}"
        return f"alpha={shown}, dim={self.dim}, learnable={self.learnable}"

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Probabilities along dim."""
        alpha = self.alpha if self._number is None else self._number  # a number is faster
        return functional.entmax(x, alpha, self.dim, mask)


class Normmax(_Map):
    """``normmax`` along ``dim``.

    >>> Normmax(q=3.0)
    Normmax(q=3.0, dim=-1)
    """

    q: float | Tensor

    def __init__(self, q: float | Tensor = 2.0, dim: int = -1) -> None:
        super().__init__(dim)
        if isinstance(q, Tensor):
            self.register_buffer("q", q)
        else:
            functional.check_exponent(q)
            self.q = q

    def extra_repr(self) -> str:
        """Exponent and dimension."""
        return f"q={self.q}, dim={self.dim}"

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Sparse probabilities along dim."""
        return functional.normmax(x, self.q, self.dim, mask)


class Budget(_Map):
    """``budget`` along ``dim``.

    >>> Budget(k=2)
    Budget(k=2, dim=-1)
    """

    k: float | Tensor

    def __init__(self, k: float | Tensor, dim: int = -1) -> None:
        super().__init__(dim)
        if isinstance(k, Tensor):
            self.register_buffer("k", k)
        else:
            functional.check_budget(k)
            self.k = k

    def extra_repr(self) -> str:
        """Budget and dimension."""
        return f"k={self.k}, dim={self.dim}"

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Entries in [0, 1] that sum to k along dim."""
        return functional.budget(x, self.k, self.dim, mask)


class SparseSigmoid(nn.Module):
    """``sparse_sigmoid``, entry by entry.

    >>> SparseSigmoid()
    SparseSigmoid()
    """

    def forward(self, x: Tensor) -> Tensor:
        """Entries in [0, 1]."""
        return functional.sparse_sigmoid(x)


class SparsePlus(nn.Module):
    """``sparse_plus``, entry by entry.

    >>> SparsePlus()
    SparsePlus()
    """

    def forward(self, x: Tensor) -> Tensor:
        """Entries >= 0."""
        return functional.sparse_plus(x)


class FenchelYoungLoss(nn.Module):
    """``fenchel_young_loss`` with its settings; a drop-in for ``torch.nn.CrossEntropyLoss``.

    >>> import torch
    >>> criterion = FenchelYoungLoss("sparsemax")
    >>> x = torch.tensor([[3.0, 0.0, 0.0], [0.0, 1.0, 0.5]])
    >>> criterion(x, torch.tensor([0, 2])), criterion.predict(x[:1])
    (tensor(0.2812), tensor([[1., 0., 0.]]))
    """

    weight: Tensor | None

    def __init__(
        self,
        entropy: str | float | Entropy = "entmax15",
        reduction: str = "mean",
        ignore_index: int = -100,
        weight: Tensor | None = None,
        dim: int | None = None,
        check: bool | None = None,
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        self.entropy = as_entropy(entropy)
        losses.check_reduction(reduction)
        losses.check_smoothing(label_smoothing)
        self.reduction = reduction
        self.ignore_index = ignore_index
        self.register_buffer("weight", weight)
        self.dim = dim
        self.check = check
        self.label_smoothing = label_smoothing

    def extra_repr(self) -> str:
        """Entropy, reduction, dimension and smoothing."""
        smoothing = f", label_smoothing={self.label_smoothing}" if self.label_smoothing else ""
        return f"{self.entropy}, reduction={self.reduction!r}, dim={self.dim}{smoothing}"

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of scores and labels or probabilities."""
        return losses.fenchel_young_loss(
            input,
            target,
            self.entropy,
            self.reduction,
            self.ignore_index,
            self.weight,
            self.dim,
            self.check,
            self.label_smoothing,
        )

    def predict(self, input: Tensor) -> Tensor:
        """The probabilities whose residual p - y is the gradient of the loss."""
        parameter = self.entropy.parameter
        dim = losses.class_dimension(input) if self.dim is None else self.dim
        if self.entropy.kind == "norm":
            return functional.normmax(input, parameter, dim)
        return functional.entmax(input, parameter, dim)
