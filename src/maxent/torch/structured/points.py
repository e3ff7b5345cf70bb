"""Sinkhorn's plan of two clouds of points, and its divergence, without a matrix of costs.

The cost is `c(x, y) = |x - y|^2 / 2`. Entries of the plan are computed where they are needed and
never kept: memory grows with the number of points, not of pairs. CPU tensors use compiled loops,
CUDA tensors blocks of torch operations; all of it is in float64.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
from maxent.torch._operators import Operation
from maxent.torch.structured import _points_solver as solver
from torch import Tensor

_DOUBLE = torch.float64
_BROAD = 64  # columns of values that a pass takes at once


def sinkhorn_points(
    x: Tensor,
    y: Tensor,
    a: Tensor | None = None,
    b: Tensor | None = None,
    strength: float = 1.0,
    *,
    tolerance: float = 1e-9,
    max_iter: int = 2000,
    verbose: int = 1,
) -> PointPlan:
    """`min_P sum_ij P_ij |x_i - y_j|^2 / 2 + strength KL(P || a b' / M)` over plans from a to b.

    P has the row sums a and the column sums b, M is the sum of either. The plan is
    `P_ij = a_i b_j / M exp((f_i + g_j - |x_i - y_j|^2 / 2) / strength)`; all that it does is
    computed from the potentials f and g. With masses that sum to 1 this is the OT of geomloss at
    p = 2 with ``blur = sqrt(strength)``.

    Parameters
    ----------
    x : tensor (..., n, d)
        Points from which mass goes.
    y : tensor (..., m, d)
        Points to which it goes.
    a : tensor (..., n), default None
        Masses of x; None is 1 / n each. A 0 takes a point out, so clouds of several sizes can be
        filled up.
    b : tensor (..., m), default None
        Masses of y, of the same sum; None is 1 / m each.
    strength : float, default 1.0
        Factor of KL, > 0, in the units of the cost.
    tolerance : float, default 1e-9
        What the sums may be off by, in the 1-norm, as a share of the mass.
    max_iter : int, default 2000
        Iterations at most, of two passes over all pairs each; a warning tells where they end it.
    verbose : int, default 1
        Whether there is a line of progress after some seconds.

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    >>> y = torch.tensor([[0.0, 1.0], [1.0, 1.0]])
    >>> plan = sinkhorn_points(x, y, strength=0.2)
    >>> plan.value.round(decimals=3), plan.barycentres().round(decimals=2)
    (tensor(0.6230), tensor([[0.0800, 1.0000],
            [0.9200, 1.0000]]))
    """
    _check_points(x, y, "sinkhorn_points")
    return PointPlan(x, y, a, b, strength, tolerance, max_iter, verbose, "sinkhorn_points")


def sinkhorn_divergence(
    x: Tensor,
    y: Tensor,
    a: Tensor | None = None,
    b: Tensor | None = None,
    strength: float = 1.0,
    *,
    tolerance: float = 1e-9,
    max_iter: int = 2000,
    verbose: int = 1,
) -> Tensor:
    """`OT(x, y) - OT(x, x) / 2 - OT(y, y) / 2` with the value OT of ``sinkhorn_points``: >= 0.

    It is 0 for equal clouds alone, and tends to the transport cost as the strength falls.

    Parameters
    ----------
    x : tensor (..., n, d)
        Points.
    y : tensor (..., m, d)
        Points.
    a : tensor (..., n), default None
        Masses of x; None is 1 / n each.
    b : tensor (..., m), default None
        Masses of y, of the same sum; None is 1 / m each.
    strength : float, default 1.0
        Factor of KL, > 0, in the units of the cost.
    tolerance : float, default 1e-9
        What the sums may be off by, in the 1-norm, as a share of the mass.
    max_iter : int, default 2000
        Iterations at most of each of the three; a warning tells where they end one.
    verbose : int, default 1
        Whether there is a line of progress after some seconds.

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor([[0.0], [1.0]])
    >>> sinkhorn_divergence(x, x + 2, strength=0.5), sinkhorn_divergence(x, x)
    (tensor(2.), tensor(0.))
    """
    _check_points(x, y, "sinkhorn_divergence")
    rest: tuple[Any, ...] = (strength, tolerance, max_iter, verbose, "sinkhorn_divergence")
    across = PointPlan(x, y, a, b, *rest)
    within = [
        PointPlan(z, None, c, None, *rest)._double_value
        for z, c in ((x, across._a.reshape(across.a.shape)), (y, across._b.reshape(across.b.shape)))
    ]
    value = across._double_value - (within[0] + within[1]) / 2
    # what the tolerance leaves below 0 is taken off, not its derivatives
    value = value + (value.clamp_min(0) - value).detach()
    return value.to(across.value.dtype)


class PointPlan:
    """The plan of ``sinkhorn_points``: its potentials, its value, and products that stream.

    Everything can be differentiated with respect to points and masses, twice for the value, once
    for the rest; a derivative of potentials is one linear system, by conjugate gradients.

    Parameters
    ----------
    x : tensor (..., n, d)
        Points from which mass goes.
    y : tensor (..., m, d) or None
        Points to which it goes; None is x, with its masses.
    a : tensor (..., n) or None
        Masses of x; None is 1 / n each.
    b : tensor (..., m) or None
        Masses of y; None is 1 / m each.
    strength : float
        Factor of KL.
    tolerance : float
        What the sums may be off by.
    max_iter : int
        Iterations at most.
    verbose : int
        Whether there is a line of progress after some seconds.
    name : str
        Who is named in errors.

    Attributes
    ----------
    f : tensor (..., n)
        Potentials of x, the derivative of the value by a; `<a, f> = <b, g>`.
    g : tensor (..., m)
        Potentials of y, the derivative of the value by b.
    value : tensor (...)
        Cost and KL, from the dual: `<a, f> + <b, g>`.
    violation : float64 tensor (...)
        What the sums are off by, in the 1-norm, as a share of the mass.
    gap : float64 tensor (...)
        At most what the value is off by: a plan with the right sums costs as much more.
    n_iter : float64 tensor (...)
        Iterations, of two passes over all pairs each.

    Examples
    --------
    >>> import torch
    >>> x = torch.linspace(0, 1, 5)[:, None]
    >>> plan = sinkhorn_points(x, x + 3, strength=0.1)
    >>> plan.row_sums(), bool(plan.gap < 1e-6)
    (tensor([0.2000, 0.2000, 0.2000, 0.2000, 0.2000]), True)
    >>> plan.apply(torch.eye(5)).shape == plan.dense().shape
    True
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor | None,
        a: Tensor | None,
        b: Tensor | None,
        strength: float,
        tolerance: float,
        max_iter: int,
        verbose: int,
        name: str,
    ) -> None:
        _check_settings(strength, tolerance, max_iter, name)
        same = y is None
        if y is None:
            y = x
        dtype = torch.promote_types(x.dtype, y.dtype)
        self.x, self.y, self.strength = x, y, float(strength)
        self.a = _masses(a, x, "a", name)
        self.b = self.a if same else _masses(b, y, "b", name)
        self._batch, self._dtype = x.shape[:-2], dtype
        # in float64, each cloud around its own centre: what that changes of the cost is separable
        self._a = self.a.to(_DOUBLE).reshape(-1, x.shape[-2])
        self._b = self._a if same else self.b.to(_DOUBLE).reshape(-1, y.shape[-2])
        self._mass = (self._a.sum(1) + self._b.sum(1)) / 2
        self._shares_a, self._shares_b = (c / c.sum(1, keepdim=True) for c in (self._a, self._b))
        self._x, centre = _centred(x, self._shares_a)
        self._y, other = (self._x, centre) if same else _centred(y, self._shares_b)
        self._apart = centre - other
        f, g, report = _Potentials.apply(
            self._x,
            self._y,
            self._a,
            self._b,
            self.strength,
            float(tolerance),
            int(max_iter),
            int(verbose),
            same,
            name,
        )
        half = ((self._shares_a * f).sum(1) - (self._shares_b * g).sum(1))[:, None] / 2
        self._f, self._g = f - half, g + half
        value = _Value.apply(
            self._x, self._y, self._shares_a, self._shares_b, self._f, self._g, self.strength
        )
        square = self._apart.square().sum(1) / 2
        self._double_value = (self._mass * (value + square)).reshape(self._batch)
        self.value = self._double_value.to(_wide(dtype))
        moved = self._apart[:, :, None]
        quarter = square[:, None] / 2
        self.f = self._out(self._f + (self._x @ moved)[:, :, 0] + quarter, _wide(dtype))
        self.g = self._out(self._g - (self._y @ moved)[:, :, 0] + quarter, _wide(dtype))
        self.violation, self.n_iter = (report[:, k].reshape(self._batch) for k in (0, 2))
        self.gap = (self._mass.detach() * report[:, 1]).reshape(self._batch)

    def apply(self, v: Tensor) -> Tensor:
        """P v for v of shape (..., m) or (..., m, k)."""
        return self._product(v, self.x, self.y, forward=True)

    def apply_transpose(self, u: Tensor) -> Tensor:
        """P' u for u of shape (..., n) or (..., n, k)."""
        return self._product(u, self.y, self.x, forward=False)

    def row_sums(self) -> Tensor:
        """P 1, which is a up to the violation."""
        return self.apply(torch.ones_like(self.b))

    def column_sums(self) -> Tensor:
        """P' 1, which is b up to the violation."""
        return self.apply_transpose(torch.ones_like(self.a))

    def barycentres(self) -> Tensor:
        """Where each x goes on average, `sum_j P_ij y_j / a_i` (..., n, d): the entropic map."""
        shares = self._shares_b[:, :, None]
        mean = _Sums.apply(self._x, self._y, self._f, self._g, shares * self._y, self.strength)
        centre = (shares * self.y.to(_DOUBLE).reshape(-1, *self.y.shape[-2:])).sum(1, keepdim=True)
        return self._out(mean + centre)

    def rows(self, index: Tensor) -> Tensor:
        """Rows of P (..., len(index), m), written out."""
        x, f = self._x[:, index], self._f[:, index]
        cost = (x[:, :, None] - self._y[:, None]).square().sum(3) / 2
        log = (f[:, :, None] + self._g[:, None] - cost) / self.strength
        a = (self._mass[:, None] * self._shares_a)[:, index, None]
        return self._out(a * self._shares_b[:, None] * log.exp())

    def dense(self) -> Tensor:
        """P (..., n, m), written out: for small clouds."""
        return self.rows(torch.arange(self.x.shape[-2], device=self.x.device))

    def __repr__(self) -> str:
        n, m, d = self.x.shape[-2], self.y.shape[-2], self.x.shape[-1]
        return f"PointPlan({n} x {m} points of {d} dimensions, strength={self.strength:g})"

    def _out(self, value: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        return value.reshape(*self._batch, *value.shape[1:]).to(dtype or self._dtype)

    def _product(self, v: Tensor, rows: Tensor, columns: Tensor, forward: bool) -> Tensor:
        name, size = ("apply", "m") if forward else ("apply_transpose", "n")
        wide = v.ndim == columns.ndim
        if tuple(v.shape[: columns.ndim - 1]) != tuple(columns.shape[:-1]) or not (
            wide or v.ndim == columns.ndim - 1
        ):
            raise ValueError(
                f"PointPlan.{name} needs a tensor (..., {size}) or (..., {size}, k) with "
                f"{tuple(columns.shape[:-1])} first, got the shape {tuple(v.shape)}"
            )
        values = v.to(_DOUBLE).reshape(self._x.shape[0], columns.shape[-2], -1)
        mass = self._mass[:, None, None]
        if forward:
            values = self._shares_b[:, :, None] * values
            out = _Sums.apply(self._x, self._y, self._f, self._g, values, self.strength)
            out = mass * self._shares_a[:, :, None] * out
        else:
            values = self._shares_a[:, :, None] * values
            out = _Sums.apply(self._y, self._x, self._g, self._f, values, self.strength)
            out = mass * self._shares_b[:, :, None] * out
        out = out.to(torch.promote_types(self._dtype, v.dtype))
        return out.reshape(*rows.shape[:-1], *(v.shape[-1:] if wide else ()))


# -- inside --------------------------------------------------------------------------------------


class _Potentials(Operation, name="points_potentials"):
    """Potentials of masses as shares, with violation, gap and iterations of each row."""

    @staticmethod
    def run(
        x: Tensor,
        y: Tensor,
        a: Tensor,
        b: Tensor,
        strength: float,
        tolerance: float,
        limit: int,
        verbose: int,
        same: bool,
        name: str,
    ) -> tuple[Tensor, Tensor, Tensor]:
        _check_values(x, y, a, b, name)
        f, g = torch.empty_like(a), torch.empty_like(b)
        report = a.new_empty(len(a), 3)
        for i in range(len(x)):
            points, mass = x[i].detach().contiguous(), a[i].detach() / a[i].sum()
            others = points if same else y[i].detach().contiguous()
            masses = mass if same else b[i].detach() / b[i].sum()
            found = solver.solve(points, others, mass, masses, strength, tolerance, limit, verbose)
            if not found.violation <= tolerance:
                _warn(found, tolerance, limit, name)
            f[i], g[i] = found.f, found.g
            report[i] = report.new_tensor([found.violation, found.gap, found.iterations])
        return f, g, report

    @staticmethod
    def fake(
        x: Tensor, y: Tensor, a: Tensor, b: Tensor, *settings: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        return torch.empty_like(a), torch.empty_like(b), a.new_empty(a.shape[0], 3)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.strength = inputs[4]
        ctx.mark_non_differentiable(output[2])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[:4], *output[:2])

    @staticmethod
    def backward(
        ctx: Any, g_f: Tensor | None, g_g: Tensor | None, _: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        if g_f is None and g_g is None:  # the value alone is differentiated
            return (None,) * 10
        f, g = ctx.saved_tensors[4:]
        g_f = torch.zeros_like(f) if g_f is None else g_f
        g_g = torch.zeros_like(g) if g_g is None else g_g
        found = _Adjoint.apply(*ctx.saved_tensors, g_f, g_g, ctx.strength)
        return *found, *(None,) * 6


def _refused(ctx: Any, *_: Any) -> Any:
    raise NotImplementedError(
        "second derivatives of a plan of points, and third ones of its value, are not there: "
        "detach what is differentiated once more"
    )


def _nothing_kept(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    return


class _Adjoint(Operation, name="points_adjoint"):
    """The derivative of ``_Potentials`` backwards."""

    setup_context = staticmethod(_nothing_kept)
    backward = staticmethod(_refused)

    @staticmethod
    def run(
        x: Tensor,
        y: Tensor,
        a: Tensor,
        b: Tensor,
        f: Tensor,
        g: Tensor,
        g_f: Tensor,
        g_g: Tensor,
        strength: float,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        out = tuple(torch.empty_like(t) for t in (x, y, a, b))
        for i in range(len(x)):
            total = a[i].sum(), b[i].sum()
            shares = a[i] / total[0], b[i] / total[1]
            found = solver.adjoint(
                x[i].contiguous(), y[i].contiguous(), *shares, f[i], g[i], g_f[i], g_g[i], strength
            )
            out[0][i], out[1][i] = found[:2]
            for k in (0, 1):
                slope = found[2 + k]
                out[2 + k][i] = (slope - shares[k] @ slope) / total[k]
        return out[0], out[1], out[2], out[3]

    @staticmethod
    def fake(
        x: Tensor, y: Tensor, a: Tensor, b: Tensor, *rest: Any
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return tuple(torch.empty_like(t) for t in (x, y, a, b))  # type: ignore[return-value]


class _Value(Operation, name="points_value"):
    """<a, f> + <b, g> with the derivatives of the optimum, where those of f and g count nothing."""

    @staticmethod
    def run(
        x: Tensor, y: Tensor, a: Tensor, b: Tensor, f: Tensor, g: Tensor, strength: float
    ) -> Tensor:
        return (a * f).sum(1) + (b * g).sum(1)

    @staticmethod
    def fake(
        x: Tensor, y: Tensor, a: Tensor, b: Tensor, f: Tensor, g: Tensor, strength: float
    ) -> Tensor:
        return a.new_empty(a.shape[0])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.strength = inputs[6]
        ctx.save_for_backward(*inputs[:6])

    @staticmethod
    def backward(ctx: Any, g_value: Tensor) -> tuple[Tensor | None, ...]:
        x, y, a, b, f, g = ctx.saved_tensors
        of_x = of_y = None
        shares_a, shares_b = a[:, :, None], b[:, :, None]
        factor = g_value[:, None]
        if ctx.needs_input_grad[0]:
            mean = _Sums.apply(x, y, f, g, shares_b * y, ctx.strength)
            of_x = factor[:, :, None] * shares_a * (x - mean)
        if ctx.needs_input_grad[1]:
            mean = _Sums.apply(y, x, g, f, shares_a * x, ctx.strength)
            of_y = factor[:, :, None] * shares_b * (y - mean)
        return of_x, of_y, factor * f, factor * g, None, None, None


class _Sums(Operation, name="points_sums"):
    """`sum_j E_ij v_jk` with `E_ij = exp((f_i + g_j - |x_i - y_j|^2 / 2) / strength)`."""

    @staticmethod
    def run(x: Tensor, y: Tensor, f: Tensor, g: Tensor, values: Tensor, strength: float) -> Tensor:
        return _streamed(x, y, f, g, values, strength)

    @staticmethod
    def fake(x: Tensor, y: Tensor, f: Tensor, g: Tensor, values: Tensor, strength: float) -> Tensor:
        return x.new_empty(x.shape[0], x.shape[1], values.shape[2])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.strength = inputs[5]
        ctx.save_for_backward(*inputs[:5], output)

    @staticmethod
    def backward(ctx: Any, g_out: Tensor) -> tuple[Tensor | None, ...]:
        x, y, f, g, values, out = ctx.saved_tensors
        strength, needs = ctx.strength, ctx.needs_input_grad
        of_values = _Sums.apply(y, x, g, f, g_out, strength)
        of_f, of_g = (g_out * out).sum(2), (values * of_values).sum(2)
        of_x = of_y = None
        if needs[0]:
            moved = _Bilinear.apply(x, y, f, g, g_out, values, strength)
            of_x = (moved - x * of_f[:, :, None]) / strength
        if needs[1]:
            moved = _Bilinear.apply(y, x, g, f, values, g_out, strength)
            of_y = (moved - y * of_g[:, :, None]) / strength
        return of_x, of_y, of_f / strength, of_g / strength, of_values, None


class _Bilinear(Operation, name="points_bilinear"):
    """`sum_j E_ij <u_i, v_j> y_j`."""

    setup_context = staticmethod(_nothing_kept)
    backward = staticmethod(_refused)

    @staticmethod
    def run(
        x: Tensor, y: Tensor, f: Tensor, g: Tensor, u: Tensor, v: Tensor, strength: float
    ) -> Tensor:
        out, d = torch.zeros_like(x), y.shape[2]
        step = max(1, _BROAD // d)
        for k in range(0, u.shape[2], step):
            part = v[:, :, k : k + step]
            values = (part[:, :, :, None] * y[:, :, None]).flatten(2)
            found = _streamed(x, y, f, g, values, strength).unflatten(2, (-1, d))
            out += (u[:, :, k : k + step, None] * found).sum(2)
        return out

    @staticmethod
    def fake(
        x: Tensor, y: Tensor, f: Tensor, g: Tensor, u: Tensor, v: Tensor, strength: float
    ) -> Tensor:
        return torch.empty_like(x)


def _streamed(
    x: Tensor, y: Tensor, f: Tensor, g: Tensor, values: Tensor, strength: float
) -> Tensor:
    out = values.new_empty(x.shape[0], x.shape[1], values.shape[2])
    for i in range(len(x)):
        first, second, make = solver.clouds(x[i].contiguous(), y[i].contiguous())
        out[i] = make(first, second, strength).sums(f[i], g[i], values[i])
    return out


def _centred(x: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
    x = x.to(_DOUBLE).reshape(-1, *x.shape[-2:])
    centre = (shares[:, :, None] * x).sum(1)
    return x - centre[:, None], centre


def _masses(given: Tensor | None, points: Tensor, side: str, name: str) -> Tensor:
    """Masses of the points' batch."""
    n = points.shape[-2]
    if given is None:
        return points.new_full(points.shape[:-1], 1 / n, dtype=_wide(points.dtype))
    masses = torch.as_tensor(given, device=points.device)
    if masses.shape[-1:] != (n,) or not _spreads(masses.shape[:-1], points.shape[:-2]):
        raise ValueError(
            f"{name} needs masses {side} of shape {tuple(points.shape[:-1])} or ({n},), got "
            f"{tuple(masses.shape)}"
        )
    if masses.dtype != _DOUBLE:
        masses = masses.to(_wide(points.dtype))
    return masses.expand(points.shape[:-1])


def _wide(dtype: torch.dtype) -> torch.dtype:
    """Of values, potentials and masses: sums of 16 bits would not be equal."""
    return torch.promote_types(dtype, torch.float32)


def _spreads(shape: tuple[int, ...], batch: tuple[int, ...]) -> bool:
    if len(shape) > len(batch):
        return False
    return all(s in (1, b) for s, b in zip(shape[::-1], batch[::-1], strict=False))


def _check_points(x: Tensor, y: Tensor, name: str) -> None:
    for each in (x, y):
        if not isinstance(each, Tensor) or not each.is_floating_point() or each.ndim < 2:
            got = tuple(each.shape) if isinstance(each, Tensor) else type(each).__name__
            raise ValueError(
                f"{name} needs points as floating tensors (..., n, d) and (..., m, d), got {got}; "
                "values on a line are x[:, None]"
            )
    if x.shape[:-2] != y.shape[:-2] or x.shape[-1] != y.shape[-1]:
        raise ValueError(
            f"{name} needs two clouds of the same dimensions and batch, got the shapes "
            f"{tuple(x.shape)} and {tuple(y.shape)}"
        )
    if 0 in (*x.shape[-2:], y.shape[-2]):
        raise ValueError(
            f"{name} needs a point and a dimension at least, got the shapes {tuple(x.shape)} and "
            f"{tuple(y.shape)}"
        )


def _check_settings(strength: float, tolerance: float, max_iter: int, name: str) -> None:
    if not 0 < strength < math.inf:
        raise ValueError(
            f"the strength of {name} must be a finite number > 0, got {strength!r}; for a plan "
            "without entropy use transport(-costs, a, b, strength=0)"
        )
    if not 0 < tolerance < 1:
        raise ValueError(f"the tolerance of {name} must be between 0 and 1, got {tolerance!r}")
    if max_iter < 1:
        raise ValueError(f"max_iter of {name} must be at least 1, got {max_iter!r}")


def _check_values(x: Tensor, y: Tensor, a: Tensor, b: Tensor, name: str) -> None:
    for side, masses in (("a", a), ("b", b)):
        if not bool(((masses >= 0) & (masses < math.inf)).all()) or not bool(
            (masses.sum(1) > 0).all()
        ):
            raise ValueError(
                f"the masses {side} of {name} must be finite numbers >= 0, not all 0, got "
                f"{float(masses.min()):.6g} to {float(masses.max()):.6g}"
            )
    totals = a.sum(1), b.sum(1)
    if not torch.allclose(*totals, rtol=1e-5, atol=0):
        raise ValueError(
            f"the masses a and b of {name} must have one sum, got {float(totals[0][0]):.6g} and "
            f"{float(totals[1][0]):.6g}; divide each by its own"
        )
    for side, points in (("x", x), ("y", y)):
        if not bool(points.isfinite().all()):
            raise ValueError(
                f"the points {side} of {name} must be finite: there is a NaN, an infinity or a "
                "number too large to be squared among them"
            )


def _warn(found: solver.Found, tolerance: float, limit: int, name: str) -> None:
    from maxent.core.solvers import ConvergenceWarning

    warnings.warn(
        f"{name} stopped after {found.iterations} iterations (max_iter={limit}) where the sums are "
        f"off by {found.violation:.2g} of the mass, not {tolerance:.2g}; the value is right to "
        f"{found.gap:.2g} of it. Take a larger strength, tolerance or max_iter",
        ConvergenceWarning,
        stacklevel=2,
    )
