"""Transport plans of 256 x 256: Euclidean, Sinkhorn and exact, beside POT; the best matchings.

Seconds are those of the processor; BLAS has one thread, since a second one that waits for work on
a busy machine would count as well.
Accuracy is the violation of the sums, in the 1-norm, as a share of the mass; of exact plans, what
their cost exceeds the best by; of lists of matchings, what their scores differ by; of unbalanced
plans, what their objective exceeds our dual bound by, as a share of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import process_time

import numpy as np
from scipy import special
from threadpoolctl import threadpool_limits

import maxent as mx
from benchmarks.limits import rates, with_limit
from benchmarks.peers import pot, scipy_murty, scipy_transport
from benchmarks.report import Row, compared, missing
from benchmarks.timing import in_turns

SIZE = 256
OURS = "maxent"
NO_PLAN = 0.1  # of the objective, above the best: where this is left, a method did not converge
TARGETS = {
    "euclidean": ("at least 10 x faster", 10.0),
    "sinkhorn": ("at least as fast", 1.0),
    "exact": ("", 1.0),
    "unbalanced": ("at least as fast", 1.0),
}
STRENGTHS = {"euclidean": (1.0, 0.1), "sinkhorn": (0.1, 0.01)}


def costs(size: int) -> dict[str, np.ndarray]:
    """Squared distances of points in a square, and noise; the largest cost is 1."""
    rng = np.random.default_rng(0)
    points = rng.random((2, size, 2))
    squares = np.square(points[0][:, None] - points[1]).sum(axis=-1)
    return {"points": squares / squares.max(), "noise": rng.random((size, size))}


def violation(plan: np.ndarray, domain: mx.Transport) -> float:
    """What the sums of a plan are off by."""
    rows, columns = plan.sum(axis=1) - domain.a, plan.sum(axis=0) - domain.b
    return float(np.abs(rows).sum() + np.abs(columns).sum())


def run(quick: bool = False, only: str = "") -> list[Row]:
    """One row for every cost, regularization, strength and competitor.

    only : how the names of the regularizations begin that are used.
    """
    size = 64 if quick else SIZE
    mass = np.full(size, 1 / size)
    domain, rows = mx.Transport(mass, mass), []
    for name, cost in costs(size).items():
        for kind, strengths in STRENGTHS.items():
            for strength in strengths if kind.startswith(only) else ():
                theta = -cost.ravel() / strength
                project = domain.project if kind == "euclidean" else domain.project_kl
                peers = pot.euclidean if kind == "euclidean" else pot.sinkhorn
                rows += _measured(
                    f"{kind} {strength:g} on {name} {size} x {size}",
                    kind,
                    lambda run=project, theta=theta: run(theta).reshape(size, size),
                    lambda peers=peers, s=strength, c=cost: peers(mass, mass, c, s),
                    lambda plan: violation(plan, domain),
                )
        if not "exact".startswith(only):
            continue
        best = float(domain.argmax(-cost.ravel()) @ cost.ravel())
        rows += _measured(
            f"exact on {name} {size} x {size}",
            "exact",
            lambda cost=cost: domain.argmax(-cost.ravel()).reshape(size, size),
            lambda cost=cost: pot.exact(mass, mass, cost),
            lambda plan, cost=cost, best=best: float((plan * cost).sum()) - best,
        )
    rows += matchings(quick) if "best".startswith(only) else []
    return rows + unbalanced(quick, only)


def matchings(quick: bool) -> list[Row]:
    """The k best matchings of matrices of noise."""
    rows, k = [], 10 if quick else 100
    for size in (20,) if quick else (50, 200):
        theta = np.random.default_rng(0).normal(size=(size, size))
        lists: dict[str, Callable[[], np.ndarray]] = {
            OURS: lambda theta=theta: mx.Birkhoff().kbest(theta.ravel(), k)[0],
            scipy_murty.NAME: lambda theta=theta: scipy_murty.best_matchings(theta, k)[0],
        }
        times = in_turns(lists, repeats=9, clock=process_time)
        apart = float(np.abs(lists[OURS]() - lists[scipy_murty.NAME]()).max())
        off = dict.fromkeys(lists, apart)
        problem = f"{k} best matchings of noise {size} x {size}"
        rows += compared("structured_transport", problem, times, OURS, off, {})
    return rows


def unbalanced(quick: bool, only: str) -> list[Row]:
    """Plans whose sums cost what they are off by: entries under KL, a squared norm, and none."""
    wanted = {kind: f"unbalanced {kind}".startswith(only) for kind in ("kl", "l2", "exact")}
    size = 32 if quick else SIZE
    mass, rows = np.full(size, 1 / size), []
    for name, cost in costs(size).items():
        for penalty, strength in ((1.0, 0.1), (1.0, 0.01), (0.1, 0.1), (0.1, 0.01)):
            if wanted["kl"] and (name == "points" or penalty == 1):
                case = Unbalanced(name, cost, mass, penalty, strength, "kl", "kl")
                rows += case.measured(
                    lambda c=cost, s=strength, p=penalty: pot.unbalanced(mass, mass, c, s, p)
                )
        for divergence in ("kl", "l1", "l2") if wanted["l2"] and name == "points" else ():
            case = Unbalanced(name, cost, mass, 0.1, 0.1, "l2", divergence)
            rows += case.measured(
                lambda c=cost, d=divergence: pot.unbalanced_squared(mass, mass, c, 0.1, 0.1, d)
            )
        if not wanted["exact"]:
            continue
        case = Unbalanced(name, cost, mass, 0.1, 0.0, "l2", "l1")
        rows += case.measured(lambda c=cost: scipy_transport.unbalanced(mass, mass, c, 0.1))
    return rows


@dataclass(frozen=True)
class Unbalanced:
    """One problem of unbalanced transport; ``kind`` is the regularization of the entries."""

    name: str
    cost: np.ndarray
    mass: np.ndarray
    penalty: float
    strength: float
    kind: str
    divergence: str

    def objective(self, plan: np.ndarray) -> float:
        """What is minimised: entries beside their product measure where both terms are KL."""
        kl = self.kind == "kl"
        even = np.outer(self.mass, self.mass)
        spread = special.kl_div(plan, even) if kl else plan**2 / 2
        distance = {
            "kl": special.kl_div,
            "l1": lambda r, a: np.abs(r - a),
            "l2": lambda r, a: (r - a) ** 2 / 2,
        }[self.divergence]
        off = sum(distance(plan.sum(axis=axis), self.mass).sum() for axis in (0, 1))
        return float((plan * self.cost).sum() + self.strength * spread.sum() + self.penalty * off)

    def measured(self, peers: Callable[[], pot.Plans]) -> list[Row]:
        """Ours and theirs."""
        import torch
        from maxent.torch.structured import unbalanced_transport

        mass, scores = torch.from_numpy(self.mass), torch.from_numpy(-self.cost)
        if self.kind == "kl":
            scores = scores + self.strength * torch.log(mass[:, None] * mass)
        given = scores, mass, mass, self.penalty, self.strength, self.kind, self.divergence
        torch.set_num_threads(1)
        plan, gap = unbalanced_transport(*given, return_gap=True)
        least = self.objective(plan.numpy()) - float(gap)
        size = len(self.mass)
        terms = f"{self.kind} {self.strength:g}, " if self.strength else "exact, "
        rows = _measured(
            f"unbalanced {terms}{self.divergence} {self.penalty:g} on {self.name} {size} x {size}",
            "unbalanced" if self.kind == "kl" else "",
            lambda: unbalanced_transport(*given).numpy(),
            peers,
            lambda found: max(self.objective(found) - least, 0.0) / abs(least),
        )
        return [
            Row(row.suite, row.problem, row.method, status="NC", accuracy=row.accuracy)
            if row.accuracy > NO_PLAN
            else row
            for row in rows
        ]


def _measured(
    problem: str,
    kind: str,
    ours: Callable[[], np.ndarray],
    peers: Callable[[], pot.Plans],
    accuracy: Callable[[np.ndarray], float],
) -> list[Row]:
    competitors, rows = {OURS: ours}, []
    try:
        competitors |= peers()
    except ImportError as error:
        rows.append(missing("structured_transport", problem, pot.NAME, str(error)))
    with threadpool_limits(1):
        times = in_turns(competitors, repeats=9, clock=process_time)
    off = {name: accuracy(run()) for name, run in competitors.items()}
    targets = {name: TARGETS[kind] for name in competitors if name != OURS and kind in TARGETS}
    rows += compared("structured_transport", problem, times, OURS, off, targets)
    return limited(rows, *ours().shape) if kind == "euclidean" else rows


def limited(rows: list[Row], m: int, n: int) -> list[Row]:
    """With what one step of Newton's method takes at best: scores in, a plan out, a Laplacian."""
    rate, byte_count, products = rates(), 16 * m * n, n**3 // 6
    least = byte_count * rate.byte + products * rate.multiplication
    note = f"{byte_count / 1e6:.3g} MB and {products / 1e6:.3g} million multiplications"
    return with_limit(rows, "one Newton step at measured rates", least, note)
