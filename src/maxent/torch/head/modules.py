"""The head as a module."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from maxent.torch.head._dtensor import is_dtensor, local_classes
from maxent.torch.head.distribution import SparseDistribution, linear_entmax
from maxent.torch.head.loss import linear_fenchel_young_loss
from maxent.torch.head.statistics import RowStatistics, linear_statistics
from maxent.torch.maps.entropies import Entropy, as_entropy
from maxent.torch.maps.losses import check_reduction, check_smoothing
from maxent.torch.maps.scaling import changed_settings, check_z_loss, checked_scaling
from torch import Tensor, nn

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


class LinearFenchelYoungLoss(nn.Module):
    """``linear_fenchel_young_loss`` with a weight (num_classes, in_features) of its own.

    For tied embeddings set ``head.weight = embedding.weight``.

    Parameters
    ----------
    in_features : int
        Size of the hidden vectors.
    num_classes : int
        Number of classes.
    entropy : str, float or Entropy, default "entmax15"
        "shannon" (cross-entropy), "sparsemax", "entmax15", a number `alpha >= 1`, or ``Shannon()``,
        ``Tsallis(alpha)``, ``NormEntropy(q)``.
    bias : bool, default False
        Whether there is a constant for each class.
    ignore_index : int, default -100
        Label of rows that do not count.
    reduction : "mean", "sum" or "none", default "mean"
        "mean" is over the rows that count.
    label_weight : tensor (n_classes,), default None
        One number per class. A row counts as much as its class (with proportions: their mean
        weight), and "mean" divides by the sum of these.
    shift : int, default 0
        hidden[..., t, :] is to predict target[..., t + shift]; the last ``shift`` places have
        nothing to predict and do not count.
    sparse_grad : bool, default False
        Whether the gradient of ``weight`` has only the rows that are not 0, as a sparse tensor, for
        optimizers that take one; not under ``torch.compile``.
    check : bool, default None
        Whether to refuse labels out of range and portions that do not sum to 1. None is on CPU
        alone: on CUDA it would wait for the device, and there the loss of such a label is NaN.
    label_smoothing : float, default 0.0
        epsilon in `(1 - epsilon) L(x; y) + epsilon / C sum_c L(x; c)`, each class times its weight,
        as in ``fenchel_young_loss``. The gradient is still p - y and a matrix of rank one; with a
        ``soft_cap`` every class has one, and rows are solved as a whole, some at a time.
    temperature : float, default 1.0
        T: the loss is of `x = s / T` for scores `s = W h + b`.
    soft_cap : float, default None
        c: the loss is of `x = c tanh(s / c) / T`, which no large score leaves.
    z_loss : float, default 0.0
        Adds this times `Omega*(x)^2` to each loss, which is the z-loss for Shannon's entropy.
    group : torch.distributed.ProcessGroup, default None
        The processes that share the vocabulary, see ``linear_fenchel_young_loss``; ``num_classes``
        is then how many classes this process has. A weight that is replaced by a DTensor in shards
        needs no group.
    device : device, default None
        Where the weights are.
    dtype : dtype, default None
        Type of the weights.

    Examples
    --------
    >>> import torch
    >>> head = LinearFenchelYoungLoss(8, 100, "sparsemax")
    >>> loss = head(torch.randn(2, 5, 8), torch.randint(100, (2, 5)))
    >>> loss.backward()
    >>> loss.shape, head.weight.grad.shape
    (torch.Size([]), torch.Size([100, 8]))
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        entropy: str | float | Entropy = "entmax15",
        bias: bool = False,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_weight: Tensor | None = None,
        shift: int = 0,
        sparse_grad: bool = False,
        check: bool | None = None,
        label_smoothing: float = 0.0,
        temperature: float = 1.0,
        soft_cap: float | None = None,
        z_loss: float = 0.0,
        group: ProcessGroup | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_reduction(reduction)
        check_smoothing(label_smoothing)
        check_z_loss(z_loss)
        checked_scaling(temperature, soft_cap, dtype, "LinearFenchelYoungLoss")
        self.entropy = as_entropy(entropy)
        self.ignore_index, self.reduction, self.shift = ignore_index, reduction, shift
        self.sparse_grad, self.check = sparse_grad, check
        self.label_smoothing, self.temperature = label_smoothing, temperature
        self.soft_cap, self.z_loss, self.group = soft_cap, z_loss, group
        self.weight = nn.Parameter(
            torch.empty(num_classes, in_features, device=device, dtype=dtype)
        )
        self.bias = (
            nn.Parameter(torch.empty(num_classes, device=device, dtype=dtype)) if bias else None
        )
        self.label_weight: Tensor | None
        self.register_buffer("label_weight", label_weight)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As ``torch.nn.Linear``."""
        bound = 1 / math.sqrt(max(self.weight.shape[1], 1))
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        """Sizes, entropy, and what is not as by default."""
        classes, features = self.weight.shape
        shown = (
            f"in_features={features}, num_classes={classes}, {self.entropy}, "
            f"bias={self.bias is not None}, reduction={self.reduction!r}"
        )
        return shown + changed_settings(self)

    def forward(self, hidden: Tensor, target: Tensor | tuple[Tensor, Tensor]) -> Tensor:
        """The loss."""
        return linear_fenchel_young_loss(
            hidden,
            self.weight,
            target,
            self.entropy,
            self.bias,
            self.ignore_index,
            self.reduction,
            self.label_weight,
            self.shift,
            self.sparse_grad,
            self.check,
            self.label_smoothing,
            self.temperature,
            self.soft_cap,
            self.z_loss,
            self.group,
        )

    def statistics(self, hidden: Tensor, target: Tensor, top_k: int = 1) -> RowStatistics:
        """Losses, probabilities and entropies row by row; see ``linear_statistics``."""
        self._check_whole("statistics")
        return linear_statistics(
            hidden,
            self.weight,
            target,
            self.entropy,
            self.bias,
            self.ignore_index,
            self.label_weight,
            self.shift,
            self.check,
            self.label_smoothing,
            self.temperature,
            self.soft_cap,
            self.z_loss,
            top_k,
        )

    def predict(self, hidden: Tensor) -> SparseDistribution:
        """The sparse distribution over classes; see ``linear_entmax``."""
        self._check_whole("predict")
        if self.entropy.kind != "tsallis":
            raise NotImplementedError(f"no sparse distributions of {self.entropy}")
        return linear_entmax(
            hidden, self.weight, self.entropy.parameter, self.bias, self.temperature, self.soft_cap
        )

    def _check_whole(self, what: str) -> None:
        if self.group is not None or is_dtensor(self.weight):
            raise NotImplementedError(
                f"{what} needs all classes, and this process has {local_classes(self.weight)} of "
                "them: gather the weights of the group"
            )
