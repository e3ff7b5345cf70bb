"""Maps to the simplex and its neighbours along any dimension, and their Fenchel-Young losses."""

from __future__ import annotations

import math
from numbers import Real

import torch
from torch import Tensor

from maxent.torch._autograd import LossSum, apply_loss, apply_map, fused
from maxent.torch._dispatch import compute_type
from maxent.torch._plain import recording
from maxent.torch.entropies import Entropy, as_entropy

_REDUCTIONS = ("none", "mean", "sum")


def softmax(x: Tensor, dim: int = -1, mask: Tensor | None = None) -> Tensor:
    """exp(x) / sum exp(x): ``torch.softmax`` with a mask (True = keep).

    For all maps: a score of -inf is masked; rows with nothing to keep give zeros, with gradient
    zero; NaN or +inf make their own row NaN; the result has the type of x.

    >>> import torch
    >>> softmax(torch.zeros(3), mask=torch.tensor([True, True, False]))
    tensor([0.5000, 0.5000, 0.0000])
    """
    if not (torch.compiler.is_compiling() or recording()):
        return _mapped(x, dim, mask, "tsallis", 1.0, None, "softmax")
    # operations that the compiler fuses with their neighbours, and that tracing knows
    x = _scores(x, dim, mask, "softmax")
    empty = x.amax(dim, keepdim=True) == -math.inf
    return torch.softmax(x.masked_fill(empty, 0), dim).masked_fill(empty, 0)


def sparsemax(x: Tensor, dim: int = -1, mask: Tensor | None = None) -> Tensor:
    """The Euclidean projection on the simplex: entmax with alpha = 2.

    >>> import torch
    >>> sparsemax(torch.tensor([0.0, 0.6, 1.2]))
    tensor([0.0000, 0.2000, 0.8000])
    """
    return _mapped(x, dim, mask, "tsallis", 2.0, None, "sparsemax")


def entmax15(x: Tensor, dim: int = -1, mask: Tensor | None = None) -> Tensor:
    """Entmax with alpha = 1.5, between softmax and sparsemax.

    >>> import torch
    >>> entmax15(torch.tensor([0.0, 0.0, 4.0]))
    tensor([0., 0., 1.])
    """
    return _mapped(x, dim, mask, "tsallis", 1.5, None, "entmax15")


def entmax(
    x: Tensor, alpha: float | Tensor = 1.5, dim: int = -1, mask: Tensor | None = None
) -> Tensor:
    """argmax_p <x, p> + H_alpha(p), alpha >= 1: softmax at 1, sparsemax at 2.

    ``alpha`` is a number or a tensor that broadcasts against x with size 1 along ``dim``, one
    alpha per head for example; it is differentiated, and its derivative at 1 is finite. A number
    below 1 is refused; so is a tensor with one on the CPU, while on CUDA, where looking would wait
    for the device, its rows are NaN.

    >>> import torch
    >>> alpha = torch.tensor([[1.0], [2.0]], requires_grad=True)
    >>> entmax(torch.tensor([[0.0, 2.0], [0.0, 2.0]]), alpha).detach()
    tensor([[0.1192, 0.8808],
            [0.0000, 1.0000]])
    """
    if isinstance(alpha, Tensor):
        return _mapped(x, dim, mask, "tsallis", 0.0, alpha, "entmax")
    alpha = _number(alpha, "entmax", "alpha")
    if not 1 <= alpha < math.inf:
        raise ValueError(f"entmax needs a finite alpha >= 1, got {alpha!r}")
    if alpha == 1:
        return softmax(x, dim, mask)
    return _mapped(x, dim, mask, "tsallis", alpha, None, "entmax")


