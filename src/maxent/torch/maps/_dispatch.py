"""Which code computes a map: Triton on CUDA, the core's compiled kernels on CPU, or plain torch.

What comes in are (rows, size) tensors of any floating type, free of autograd. The numbers agree
to rounding; float16 and bfloat16 are computed in float32.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from types import ModuleType

import torch
from maxent.rows.arrays import Array
from maxent.torch.maps import _derivatives, _plain
from torch import Tensor

_MODULES = {
    "numba": "maxent.torch.maps._compiled",
    "triton": "maxent.torch.maps._triton",
    "triton backward": "maxent.torch.maps._triton_backward",
}
_forced: ContextVar[str | None] = ContextVar("backend", default=None)


@contextmanager
def backend(name: str) -> Iterator[None]:
    """Use one backend inside a ``with`` block: "plain", "numba" (CPU) or "triton" (CUDA).

    Without it the fastest that is installed is taken. Maps that a backend does not have (on CUDA
    all but those of Tsallis entropies) stay with plain torch operations.

    Parameters
    ----------
    name : "plain", "numba" or "triton"
        The backend.

    Examples
    --------
    >>> import torch
    >>> import maxent.torch as mt
    >>> with mt.backend("plain"):
    ...     mt.sparsemax(torch.tensor([0.0, 0.5, 3.0]))
    tensor([0., 0., 1.])
    """
    if name not in ("plain", "numba", "triton"):
        raise ValueError(f'backend must be "plain", "numba" or "triton", got {name!r}')
    if name in _MODULES and _load(name) is None:
        raise ImportError(f"the backend {name!r} needs {name}: pip install {name}")
    token = _forced.set(name)
    try:
        yield
    finally:
        _forced.reset(token)


@cache
def _load(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(_MODULES[name])
    except ImportError:
        return None


def _module(name: str, x: Tensor) -> ModuleType | None:
    """The module of a backend where it is the one for this tensor."""
    device = "cuda" if name == "triton" else "cpu"
    forced = _forced.get()
    if forced == name and x.device.type != device:
        raise RuntimeError(f"the backend {name!r} is for {device} tensors, got one on {x.device}")
    return _load(name) if x.device.type == device and forced in (None, name) else None


def compiled(x: Tensor) -> bool:
    """Whether the core's compiled kernels are for this tensor."""
    return _module("numba", x) is not None


def backend_of(x: Tensor) -> str:
    """The backend that this device, the setting and what is installed leave for a tensor."""
    return next((name for name in ("numba", "triton") if _module(name, x) is not None), "plain")


def direct(x: Tensor) -> bool:
    """Whether the kernels for CUDA take these scores."""
    triton = _load("triton") if _forced.get() in (None, "triton") else None
    if triton is None or x.shape[-1] > triton.LONGEST:
        return False
    return x.get_device() == torch.cuda.current_device()  # kernels are launched there


def direct_map(x: Tensor, alpha: float) -> Tensor:
    """entmax of contiguous scores of any shape, by the kernels for CUDA."""
    triton = _load("triton")
    assert triton is not None
    p: Tensor = triton.tsallis_map(x, alpha)
    return p


def direct_pair(p: Tensor, g: Tensor) -> bool:
    """Whether the kernels for CUDA take a map and what comes back to it as they lie."""
    same = g.dtype == p.dtype and g.shape == p.shape and g.is_contiguous()
    return same and not torch._C._are_functorch_transforms_active() and has_memory(g)


def direct_vjp(p: Tensor, g: Tensor, alpha: float) -> Tensor:
    """``vjp`` of what is ``direct``."""
    if alpha == 1:
        return torch.ops.aten._softmax_backward_data(g, p, -1, p.dtype)
    backward = _load("triton backward")
    assert backward is not None
    product: Tensor = backward.tsallis_vjp(p, g, alpha)
    return product


