"""Layers and losses of maxent.torch at small sizes, forward and backward, beside entmax and torch.

Where the work is small the host decides: python -m benchmarks.run layers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.peers import entmax, torch_cross_entropy
from benchmarks.report import Row, compared, missing
from benchmarks.steps import loss_step, map_step
from benchmarks.timing import in_turns

OURS = "maxent"
MAP_SHAPE = (64, 8, 32, 32)  # batch, heads, queries, keys
LOSS_SHAPES = ((32, 10), (256, 1000))
MAPS = ("entmax15", "normmax", "budget")
LOSSES = ("entmax15", "sparsemax", "shannon")
CALLS = {(32, 10): 200, (256, 1000): 10}  # in one measurement
TARGET = ("at least as fast", 1.0)
FLOOR_TARGET = ("at most 2 x the time of torch's cross-entropy", 0.5)

Step = Callable[[], np.ndarray]


def our_map(name: str, x: np.ndarray, g: np.ndarray) -> dict[str, Step]:
    import maxent.torch as mt

    layer = {"entmax15": mt.Entmax15(), "normmax": mt.Normmax(2.0), "budget": mt.Budget(2)}[name]
    return {OURS: map_step(layer, x, g)}


def our_loss(name: str, x: np.ndarray, y: np.ndarray) -> dict[str, Step]:
    import maxent.torch as mt

    return {OURS: loss_step(mt.FenchelYoungLoss(name), x, y)}


def run(quick: bool = False) -> list[Row]:
    """One row for every map or loss and competitor; accuracy: the gradient beside ours."""
    rng = np.random.default_rng(0)
    rows = []
    x, g = (rng.standard_normal(MAP_SHAPE).astype(np.float32) for _ in range(2))
    for name in MAPS:
        problem = f"{name} on {' x '.join(map(str, MAP_SHAPE))}, forward and backward"
        competitors = our_map(name, x, g)
        rows += _compared(problem, competitors, lambda name=name: entmax.map_steps(name, x, g), 1)
    for shape in LOSS_SHAPES[:1] if quick else LOSS_SHAPES:
        x, y = rng.standard_normal(shape).astype(np.float32), rng.integers(shape[1], size=shape[0])
        for name in LOSSES:
            problem = f"{name} loss on {shape[0]} x {shape[1]}, forward and backward"
            peer = torch_cross_entropy if name == "shannon" else entmax
            rows += _compared(
                problem,
                our_loss(name, x, y),
                lambda name=name, peer=peer, x=x, y=y: peer.loss_steps(name, x, y),
                CALLS[shape],
            )
    return rows


def _compared(
    problem: str, competitors: dict[str, Step], peers: Callable[[], dict[str, Step]], calls: int
) -> list[Row]:
    rows = []
    try:
        competitors |= peers()
    except ImportError as error:
        rows.append(missing("layers", problem, "peers", str(error)))

    def many(step: Step) -> Callable[[], None]:
        def run() -> None:
            for _ in range(calls):
                step()

        return run

    times = in_turns({name: many(step) for name, step in competitors.items()}, repeats=15)
    times = {name: [seconds / calls for seconds in found] for name, found in times.items()}
    ours = competitors[OURS]()
    errors = {name: float(np.abs(step() - ours).max()) for name, step in competitors.items()}
    errors[OURS] = float("nan")
    targets = {name: FLOOR_TARGET if "torch" in name else TARGET for name in times if name != OURS}
    return rows + compared("layers", problem, times, OURS, errors, targets)