def normmax(
    x: Tensor, q: float | Tensor = 2.0, dim: int = -1, mask: Tensor | None = None
) -> Tensor:
    """argmax_p <x, p> - ||p||_q, the map of ``NormEntropy(q)``, q > 1; inf is allowed.

    ``q`` is a number or a tensor that broadcasts against x with size 1 along ``dim``; it is not
    differentiated.

    >>> import torch
    >>> normmax(torch.tensor([2.0, 1.9, 0.0]), q=float("inf"))
    tensor([0.5000, 0.5000, 0.0000])
    """
    if isinstance(q, Tensor):
        _constant(q, "normmax", "q")
        return _mapped(x, dim, mask, "norm", 0.0, q, "normmax")
    return _mapped(x, dim, mask, "norm", check_exponent(q), None, "normmax")


def budget(x: Tensor, k: float | Tensor, dim: int = -1, mask: Tensor | None = None) -> Tensor:
    """The Euclidean projection on {0 <= p <= 1, sum p = k}: a soft choice of k entries.

    ``k`` is a number from 0 to the size of the dimension, or a tensor that broadcasts against x
    with size 1 along ``dim``; it is not differentiated. Where no more than k entries are kept by
    the mask, all of them get 1.

    >>> import torch
    >>> budget(torch.tensor([3.0, 1.0, 0.8, 0.0]), k=2)
    tensor([1.0000, 0.6000, 0.4000, 0.0000])
    """
    if isinstance(k, Tensor):
        _constant(k, "budget", "k")
        return _mapped(x, dim, mask, "budget", 0.0, k, "budget")
    if recording():
        k = check_budget(k)
    else:
        size = _scores(x, dim, None, "budget").shape[dim]
        k = check_budget(k, size, f"{size}, the size of dim {dim}")
    return _mapped(x, dim, mask, "budget", k, None, "budget")


def sparse_sigmoid(x: Tensor) -> Tensor:
    """clip((1 + x) / 2, 0, 1), entry by entry: sparsemax of [x, 0].

    >>> import torch
    >>> sparse_sigmoid(torch.tensor([-2.0, 0.0, 2.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """
    _floating(x, "sparse_sigmoid")
    return (0.5 + x / 2).clamp(0, 1)


def sparse_plus(x: Tensor) -> Tensor:
    """0 up to -1, (x + 1)^2 / 4, x from 1 on: the softplus whose derivative is sparse_sigmoid.

    >>> import torch
    >>> sparse_plus(torch.tensor([-2.0, 0.0, 2.0]))
    tensor([0.0000, 0.2500, 2.0000])
    """
    _floating(x, "sparse_plus")
    return (x.clamp(-1, 1) + 1) ** 2 / 4 + torch.relu(x - 1)


