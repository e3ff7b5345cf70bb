"""Partial transport beside scipy's linear programme, with the gap that certifies it."""

import numpy as np
import pytest
from scipy.optimize import linprog

from tools import needs

torch = needs("torch")

import maxent.torch.structured as ms  # noqa: E402

A, B, MASS = torch.tensor([0.5, 1.0, 0.7]), torch.tensor([0.9, 0.4, 0.6, 0.3]), 1.3


def scores(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_the_hard_plan_solves_the_linear_programme() -> None:
    for seed in range(3):
        x = scores(3, 4, seed=seed)
        plan = ms.partial_transport(x, A, B, MASS, strength=0)
        rows, columns = np.kron(np.eye(3), np.ones(4)), np.kron(np.ones(3), np.eye(4))
        best = linprog(
            -x.numpy().ravel(),
            np.vstack([rows, columns]),
            torch.cat([A, B]).numpy(),
            np.ones((1, 12)),
            [MASS],
        )
        assert float((x * plan).sum()) == pytest.approx(-best.fun, abs=1e-6)


@pytest.mark.parametrize("kind", ["l2", "kl"])
def test_soft_plans_leave_no_gap(kind) -> None:
    x, strength = scores(2, 3, 4), 0.7
    plan = ms.partial_transport(x, A, B, MASS, strength, kind)
    left, right = A - plan.sum(2), B - plan.sum(1)
    torch.testing.assert_close(plan.sum((1, 2)), torch.full((2,), MASS, dtype=torch.float64))
    assert min(plan.min(), left.min(), right.min()) > -1e-7
    # no feasible plan gains along the gradient, that of what is left included: a linear programme

    def slope(p):
        return strength * (p if kind == "l2" else p.clamp_min(1e-300).log() + 1)

    gradient = x - slope(plan) + slope(left)[:, :, None] + slope(right)[:, None]
    better = ms.partial_transport(gradient, A, B, MASS, strength=0)
    assert (gradient * (better - plan)).sum((1, 2)).max() < 1e-5
    assert torch.autograd.gradcheck(
        lambda x: ms.partial_transport(x, A, B, MASS, strength, kind), x.clone().requires_grad_()
    )


def test_the_whole_mass_is_transport() -> None:
    x, sums = scores(3, 3), torch.ones(3)
    torch.testing.assert_close(
        ms.partial_transport(x, sums, sums, 3.0), ms.transport(x, sums, sums)
    )
    assert not ms.partial_transport(x, sums, sums, 0.0).any()


def test_wrong_masses_are_refused() -> None:
    x = scores(3, 4)
    for mass in (-0.1, 2.3, float("nan")):
        with pytest.raises(ValueError, match="from 0 to the smaller total"):
            ms.partial_transport(x, A, B, mass)
    with pytest.raises(ValueError, match=r"got the shapes \(4,\) and \(3,\)"):
        ms.partial_transport(x, B, A, 1.0)
    with pytest.raises(ValueError, match="floating tensor"):
        ms.partial_transport(x.long(), A, B, 1.0)
