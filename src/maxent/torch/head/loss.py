"""A linear layer and a Fenchel-Young loss in one: the head of a language model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import torch.distributed as dist
from torch.nn.functional import linear

import torch
from maxent.torch.head._autograd import apply_head
from maxent.torch.head._dtensor import is_dtensor, local_parts, sharded_weight
from maxent.torch.head._layer import checked_layer
from maxent.torch.head._objective import Objective
from maxent.torch.head._parallel import ParallelLoss
from maxent.torch.head._rows import label_shares
from maxent.torch.head._shards import Shards, agreed_shards, check_group
from maxent.torch.head._sparse import UNUSED, Targets
from maxent.torch.maps._dispatch import check_labels, compute_type
from maxent.torch.maps.entropies import Entropy, as_entropy
from maxent.torch.maps.losses import check_reduction, check_smoothing, fenchel_young_loss
from maxent.torch.maps.scaling import check_z_loss, checked_scaling
from torch import Tensor

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh

_NAME = "linear_fenchel_young_loss"
# rows at most that have all their scores at once: there the host's time counts, and there is room
FEW = {"cuda": 256}


def linear_fenchel_young_loss(
    hidden: Tensor,
    weight: Tensor,
    target: Tensor | tuple[Tensor, Tensor],
    entropy: str | float | Entropy = "entmax15",
    bias: Tensor | None = None,
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
) -> Tensor:
    """`Omega*(x) + Omega(y) - <x, y>` of the scores `x = W h + b`, which are never there at once.

    ``fenchel_young_loss(linear(hidden, weight, bias), target, ...)`` in little memory and, for
    `alpha > 1`, with one product of matrices instead of three: p has few entries that are not 0,
    and so has the gradient p - y.

    Parameters
    ----------
    hidden : tensor (..., n_features)
        Hidden vectors h.
    weight : tensor (n_classes, n_features)
        W, of the type of ``hidden``. A DTensor with its classes in shards, ``[Shard(0)]`` on a mesh
        of one dimension, is what ``group`` says of the processes of this mesh.
    target : int tensor (...) or pair of tensors (..., k)
        Labels; or proportions as a pair (classes, portions), the classes of a row distinct and its
        portions summing to 1. Places that are not needed have the class ``ignore_index``.
    entropy : str, float or Entropy, default "entmax15"
        "shannon" (cross-entropy), "sparsemax", "entmax15", a number `alpha >= 1`, or ``Shannon()``,
        ``Tsallis(alpha)``, ``NormEntropy(q)``.
    bias : tensor (n_classes,), default None
        The constants b.
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
        The processes that share the vocabulary: ``weight`` and ``bias`` have the classes of this
        process, in the order of ranks, and all else is the same in each of them. Labels, and
        ``label_weight``, count all classes. The loss and the gradient of ``hidden`` are the same in
        all. None is no group.

    Notes
    -----
    Under autocast hidden, weight and bias are cast as those of ``torch.nn.Linear``. A mean over
    nothing is 0. There is no second derivative.

    Examples
    --------
    >>> import torch
    >>> hidden, weight = torch.tensor([[1.0, 2.0], [0.0, 1.0]]), torch.eye(3, 2)
    >>> linear_fenchel_young_loss(hidden, weight, torch.tensor([1, 0]), "sparsemax")
    tensor(0.5000)
    """
    check_reduction(reduction)
    shards = mesh = None
    if is_dtensor(weight):
        mesh = cast(Any, weight).device_mesh
        weight, group = sharded_weight(weight, group, _NAME)
    if group is not None:
        hidden, weight, bias, target, shards = _shared_layer(
            hidden, weight, bias, target, ignore_index, shift, group, mesh
        )
    else:
        hidden, weight, bias = checked_layer(hidden, weight, bias, _NAME)
    classes = len(weight) if shards is None else shards.classes
    objective = checked_objective(
        entropy, temperature, soft_cap, label_smoothing, z_loss, hidden, _NAME
    )
    if sparse_grad and label_smoothing:
        raise ValueError(
            "label_smoothing gives every class a gradient: sparse_grad=True would save nothing; "
            "leave one of them out"
        )
    if shards is not None:
        _check_parallel(objective, sparse_grad)
    elif (
        isinstance(target, Tensor)
        and _few(hidden, target)
        and objective.plain
        and label_weight is None
        and not (sparse_grad or shift)
    ):
        return _of_all_scores(hidden, weight, bias, target, entropy, ignore_index, reduction, check)
    targets = checked_targets(
        target, hidden, classes, ignore_index, reduction, label_weight, shift, check, objective
    )
    lead, share = hidden.shape[:-1], targets.share
    rows = hidden.reshape(-1, hidden.shape[-1]).contiguous()
    number = _counting(share) if hidden.device.type == "cpu" else None
    if number is not None:
        rows, targets = rows.index_select(0, number), targets.take(number)
    loss: Tensor
    if shards is None:
        loss = apply_head(rows, weight, bias, targets, objective, reduction != "none", sparse_grad)
    else:
        loss = ParallelLoss.apply(
            rows, weight, bias, targets, objective, shards, reduction != "none"
        )
    if reduction != "none":
        return loss
    if number is not None:
        loss = loss.new_zeros(len(share)).index_copy(0, number, loss)
    return loss.reshape(lead)


def _few(hidden: Tensor, target: Tensor) -> bool:
    """Whether the rows, with a label each, are so few that their scores may be there at once."""
    if torch.compiler.is_compiling():
        return False
    lead = hidden.shape[:-1]
    few = 0 < lead.numel() <= FEW.get(hidden.device.type, 0)
    return few and target.dtype == torch.int64 and target.shape == lead


def _of_all_scores(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    entropy: str | float | Entropy,
    ignore_index: int,
    reduction: str,
    check: bool | None,
) -> Tensor:
    lead = hidden.shape[:-1]
    if hidden.ndim != 2:
        hidden, target = hidden.reshape(-1, hidden.shape[-1]), target.reshape(-1)
    loss = fenchel_young_loss(
        linear(hidden, weight, bias), target, entropy, reduction, ignore_index, check=check
    )
    loss = loss.to(compute_type(hidden))
    return loss.reshape(lead) if reduction == "none" and len(lead) != 1 else loss


def _shared_layer(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor | tuple[Tensor, Tensor],
    ignore_index: int,
    shift: int,
    group: ProcessGroup,
    mesh: DeviceMesh | None,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | tuple[Tensor, Tensor], Shards | None]:
    """The checked layer with targets, and the shards; None in a group of one.

    An error of one process is one of all: none waits for another that has gone.
    """
    if torch.compiler.is_compiling():
        raise NotImplementedError("a group is not for torch.compile: leave out one of them")
    check_group(group)
    layer, index, error = (hidden, weight, bias), None, None
    try:
        if mesh is not None:
            hidden, bias, target = local_parts(hidden, bias, target, mesh)
            layer = (hidden, weight, bias)
        index, _ = _pairs(target, hidden, ignore_index, shift)
        # what the shards have together is looked at by all
        alone = weight.ndim != 2 or (len(weight) and hidden.shape[-1:] == weight.shape[1:])
        if alone or hidden.dtype != weight.dtype:
            layer = checked_layer(hidden, weight, bias, _NAME)
    except Exception as caught:
        error = caught
    shards = agreed_shards(group, layer[0], layer[1], index, error)
    return *layer, target, shards if dist.get_world_size(group) > 1 else None


def _check_parallel(objective: Objective, sparse_grad: bool) -> None:
    if sparse_grad:
        raise NotImplementedError("sparse_grad=True is not for a group: leave it out there")
    if objective.kind != "tsallis":
        raise NotImplementedError("a group is for Shannon and Tsallis entropies, not for norms")
    if objective.dense:
        raise NotImplementedError(
            "label_smoothing with a soft_cap gives every class of every row a gradient of its own "
            "and is not for a group: leave out one of them"
        )


def checked_targets(
    target: Tensor | tuple[Tensor, Tensor],
    hidden: Tensor,
    classes: int,
    ignore_index: int,
    reduction: str,
    label_weight: Tensor | None,
    shift: int,
    check: bool | None,
    objective: Objective,
) -> Targets:
    """What rows should be and how much they count, or an error in words."""
    index, portion = _pairs(target, hidden, ignore_index, shift)
    if check is None:
        check = hidden.device.type == "cpu"
    if check and not torch.compiler.is_compiling():
        _check_targets(index, portion, classes, ignore_index)
    return _weighed(
        index, portion, ignore_index, reduction, label_weight, classes, compute_type(hidden),
        objective.label_smoothing,
    )  # fmt: skip


def checked_objective(
    entropy: str | float | Entropy,
    temperature: float,
    soft_cap: float | None,
    label_smoothing: float,
    z_loss: float,
    hidden: Tensor,
    name: str,
) -> Objective:
    """What is minimised, or an error in words."""
    chosen = as_entropy(entropy)
    check_smoothing(label_smoothing)
    check_z_loss(z_loss)
    scaling = checked_scaling(temperature, soft_cap, hidden.dtype, name)
    return Objective(chosen.kind, chosen.parameter, scaling, float(label_smoothing), float(z_loss))


def _counting(share: Tensor) -> Tensor | None:
    """The rows that count, where many do not."""
    if torch.compiler.is_compiling() or not len(share):
        return None
    counts = share != 0
    if int(counts.sum()) > (1 - UNUSED) * len(share):
        return None
    return counts.nonzero()[:, 0]


def _weighed(
    index: Tensor,
    portion: Tensor | None,
    ignore_index: int,
    reduction: str,
    label_weight: Tensor | None,
    classes: int,
    dtype: torch.dtype,
    epsilon: float,
) -> Targets:
    """Targets with what each row counts: the weight of its class, or 1; 0 where it is ignored."""
    mean = reduction == "mean"
    if portion is None and label_weight is None and dtype == torch.float32:
        known = label_shares(index, ignore_index, mean)
        if known is not None and epsilon:
            return replace(known, kept=(1 - epsilon) * known.portion, spread=known.share)
        if known is not None:
            return known
    used = index != ignore_index
    portion = used.to(dtype) if portion is None else portion.to(dtype) * used
    counted = portion[:, 0] if portion.shape[1] == 1 else used.any(1).to(dtype)
    share, weights = counted, None
    if label_weight is not None:
        weights = _class_weights(label_weight, classes).to(dtype)
        share = (portion * weights[index.clamp(0, classes - 1)]).sum(1)
    if mean:
        mass = share.sum()
        mass = torch.where(mass != 0, mass, 1)
        share, counted = share / mass, counted / mass
    if not epsilon:
        return Targets(index, portion, share)
    own = (1 - epsilon) * share
    share = own + epsilon * counted * (1 if weights is None else weights.mean())
    kept = portion * (own / torch.where(share == 0, 1, share))[:, None]
    return Targets(index, portion, share, kept, counted, weights)


def _class_weights(label_weight: Tensor, classes: int) -> Tensor:
    if not isinstance(label_weight, Tensor) or label_weight.shape != (classes,):
        given = getattr(label_weight, "shape", type(label_weight).__name__)
        raise ValueError(
            f"label_weight needs a tensor with one number for each of {classes} classes, got "
            f"{given if isinstance(given, str) else tuple(given)}"
        )
    return label_weight


def _pairs(
    target: Tensor | tuple[Tensor, Tensor], hidden: Tensor, ignore_index: int, shift: int
) -> tuple[Tensor, Tensor | None]:
    """Classes and portions, (rows, width); None for labels, which have all."""
    lead = hidden.shape[:-1]
    if isinstance(target, Tensor):
        index, portion = target[..., None], None
        expected = f"labels of shape {tuple(lead)}"
    else:
        if not (isinstance(target, tuple | list) and len(target) == 2):
            raise TypeError(
                f"targets are labels or a pair (classes, portions), got {type(target).__name__}"
            )
        index, portion = target
        expected = f"classes and portions of shape {(*lead, 'k')}"
    if index.is_floating_point() or index.dtype == torch.bool or index.is_complex():
        raise TypeError(
            f"labels must be integers, got {index.dtype}; proportions are a pair (classes, "
            "portions)"
        )
    given = index.shape if portion is None else portion.shape
    if index.ndim != hidden.ndim or index.shape[:-1] != lead or given != index.shape:
        shown = index.shape[:-1] if portion is None else (index.shape, given)
        raise ValueError(f"hidden of shape {tuple(hidden.shape)} needs {expected}, got {shown}")
    if portion is not None and not portion.is_floating_point():
        raise TypeError(f"portions must be floats, got {portion.dtype}")
    if portion is not None and portion.requires_grad:
        raise ValueError("targets are not differentiated: pass portions.detach()")
    index = index.long()
    if shift:
        index = _shifted(index, ignore_index, shift)
        portion = None if portion is None else portion.roll(-shift, -2)
    width = index.shape[-1]
    index = index.reshape(-1, width).contiguous()
    return index, None if portion is None else portion.reshape(-1, width)


def _shifted(index: Tensor, ignore_index: int, shift: int) -> Tensor:
    """Targets from ``shift`` places on, and nothing at the end."""
    length = index.shape[-2] if index.ndim > 1 else 0
    if not (isinstance(shift, int) and 0 <= shift <= length):
        raise ValueError(
            f"shift must be an integer from 0 to {length}, the length of the sequences, got "
            f"{shift!r}"
        )
    later = torch.full_like(index, ignore_index)
    later[..., : length - shift, :] = index[..., shift:, :]
    return later


def _check_targets(index: Tensor, portion: Tensor | None, classes: int, ignore_index: int) -> None:
    check_labels(index.reshape(-1), classes, ignore_index)
    if portion is None:
        return
    used = index != ignore_index
    y = portion.double() * used
    wrong = ~((y.sum(1) - 1).abs() <= 1e-5) | ~(y >= 0).all(1)
    wrong &= used.any(1)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise ValueError(
            f"row {row} of the proportions is not on the simplex: its smallest portion is "
            f"{float(y[row].min()):.6g} and they sum to {float(y[row].sum()):.6g}"
        )