def fenchel_young_loss(
    input: Tensor,
    target: Tensor,
    entropy: str | float | Entropy = "entmax15",
    reduction: str = "mean",
    ignore_index: int = -100,
    weight: Tensor | None = None,
    dim: int = -1,
    check: bool | None = None,
) -> Tensor:
    """Omega*(x) + Omega(y) - <x, y>, >= 0, with gradient p(x) - y.

    Parameters
    ----------
    input : scores, with the classes along ``dim``.
    target : class indices (integers, the shape of input without ``dim``) or probabilities
        (floats, the shape of input).
    entropy : "shannon" (cross-entropy), "sparsemax", "entmax15", a number alpha >= 1, or
        ``Shannon()``, ``Tsallis(alpha)``, ``NormEntropy(q)``.
    reduction : "mean" over the targets that are not ignored, "sum" or "none".
    ignore_index : the label whose rows do not count.
    weight : one number per class. A row counts as much as its class (with probabilities: their mean
        weight), and "mean" divides by the sum of these.
    dim : where the classes are. The default is the last dimension; ``torch``'s cross_entropy has
        them at 1.
    check : refuse labels out of range and rows that are not on the simplex. By default on CPU
        alone: on CUDA it would wait for the device, and there the loss of such a label is NaN.
        Compiled code does not check.

    Unlike torch, "mean" over nothing (all targets ignored, an empty batch) is 0 with gradient 0,
    and the loss of float16 and bfloat16 scores is float32.

    >>> import torch
    >>> x = torch.tensor([[3.0, 0.0, 0.0], [0.0, 1.0, 0.5]])
    >>> fenchel_young_loss(x, torch.tensor([0, 2]), "sparsemax", reduction="none")
    tensor([0.0000, 0.5625])
    """
    chosen = as_entropy(entropy)
    check_reduction(reduction)
    input = _scores(input, dim, None, "fenchel_young_loss")
    moved = _last(input, dim)
    if not isinstance(target, Tensor):
        raise TypeError(
            f"targets must be a tensor, got {type(target).__name__}; use torch.as_tensor"
        )
    if target.requires_grad:
        raise ValueError("targets are not differentiated: pass target.detach()")
    if target.is_floating_point():
        if not recording() and target.shape != input.shape:
            raise ValueError(
                f"probabilities need the shape of the scores {tuple(input.shape)}, got "
                f"{tuple(target.shape)}; class indices must be integers"
            )
        rows_of_target = _rows(_last(target, dim))
        labels = False
    else:
        rows_of_target = _labels(target, moved.shape[:-1])
        labels = True
    kind, parameter = chosen.kind, chosen.parameter
    if check is None:
        check = input.device.type == "cpu"
    check = check and not (torch.compiler.is_compiling() or recording())
    rows = _rows(moved)
    if labels and reduction != "none" and fused(rows, kind):
        share = _divisor(rows, rows_of_target, ignore_index, weight, reduction)
        total: Tensor = LossSum.apply(rows, rows_of_target, share, parameter, ignore_index, check)
        return total
    loss = apply_loss(rows, rows_of_target, kind, parameter, ignore_index, check)
    share = _shares(rows, rows_of_target, ignore_index, weight, reduction)
    if share is not None:
        loss = loss * share
    return loss.reshape(moved.shape[:-1]) if reduction == "none" else loss.sum()


def check_exponent(q: float) -> float:
    """q of normmax as a float, above 1."""
    q = _number(q, "normmax", "q")
    if not q > 1:
        raise ValueError(f"normmax needs q > 1 (inf allowed), got {q!r}")
    return q


def check_budget(k: float, most: float = math.inf, said: str = "the size of dim") -> float:
    """k of budget as a float, from 0 to the size of the dimension, where that is known."""
    k = _number(k, "budget", "k")
    if not 0 <= k <= most:
        raise ValueError(f"budget needs k from 0 to {said}, got {k!r}")
    return k


def check_reduction(reduction: str) -> None:
    """Refuse a reduction that there is not."""
    if reduction not in _REDUCTIONS:
        raise ValueError(f'reduction must be "none", "mean" or "sum", got {reduction!r}')


def _divisor(
    rows: Tensor, target: Tensor, ignore_index: int, weight: Tensor | None, reduction: str
) -> Tensor | None:
    """For ``LossSum``: without weights the number of labels that count stands for their shares."""
    if weight is not None:
        return _shares(rows, target, ignore_index, weight, reduction)
    return (target != ignore_index).sum() if reduction == "mean" else None


def _shares(
    rows: Tensor, target: Tensor, ignore_index: int, weight: Tensor | None, reduction: str
) -> Tensor | None:
    """What each row's loss is multiplied by; None for 1."""
    dtype = compute_type(rows)
    labels = not target.is_floating_point()
    if weight is not None:
        weight = _class_weights(weight, rows.shape[-1]).to(dtype)
        if labels:
            share = weight[target.clamp(0, rows.shape[-1] - 1)] * (target != ignore_index)
        else:
            share = target.to(dtype) @ weight
    elif reduction != "mean":
        return None
    elif labels:
        share = (target != ignore_index).to(dtype)
    else:
        share = torch.ones_like(rows[:, 0], dtype=dtype)
    if reduction == "mean":
        mass = share.sum()
        share = share / torch.where(mass != 0, mass, 1)
    return share