def compute_type(x: Tensor) -> torch.dtype:
    """The type a map is computed in."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def as_map(x: Tensor, kind: str, parameter: float, parameters: Tensor | None) -> Tensor:
    """p of each row; kind "tsallis", "norm" or "budget", with one parameter or one per row."""
    if parameters is not None and parameters.device.type == "cpu":
        _check_parameters(kind, parameters, x.shape[1])
    if x.numel() == 0:
        return torch.empty_like(x)
    triton = _module("triton", x)
    if triton is not None and kind == "tsallis" and triton.supported(x):
        alpha: float | Tensor = parameter
        if parameters is not None:
            alphas = parameters.to(torch.float32).contiguous()
            alpha = torch.where(alphas >= 1, alphas, math.nan)
        p: Tensor = triton.tsallis_map(x, alpha)
        return p
    if kind == "tsallis" and parameters is None and parameter == 1:
        return _softmax(x)
    rows = x.to(compute_type(x))
    if kind == "budget":
        return _budget(rows, parameter, parameters).to(x.dtype)
    return _conjugate(rows, kind, parameter, parameters)[0].to(x.dtype)


def loss(
    x: Tensor, target: Tensor, kind: str, parameter: float, ignore: int, check: bool
) -> tuple[Tensor, Tensor]:
    """The Fenchel-Young loss (rows,) and its gradient p - y, for labels or rows of probabilities.

    Loss and gradient are 0 for the label ``ignore`` and in rows that are -inf everywhere; the loss
    of a label that is no column is NaN.
    """
    if not target.is_floating_point() and fuses(x, kind, parameter):
        return shared_loss(x, target, None, kind, parameter, ignore, check)
    labels = not target.is_floating_point()
    if check:
        (check_labels if labels else check_probabilities)(target, x.shape[1], ignore)
    if len(x) == 0:
        return x.new_empty(0, dtype=compute_type(x)), torch.empty_like(x)
    rows = x.to(compute_type(x))
    residual, top, value = _conjugate(rows, kind, parameter, None)
    void = (top == -math.inf) | _plain.ignored(target, ignore)
    if labels:
        own = target.clamp(0, x.shape[1] - 1)[:, None]
        value = value + (top[:, None] - rows.gather(1, own))[:, 0]
        value = torch.where(own[:, 0] == target, value, math.nan)
        residual.scatter_add_(1, own, torch.full_like(own, -1, dtype=rows.dtype))
    else:
        y = target.to(rows.dtype).masked_fill(void[:, None], 0)
        below = torch.where(y > 0, top[:, None] - rows, 0)
        value = value + (y * below).sum(1) + entropy_value(y, kind, parameter)
        residual.sub_(y)
    if bool(void.any()):
        residual.masked_fill_(void[:, None], 0)
        value = value.masked_fill(void, 0)
    # + 0: a loss of exactly zero has no sign; NaN stays
    return value.clamp_min(0) + 0.0, residual.to(x.dtype)


def fuses(x: Tensor, kind: str, parameter: float) -> bool:
    """Whether ``shared_loss`` takes these scores."""
    triton = _module("triton", x)
    if len(x) == 0:
        return False
    if x.device.type == "cpu":  # torch's exp is faster
        softmax = kind == "tsallis" and parameter == 1
        return not softmax and _module("numba", x) is not None
    return kind == "tsallis" and triton is not None and triton.supported(x)


def shared_loss(
    x: Tensor,
    target: Tensor,
    share: Tensor | None,
    kind: str,
    parameter: float,
    ignore: int,
    check: bool,
    in_place: bool = False,
) -> tuple[Tensor, Tensor]:
    """Losses by labels and their gradients, each row times its share, in one pass.

    share : one number per row, or a single one by which all are divided.
    in_place : whether the gradients take the place of the scores; on CUDA alone.
    """
    if x.device.type == "cpu":
        return _compiled_loss(x, target, share, kind, parameter, ignore, check)
    if check:
        check_labels(target, x.shape[1], ignore)
    triton = _load("triton")
    assert triton is not None
    both: tuple[Tensor, Tensor] = triton.tsallis_loss(x, target, parameter, ignore, share, in_place)
    return both


def _compiled_loss(
    x: Tensor,
    target: Tensor,
    share: Tensor | None,
    kind: str,
    parameter: float,
    ignore: int,
    check: bool,
) -> tuple[Tensor, Tensor]:
    compiled = _load("numba")
    assert compiled is not None
    divisor, shares = 1.0, None
    if share is not None and share.ndim:
        shares = _array(share.double())
    elif share is not None:
        divisor = max(float(share), 1.0)
    loss, gradient, wrong = compiled.label_loss(
        _array(x.to(compute_type(x))), _array(target), kind, parameter, ignore, shares, divisor
    )
    if check and wrong:
        check_labels(target, x.shape[1], ignore)
    return torch.from_numpy(loss), torch.from_numpy(gradient).to(x.dtype)


def rescale(x: Tensor, factor: Tensor) -> None:
    """x times a number that only the device knows, in place."""
    if x.device.type == "cpu":
        if float(factor) != 1:
            x.data.mul_(factor)  # as a kernel would: autograd saved it and does not see this
        return
    triton = _load("triton")
    assert triton is not None
    triton.rescale(x, factor)


def vjp(kind: str, p: Tensor, g: Tensor, parameter: float, parameters: Tensor | None) -> Tensor:
    """The Jacobian of the map times g: fused where nothing differentiates it any further."""
    if torch.compiler.is_compiling() or torch.is_grad_enabled():
        return plain_vjp(kind, p, g, parameter, parameters)
    if kind == "tsallis" and parameters is None and parameter == 1:
        return torch.ops.aten._softmax_backward_data(g, p, 1, p.dtype)
    compiled = _module("numba", p)
    arrays = None if compiled is None else _arrays(p, g)
    if compiled is not None and arrays is not None:
        given = None if parameters is None else _array(parameters.double())
        return torch.from_numpy(compiled.vjp(*arrays, kind, parameter, given)).to(p.dtype)
    triton = _module("triton", p) if kind == "tsallis" else None
    if triton is not None and triton.supported(p) and has_memory(g):
        alpha = parameter if parameters is None else parameters.to(torch.float32).contiguous()
        backward = _load("triton backward")
        assert backward is not None
        product: Tensor = backward.tsallis_vjp(p.contiguous(), g.to(p.dtype).contiguous(), alpha)
        return product
    return plain_vjp(kind, p, g, parameter, parameters)


def plain_vjp(
    kind: str, p: Tensor, g: Tensor, parameter: float, parameters: Tensor | None
) -> Tensor:
    """``vjp`` in operations that can be differentiated in every mode."""
    rows, cotangent = p.to(compute_type(p)), g.to(compute_type(p))
    return _derivatives.vjp(kind, rows, cotangent, _column(parameter, parameters, rows)).to(p.dtype)


def conjugate(rows: Tensor, kind: str, parameter: float) -> tuple[Tensor, Tensor, Tensor]:
    """The map, the largest score of each row and what the conjugate exceeds it by."""
    return _conjugate(rows, kind, parameter, None)


def _conjugate(
    rows: Tensor, kind: str, parameter: float, parameters: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    compiled = _module("numba", rows)
    softmax = kind == "tsallis" and parameters is None and parameter == 1  # torch's exp is faster
    if softmax:
        return _softmax_conjugate(rows)
    if compiled is None:
        return _plain.conjugate(rows, kind, _column(parameter, parameters, rows))
    alphas = None if parameters is None else _array(parameters.double())
    p, top, excess = compiled.conjugate(_array(rows), kind, parameter, alphas)
    return torch.from_numpy(p), torch.from_numpy(top), torch.from_numpy(excess).to(rows.dtype)


def _budget(rows: Tensor, k: float, budgets: Tensor | None) -> Tensor:
    compiled = _module("numba", rows)
    if compiled is None:
        return _plain.budget(rows, _column(k, budgets, rows))
    given = None if budgets is None else _array(budgets.double())
    return torch.from_numpy(compiled.budget(_array(rows), k, given))


def _softmax_conjugate(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """p, the largest score and what the log-partition exceeds it by; p is all it has room for."""
    p, top = torch.softmax(rows, 1), rows.amax(1)
    excess = -p.amax(1).log()
    bad = ~top.isfinite()
    if rows.device.type != "cpu" or bool(bad.any()):
        fill = torch.where(top == -math.inf, 0.0, math.nan).to(p.dtype)
        p = torch.where(bad[:, None], fill[:, None], p)
        excess = torch.where(bad, fill, excess)
    return p, top, excess


def _softmax(x: Tensor) -> Tensor:
    p = torch.softmax(x, 1)
    # torch gives NaN to rows that are -inf everywhere, as to those with NaN or +inf
    if x.device.type != "cpu" or bool(p[:, 0].isnan().any()):
        p.masked_fill_(x.amax(1, keepdim=True) == -math.inf, 0)
    return p


def _array(x: Tensor) -> Array:
    return x.detach().contiguous().numpy()


def has_memory(g: Tensor) -> bool:
    """Whether a kernel may read it: not a batch of gradients (is_grads_batched)."""
    try:
        g.data_ptr()
    except RuntimeError:
        return False
    return True


def _arrays(p: Tensor, g: Tensor) -> tuple[Array, Array] | None:
    """Both as arrays, or None where g is a batch of gradients (is_grads_batched) without memory."""
    try:
        return _array(p.to(compute_type(p))), _array(g.to(compute_type(p)))
    except RuntimeError:
        return None


def _column(parameter: float, parameters: Tensor | None, x: Tensor) -> float | Tensor:
    return parameter if parameters is None else parameters.to(x.dtype)[:, None]


def entropy_value(y: Tensor, kind: str, parameter: float) -> Tensor:
    """Omega of rows of probabilities."""
    if kind == "norm":
        return torch.linalg.vector_norm(y, parameter, dim=1) - 1
    log_y = torch.where(y > 0, y, 1).log()
    a = parameter - 1
    if a == 0:
        return (y * log_y).sum(1)
    # y^a - 1 without cancellation as alpha -> 1; ONNX has no expm1
    half = torch.tanh(a / 2 * log_y)
    return (y * (2 * half / (1 - half) / (a * parameter))).sum(1)


def _check_parameters(kind: str, parameters: Tensor, size: int) -> None:
    name, rule, right = {
        "tsallis": ("entmax", "finite alpha >= 1", (parameters >= 1) & (parameters < math.inf)),
        "norm": ("normmax", "q > 1", parameters > 1),
        "budget": ("budget", f"k from 0 to {size}", (parameters >= 0) & (parameters <= size)),
    }[kind]
    if not bool(right.all()):
        wrong = float(parameters[~right][0])
        raise ValueError(f"{name} needs {rule}, the tensor given has {wrong:.6g}")


def check_labels(target: Tensor, size: int, ignore: int) -> None:
    """Refuse labels that are no columns."""
    wrong = ((target < 0) | (target >= size)) & (target != ignore)
    if bool(wrong.any()):
        raise IndexError(
            f"label {int(target[wrong][0])} is out of range for {size} classes: labels are "
            f"0 to {size - 1}, or ignore_index"
        )


def check_probabilities(target: Tensor, size: int, ignore: int) -> None:
    """Refuse rows off the simplex that are not ignored."""
    total = target.sum(dim=1, dtype=torch.float64)
    tolerance = max(1e-5, 4 * torch.finfo(target.dtype).eps)
    wrong = ~((total - 1).abs() <= tolerance) | ~(target >= 0).all(dim=1)
    wrong &= ~_plain.ignored(target, ignore)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise ValueError(
            f"row {row} of the targets is not on the simplex: its smallest entry is "
            f"{float(target[row].min()):.6g} and it sums to {float(total[row]):.6g}; divide counts "
            "by their sum, fill rows to be ignored with ignore_index, or pass check=False"
        )
