"""Maps to the simplex and its neighbours along any dimension."""

from __future__ import annotations

import math
from numbers import Real

import torch
from maxent.torch.maps._autograd import apply_map, direct, direct_map
from maxent.torch.maps._plain import recording
from maxent.torch.maps._shapes import as_rows, check_floating, checked_scores, moved_last
from torch import Tensor


def softmax(x: Tensor, dim: int = -1, mask: Tensor | None = None) -> Tensor:
    """`exp(x) / sum exp(x)`: ``torch.softmax`` with a mask (True = keep).

    For all maps: a score of -inf is masked; rows with nothing to keep give zeros, with gradient
    zero; NaN or +inf make their own row NaN; the result has the type of x.

    Parameters
    ----------
    x : tensor
        Scores.
    dim : int, default -1
        Dimension along which to work.
    mask : bool tensor, default None
        Entries to keep; it broadcasts against x.

    Examples
    --------
    >>> import torch
    >>> softmax(torch.zeros(3), mask=torch.tensor([True, True, False]))
    tensor([0.5000, 0.5000, 0.0000])
    """
    if not (torch.compiler.is_compiling() or recording()):
        return _mapped(x, dim, mask, "tsallis", 1.0, None, "softmax")
    # operations that the compiler fuses with their neighbours, and that tracing knows
    x = checked_scores(x, dim, mask, "softmax")
    empty = x.amax(dim, keepdim=True) == -math.inf
    return torch.softmax(x.masked_fill(empty, 0), dim).masked_fill(empty, 0)


def sparsemax(x: Tensor, dim: int = -1, mask: Tensor | None = None) -> Tensor:
    """The Euclidean projection on the simplex: entmax with `alpha = 2`.

    Parameters
    ----------
    x : tensor
        Scores.
    dim : int, default -1
        Dimension along which to work.
    mask : bool tensor, default None
        Entries to keep; it broadcasts against x.

    Examples
    --------
    >>> import torch
    >>> sparsemax(torch.tensor([0.0, 0.6, 1.2]))
    tensor([0.0000, 0.2000, 0.8000])
    """
    return _mapped(x, dim, mask, "tsallis", 2.0, None, "sparsemax")


def entmax15(x: Tensor, dim: int = -1, mask: Tensor | None = None) -> Tensor:
    """Entmax with `alpha = 1.5`, between softmax and sparsemax.

    Parameters
    ----------
    x : tensor
        Scores.
    dim : int, default -1
        Dimension along which to work.
    mask : bool tensor, default None
        Entries to keep; it broadcasts against x.

    Examples
    --------
    >>> import torch
    >>> entmax15(torch.tensor([0.0, 0.0, 4.0]))
    tensor([0., 0., 1.])
    """
    return _mapped(x, dim, mask, "tsallis", 1.5, None, "entmax15")


def entmax(
    x: Tensor, alpha: float | Tensor = 1.5, dim: int = -1, mask: Tensor | None = None
) -> Tensor:
    """`argmax_p <x, p> + H_alpha(p)`, `alpha >= 1`: softmax at 1, sparsemax at 2.

    An alpha below 1 is refused; so is a tensor with one on the CPU, while on CUDA, where looking
    would wait for the device, its rows are NaN.

    Parameters
    ----------
    x : tensor
        Scores.
    alpha : float or tensor, default 1.5
        A number, or a tensor that broadcasts against x with size 1 along ``dim``, one alpha per
        head for example; it is differentiated, and its derivative at 1 is finite.
    dim : int, default -1
        Dimension along which to work.
    mask : bool tensor, default None
        Entries to keep; it broadcasts against x.

    Examples
    --------
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
    """`argmax_p <x, p> - ||p||_q`, the map of ``NormEntropy(q)``, `q > 1`; inf is allowed.

    Parameters
    ----------
    x : tensor
        Scores.
    q : float or tensor, default 2.0
        A number, or a tensor that broadcasts against x with size 1 along ``dim``; it is not
        differentiated.
    dim : int, default -1
        Dimension along which to work.
    mask : bool tensor, default None
        Entries to keep; it broadcasts against x.

    Examples
    --------
    >>> import torch
    >>> normmax(torch.tensor([2.0, 1.9, 0.0]), q=float("inf"))
    tensor([0.5000, 0.5000, 0.0000])
    """
    if isinstance(q, Tensor):
        _constant(q, "normmax", "q")
        return _mapped(x, dim, mask, "norm", 0.0, q, "normmax")
    return _mapped(x, dim, mask, "norm", check_exponent(q), None, "normmax")


def budget(x: Tensor, k: float | Tensor, dim: int = -1, mask: Tensor | None = None) -> Tensor:
    """The Euclidean projection on `{0 <= p <= 1, sum p = k}`: a soft choice of k entries.

    Where no more than k entries are kept by the mask, all of them get 1.

    Parameters
    ----------
    x : tensor
        Scores.
    k : float or tensor
        A number from 0 to the size of the dimension, or a tensor that broadcasts against x with
        size 1 along ``dim``; it is not differentiated.
    dim : int, default -1
        Dimension along which to work.
    mask : bool tensor, default None
        Entries to keep; it broadcasts against x.

    Examples
    --------
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
        size = checked_scores(x, dim, None, "budget").shape[dim]
        k = check_budget(k, size, f"{size}, the size of dim {dim}")
    return _mapped(x, dim, mask, "budget", k, None, "budget")


def sparse_sigmoid(x: Tensor) -> Tensor:
    """`clip((1 + x) / 2, 0, 1)`, entry by entry: sparsemax of [x, 0].

    Parameters
    ----------
    x : tensor
        Scores.

    Examples
    --------
    >>> import torch
    >>> sparse_sigmoid(torch.tensor([-2.0, 0.0, 2.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """
    check_floating(x, "sparse_sigmoid")
    return (0.5 + x / 2).clamp(0, 1)


def sparse_plus(x: Tensor) -> Tensor:
    """0 up to -1, `(x + 1)^2 / 4`, x from 1 on: the softplus whose derivative is sparse_sigmoid.

    Parameters
    ----------
    x : tensor
        Scores.

    Examples
    --------
    >>> import torch
    >>> sparse_plus(torch.tensor([-2.0, 0.0, 2.0]))
    tensor([0.0000, 0.2500, 2.0000])
    """
    check_floating(x, "sparse_plus")
    return (x.clamp(-1, 1) + 1) ** 2 / 4 + torch.relu(x - 1)


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


def _mapped(
    x: Tensor,
    dim: int,
    mask: Tensor | None,
    kind: str,
    parameter: float,
    parameters: Tensor | None,
    name: str,
) -> Tensor:
    if mask is None and parameters is None and kind == "tsallis" and direct(x, dim):
        return direct_map(x, parameter)
    x = checked_scores(x, dim, mask, name)
    moved = moved_last(x, dim)
    if parameters is not None:
        parameters = _parameter_rows(x, parameters, dim, name)
    p = apply_map(as_rows(moved), parameters, kind, parameter)
    if moved.ndim != 2:
        p = p.reshape(moved.shape)
    return p if moved is x else p.movedim(x.ndim - 1, dim % x.ndim)  # ONNX counts from the front


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


def _number(value: float, name: str, parameter: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name}'s {parameter} must be a number or a tensor, got {value!r}")
    return float(value)


def _constant(value: Tensor, name: str, parameter: str) -> None:
    if value.requires_grad:
        raise ValueError(f"{name}'s {parameter} is not differentiated: pass it detached")