def _labels(target: Tensor, lead: torch.Size) -> Tensor:
    """Labels in a row."""
    if target.dtype == torch.bool or target.is_complex():
        raise TypeError(
            f"targets must be class indices (integers) or probabilities (floats), got "
            f"{target.dtype}; convert with target.long() or target.float()"
        )
    if not recording() and target.shape != lead:
        raise ValueError(
            f"scores need class indices of shape {tuple(lead)} (theirs without dim) or "
            f"probabilities of their own shape in floats, got {tuple(target.shape)} of "
            f"{target.dtype}"
        )
    return target.reshape(-1).long()


def _class_weights(weight: Tensor, size: int) -> Tensor:
    if not isinstance(weight, Tensor):
        raise TypeError(f"weight must be a tensor, got {type(weight).__name__}; use torch.tensor")
    if weight.shape != (size,):
        raise ValueError(
            f"weight needs one number for each of {size} classes, got a tensor of "
            f"shape {tuple(weight.shape)}"
        )
    return weight


def _mapped(
    x: Tensor,
    dim: int,
    mask: Tensor | None,
    kind: str,
    parameter: float,
    parameters: Tensor | None,
    name: str,
) -> Tensor:
    x = _scores(x, dim, mask, name)
    moved = _last(x, dim)
    if parameters is not None:
        parameters = _parameter_rows(x, parameters, dim, name)
    p = apply_map(_rows(moved), parameters, kind, parameter)
    if moved.ndim != 2:
        p = p.reshape(moved.shape)
    return p if moved is x else p.movedim(x.ndim - 1, dim % x.ndim)  # ONNX counts from the front


def _last(x: Tensor, dim: int) -> Tensor:
    """x with a dimension moved to the end: x itself where it is there."""
    return x if dim in (-1, x.ndim - 1) else x.movedim(dim % x.ndim, x.ndim - 1)


def _rows(moved: Tensor) -> Tensor:
    rows = moved if moved.ndim == 2 else moved.reshape(-1, moved.shape[-1])
    return rows.contiguous()


def _parameter_rows(x: Tensor, parameters: Tensor, dim: int, name: str) -> Tensor:
    """One parameter per row from a tensor that broadcasts against x."""
    shape = list(x.shape)
    shape[dim] = 1
    if not parameters.is_floating_point():
        parameters = parameters.to(torch.get_default_dtype())
    try:
        return parameters.expand(shape).reshape(-1)
    except RuntimeError:
        raise ValueError(
            f"{name}'s parameter of shape {tuple(parameters.shape)} does not broadcast to "
            f"{tuple(shape)}, the scores' shape with size 1 along dim {dim}"
        ) from None


def _scores(x: Tensor, dim: int, mask: Tensor | None, name: str) -> Tensor:
    """Checked scores, with -inf where masked."""
    _floating(x, name)
    if x.ndim == 0:
        raise ValueError(f"{name} needs at least one dimension, got a scalar; use x.reshape(1)")
    if not -x.ndim <= dim < x.ndim:
        raise IndexError(
            f"{name}: dim {dim} of scores of shape {tuple(x.shape)}; it must lie from {-x.ndim} "
            f"to {x.ndim - 1}"
        )
    if not recording() and x.shape[dim] == 0:  # a comparison of shapes cannot be recorded
        raise ValueError(f"{name} needs something to choose from: dim {dim} has size 0")
    if mask is None:
        return x
    if mask.dtype != torch.bool:
        raise TypeError(f"a mask is boolean (True = keep), got {mask.dtype}; use mask.bool()")
    return x.masked_fill(~mask, -math.inf)


def _floating(x: Tensor, name: str) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} needs a tensor, got {type(x).__name__}; use torch.as_tensor")
    if not x.is_floating_point():
        raise TypeError(f"{name} needs floating scores, got {x.dtype}; convert with x.float()")


def _number(value: float, name: str, parameter: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name}'s {parameter} must be a number or a tensor, got {value!r}")
    return float(value)


def _constant(value: Tensor, name: str, parameter: str) -> None:
    if value.requires_grad:
        raise ValueError(f"{name}'s {parameter} is not differentiated: pass it detached")
