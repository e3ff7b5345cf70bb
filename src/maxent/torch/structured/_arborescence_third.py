"""Third derivatives of the log-partition of spanning trees, what second ones of marginals need."""

from __future__ import annotations

from collections.abc import Callable

import torch
from maxent.torch.structured import _arborescence_plain
from torch import Tensor

_AGREES = 1e-9  # of a second derivative that is known, in units of its size
_CONDITION = 1e8  # of a matrix whose inverse keeps half of its digits


def third_cumulant(
    rows: Tensor, lengths: Tensor | None, single: bool, v: Tensor, g: Tensor, product: Tensor
) -> Tensor:
    """The third derivative of log Z along v and g; ``product`` is the second one along v.

    It is that of a determinant where this gives ``product`` too. Elsewhere (weights that span more
    than the digits of a number, graphs of one node) nodes are eliminated one by one in logarithms,
    without a difference that could lose digits.
    """
    exact, directions = rows.double(), (v.double(), g.double())
    if torch._C._are_functorch_transforms_active():  # nothing may be looked at
        return _along(_eliminated, exact, lengths, single, *directions)[1].to(rows.dtype)
    with torch.no_grad():
        good = _invertible(exact, lengths, single)
        second, _ = _at(good, _log_determinant, exact, lengths, single, *directions)
        size = product.abs().amax((1, 2)) + 1e-3 * v.abs().amax((1, 2))
        tolerance = max(_AGREES, 8 * torch.finfo(rows.dtype).eps)
        good &= (second - product).abs().amax((1, 2)) <= tolerance * size
    _, moderate = _at(good, _log_determinant, exact, lengths, single, *directions)
    _, extreme = _at(~good, _eliminated, exact, lengths, single, *directions)
    return (moderate + extreme).to(rows.dtype)


def _at(
    chosen: Tensor,
    log_partition: Callable[[Tensor, Tensor | None, bool], Tensor],
    rows: Tensor,
    lengths: Tensor | None,
    single: bool,
    *directions: Tensor,
) -> tuple[Tensor, Tensor]:
    """``_along`` of chosen graphs, 0 for the others."""
    (at,) = chosen.nonzero(as_tuple=True)
    if len(at) == 0:
        return torch.zeros_like(rows), torch.zeros_like(rows)
    some = None if lengths is None else lengths[at]
    parts = _along(log_partition, rows[at], some, single, *(x[at] for x in directions))
    second, third = (torch.zeros_like(rows).index_put((at,), part) for part in parts)
    return second, third


def _invertible(rows: Tensor, lengths: Tensor | None, single: bool) -> Tensor:
    """For which graphs the matrix of ``_log_determinant`` has an inverse worth the name."""
    laplacian, _ = _laplacian(rows, lengths, single)
    inverse, info = torch.linalg.inv_ex(laplacian)
    if rows.shape[1] == 1:
        return info == 0
    size = [x.abs().sum(1).amax(1) for x in (laplacian, inverse)]
    return (info == 0) & (size[0] * size[1] < _CONDITION)


def _along(
    log_partition: Callable[[Tensor, Tensor | None, bool], Tensor],
    rows: Tensor,
    lengths: Tensor | None,
    single: bool,
    v: Tensor,
    g: Tensor,
) -> tuple[Tensor, Tensor]:
    """The second derivative along v, and the third along v and g."""

    def slope(scores: Tensor) -> Tensor:
        first = torch.func.grad(lambda x: log_partition(x, lengths, single).sum())(scores)
        return (first * v).sum()

    def bend(scores: Tensor) -> tuple[Tensor, Tensor]:
        second = torch.func.grad(slope)(scores)
        return (second * g).sum(), second

    third, second = torch.func.grad(bend, has_aux=True)(rows)
    return second, third


def _arcs(rows: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """Which arcs (batch, n, n) there are, and which nodes but the root (batch, n - 1) are not."""
    n = rows.shape[1]
    inside = torch.ones_like(rows, dtype=torch.bool)
    if lengths is not None:
        inside = _arborescence_plain._inside(lengths, n)
    between = inside & ~torch.eye(n, dtype=torch.bool, device=rows.device)
    return between, ~inside[:, 0, 1:]


def _log_determinant(rows: Tensor, lengths: Tensor | None, single: bool) -> Tensor:
    """log Z as the determinant of Koo et al. (2007): fit for derivatives of moderate scores."""
    laplacian, taken = _laplacian(rows, lengths, single)
    return torch.linalg.slogdet(laplacian)[1] + taken


def _laplacian(rows: Tensor, lengths: Tensor | None, single: bool) -> tuple[Tensor, Tensor]:
    """The matrices, and the logarithm of what was taken off their determinants."""
    inside, spare = _arcs(rows, lengths)
    scores = torch.where(inside, rows, -torch.inf)[:, :, 1:]
    top = scores.detach().amax(1, keepdim=True)
    top = torch.where(top > -torch.inf, top, 0.0)
    weight = torch.exp(scores - top)
    roots, arcs = weight[:, 0], weight[:, 1:]
    total = arcs.sum(1) + spare.double() + (0.0 if single else roots)
    laplacian = torch.diag_embed(total) - arcs
    if single and rows.shape[1] > 1:
        laplacian = torch.cat([roots[:, None], laplacian[:, 1:]], dim=1)
    return laplacian, (top[:, 0] * ~spare).sum(1)


def _eliminated(rows: Tensor, lengths: Tensor | None, single: bool) -> Tensor:
    """log Z by letting one node after the other leave, in logarithms of finite numbers.

    One dependent of the root: its arcs are made so unlikely that none but the least number of them
    counts. Arcs that there are not are less likely than that, and weigh exactly 0.
    """
    n = rows.shape[1]
    inside, spare = _arcs(rows, lengths)
    inside = inside & (rows > -torch.inf)
    scores = torch.where(inside, rows, 0.0)
    spread = (scores.detach().amax((1, 2)) - scores.detach().amin((1, 2)))[:, None]
    least = n * spread + 1000.0
    shift = least if single else torch.zeros_like(least)
    never = -8 * n * (spread + shift) - 1000.0
    arcs = torch.where(inside, scores, never[:, :, None])[:, :, 1:].mT
    root = torch.where(spare, 0.0, arcs[:, :, 0] - shift)
    weight = torch.cat([arcs[:, :, 1:], root[:, :, None]], dim=2)
    value = torch.where(spare.all(1), 0.0, shift[:, 0])
    for _ in range(n - 1):
        heads = weight[:, 0, 1:]
        total = torch.logsumexp(heads, 1)
        through = weight[:, 1:, :1] + (heads - total[:, None])[:, None]
        weight = torch.logsumexp(torch.stack([weight[:, 1:, 1:], through]), 0)
        value = value + total
    return value
