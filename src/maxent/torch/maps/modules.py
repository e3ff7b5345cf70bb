"""The maps and the loss as modules."""

from __future__ import annotations

import math

import torch
from maxent.torch.maps import functional, losses
from maxent.torch.maps.entropies import Entropy, as_entropy
from maxent.torch.maps.scaling import changed_settings, check_z_loss, checked_scaling
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

    Parameters
    ----------
    dim : int, default -1
        Dimension along which to work.

    Examples
    --------
    >>> Softmax(dim=1)
    Softmax(dim=1)
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Probabilities along dim."""
        return functional.softmax(x, self.dim, mask)


class Sparsemax(_Map):
    """``sparsemax`` along ``dim``.

    Parameters
    ----------
    dim : int, default -1
        Dimension along which to work.

    Examples
    --------
    >>> import torch
    >>> Sparsemax()(torch.tensor([0.0, 0.5, 3.0]))
    tensor([0., 0., 1.])
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Sparse probabilities along dim."""
        return functional.sparsemax(x, self.dim, mask)


class Entmax15(_Map):
    """``entmax15`` along ``dim``.

    Parameters
    ----------
    dim : int, default -1
        Dimension along which to work.

    Examples
    --------
    >>> Entmax15()
    Entmax15(dim=-1)
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Sparse probabilities along dim."""
        return functional.entmax15(x, self.dim, mask)


class Entmax(_Map):
    """``entmax`` along ``dim``, with a fixed or learnt alpha.

    Parameters
    ----------
    alpha : float or tensor, default 1.5
        Index, >= 1: a number, or a tensor that broadcasts against the scores with size 1 along dim.
        ``torch.full((heads, 1, 1), 1.5)`` gives one to each head of scores (batch, heads, queries,
        keys).
    dim : int, default -1
        Dimension along which to work.
    learnable : bool, default False
        Whether alpha is learnt, as 1 + softplus(``raw_alpha``), which keeps it above 1.

    Examples
    --------
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

    Parameters
    ----------
    q : float or tensor, default 2.0
        Order of the norm, > 1, see ``normmax``.
    dim : int, default -1
        Dimension along which to work.

    Examples
    --------
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

    Parameters
    ----------
    k : float or tensor
        Sum of the entries, see ``budget``.
    dim : int, default -1
        Dimension along which to work.

    Examples
    --------
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

    Parameters
    ----------
    entropy : str, float or Entropy, default "entmax15"
        "shannon" (cross-entropy), "sparsemax", "entmax15", a number `alpha >= 1`, or ``Shannon()``,
        ``Tsallis(alpha)``, ``NormEntropy(q)``.
    reduction : "mean", "sum" or "none", default "mean"
        "mean" is over the targets that are not ignored.
    ignore_index : int, default -100
        Label whose rows do not count. A row of probabilities does not where all its entries are
        this number.
    weight : tensor (n_classes,), default None
        One number per class. A row counts as much as its class (with probabilities: their mean
        weight), and "mean" divides by the sum of these.
    dim : int, default None
        Where the classes are. None is as in torch's cross_entropy: (C,), (N, C) or (N, C, ...).
        Scores (N, ..., C) need ``dim=-1``.
    check : bool, default None
        Whether to refuse labels out of range and rows that are not on the simplex. None is on CPU
        alone: on CUDA it would wait for the device, and there the loss of such a label is NaN.
        Compiled code does not check.
    label_smoothing : float, default 0.0
        epsilon in `(1 - epsilon) L(x; y) + epsilon / C sum_c L(x; c)`, each class times its weight,
        which is torch's for Shannon's entropy.
    temperature : float, default 1.0
        T: the loss is of `x = s / T` for scores s.
    soft_cap : float, default None
        c: the loss is of `x = c tanh(s / c) / T`, which no large score leaves.
    z_loss : float, default 0.0
        Adds this times `Omega*(x)^2` to each loss, which is the z-loss for Shannon's entropy.

    Examples
    --------
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
        temperature: float = 1.0,
        soft_cap: float | None = None,
        z_loss: float = 0.0,
    ) -> None:
        super().__init__()
        self.entropy = as_entropy(entropy)
        losses.check_reduction(reduction)
        losses.check_smoothing(label_smoothing)
        check_z_loss(z_loss)
        checked_scaling(temperature, soft_cap, None, "FenchelYoungLoss")
        self.reduction = reduction
        self.ignore_index = ignore_index
        self.register_buffer("weight", weight)
        self.dim = dim
        self.check = check
        self.label_smoothing = label_smoothing
        self.temperature, self.soft_cap, self.z_loss = temperature, soft_cap, z_loss

    def extra_repr(self) -> str:
        """Entropy, reduction, dimension, and what is not as by default."""
        shown = f"{self.entropy}, reduction={self.reduction!r}, dim={self.dim}"
        return shown + changed_settings(self)

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
            self.temperature,
            self.soft_cap,
            self.z_loss,
        )

    def predict(self, input: Tensor) -> Tensor:
        """The probabilities whose residual p - y is the gradient of the loss."""
        parameter = self.entropy.parameter
        dim = losses.class_dimension(input) if self.dim is None else self.dim
        scaling = checked_scaling(
            self.temperature, self.soft_cap, input.dtype, "FenchelYoungLoss.predict"
        )
        input = scaling.apply(input)
        if self.entropy.kind == "norm":
            return functional.normmax(input, parameter, dim)
        return functional.entmax(input, parameter, dim)
