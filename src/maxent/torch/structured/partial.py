"""Partial transport for torch: plans that move a given mass and leave the rest where it is."""

from __future__ import annotations

import torch
from maxent.torch._operators import Operation
from maxent.torch.structured.transport import transport
from torch import Tensor


def partial_transport(
    x: Tensor,
    a: Tensor,
    b: Tensor,
    mass: float,
    strength: float = 1.0,
    regularization: str = "l2",
) -> Tensor:
    """`argmax_P <x, P> - strength Omega(P)`: row sums at most a, column sums at most b, total mass.

    What stays behind is a row and a column more, which score 0 and do not meet: a transport
    problem, solved as exactly as any. `Omega` counts them too; at strength 0 there is no `Omega`,
    and the plan solves the linear programme.

    Parameters
    ----------
    x : tensor (..., m, n)
        Scores, minus costs; -inf forbids an entry.
    a : tensor (m,)
        What each row has at most.
    b : tensor (n,)
        What each column takes at most.
    mass : float
        What is moved, at most the sum of a and that of b.
    strength : float, default 1.0
        Factor of `Omega`; 0 is the hard plan, without a gradient.
    regularization : "l2" or "kl", default "l2"
        `Omega`: half the squared norm ("l2": sparse plans) or `sum P log P` ("kl": Sinkhorn's).

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor([[-1.0, -9.0], [-9.0, -2.0]])
    >>> partial_transport(x, torch.ones(2), torch.ones(2), mass=1.0, strength=0)
    tensor([[1., 0.],
            [0., 0.]])
    """
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.ndim < 2:
        raise ValueError(
            "partial_transport needs a floating tensor (..., m, n) of scores, got "
            f"{tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__}"
        )
    sizes = tuple(tuple(torch.as_tensor(v).shape) for v in (a, b))
    if sizes != (x.shape[-2:-1], x.shape[-1:]):
        raise ValueError(
            f"partial_transport of {x.shape[-2]} x {x.shape[-1]} scores needs vectors a and b of "
            f"these sizes, got the shapes {sizes[0]} and {sizes[1]}"
        )
    rows, columns = _Sides.apply(torch.as_tensor(a), torch.as_tensor(b), float(mass))
    padded = torch.nn.functional.pad(x, (0, 1, 0, 1))
    corner = torch.zeros(padded.shape[-2:], dtype=torch.bool, device=x.device)
    corner[-1, -1] = True
    padded = padded.masked_fill(corner, -torch.inf)
    return transport(padded, rows, columns, strength, regularization)[..., :-1, :-1]


class _Sides(Operation, name="partial_transport_sides", whole={"a": 1, "b": 1}):
    """The sums of rows and columns, with what the other side leaves behind as the last."""

    @staticmethod
    def run(a: Tensor, b: Tensor, mass: float) -> tuple[Tensor, Tensor]:
        a, b = a.detach().to("cpu", torch.float64), b.detach().to("cpu", torch.float64)
        least = min(float(a.sum()), float(b.sum()))
        given = bool((a >= 0).all()) and bool((b >= 0).all())
        if not (given and 0 <= mass <= least * (1 + 1e-6)):
            raise ValueError(
                "partial_transport needs sums a, b >= 0 and a mass from 0 to the smaller total, "
                f"got the mass {mass:.6g} for totals of {float(a.sum()):.6g} and "
                f"{float(b.sum()):.6g}"
            )
        left = [(v.sum() - mass).clamp_min(0)[None] for v in (b, a)]
        return torch.cat([a, left[0]]), torch.cat([b, left[1]])

    @staticmethod
    def fake(a: Tensor, b: Tensor, mass: float) -> tuple[Tensor, Tensor]:
        def made(v: Tensor) -> Tensor:
            return torch.empty(v.shape[0] + 1, dtype=torch.float64, device="cpu")

        return made(a), made(b)
