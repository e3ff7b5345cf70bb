"""Associative recall at lengths never seen in training: softmax beside sparse attention.

The transformer of docs/examples/attention.py (two layers, four heads of width 32, a vocabulary of
8,192 keys) is trained on sequences of up to 512 tokens, five eighths of the steps on 512, and
tested on up to 16,384. Keys that come back have to be found among 128 in training and among 4,096
in the longest test. There are no positions, so only attention depends on the length. Methods differ
in it alone: softmax; 1.5-entmax; entmax with a learned alpha for each head; and the first two with
scores that are multiplied by s log n for n keys, s learned for each head. For softmax this is
scalable softmax. For entmax it is near to ASEntmax ("Long-Context Generalization with Sparse
Attention", Vasylenko et al., 2026), whose factor also depends on the token.

A row of associative_recall.csv is a method, a seed and a length:

- accuracy: the share of right values at the last 64 keys of new sequences, where they were seen
  before; asked: how many these were;
- right: the weight that such a key gives to its own earlier values, by the head that gives most;
  keys: the number of keys that this head attends to; keys_all: the same, mean of all heads;
- alphas: those of the heads, layer by layer;
- ms_step: forward and backward for 32,768 tokens in sequences of this length, median, of the
  trained model; ms_training: a whole step of training at 512 tokens;
- loss: of the last 50 training steps.

Seeds are in the outer loop, so that a run that is cut off compares all methods; rows are written as
they come (to associative_recall.part until the end).

python -m experiments.associative_recall [--minutes 9] [--steps 1600] [--seeds 3] [--quick]

It takes CUDA where there is some, with bfloat16; torch and numpy are all that it needs there.
``--quick`` is a tiny model for a CPU, in seconds, and writes associative_recall_quick.csv.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from time import perf_counter
from types import ModuleType
from typing import Any, NamedTuple

from experiments.run import RESULTS, write_rows

LAST = 64  # keys at the end of a sequence that are looked at
TOKENS = 1 << 15  # of a timed step
ON_DEVICE = 1 << 16  # tokens tested at once


class Sizes(NamedTuple):
    """Of the model, of training and of the tests."""

    keys: int = 8192
    width: int = 128
    heads: int = 4
    layers: int = 2
    length: int = 512
    batch: int = 64
    steps: int = 1600
    lengths: tuple[int, ...] = (512, 1024, 2048, 4096, 8192, 16384)
    sequences: int = 64  # of a test: a standard error below 1 %
    tokens: int = TOKENS


QUICK = Sizes(128, 64, 2, 1, 64, 16, 80, (64, 256), 16, 1024)


def example() -> ModuleType:
    """The module docs/examples/attention.py."""
    path = Path(__file__).parents[1] / "docs" / "examples" / "attention.py"
    spec = importlib.util.spec_from_file_location("attention", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def methods(recall: ModuleType) -> dict[str, tuple[float | str, bool]]:
    """Alpha, and whether scores grow with log n."""
    return recall.METHODS | {"softmax, log n": (1.0, True), "entmax 1.5, log n": (1.5, True)}


def fit(recall: ModuleType, method: str, seed: int, sizes: Sizes, device: str) -> tuple[Any, Any]:
    """A trained model, and what its training has to say."""
    import torch

    torch.manual_seed(seed)
    alpha, scaled = methods(recall)[method]
    shape = sizes.keys, sizes.width, sizes.heads, sizes.layers
    model = recall.Model(alpha, scaled, *shape).to(device)
    generator = torch.Generator(device).manual_seed(seed)
    rate = 3e-3 if sizes.layers > 1 else 1e-2
    losses, times = [], [perf_counter()]
    steps = recall.train(model, sizes.steps, sizes.batch, sizes.length, generator, rate)
    for step, (loss, right) in enumerate(steps, 1):
        losses.append(loss.item())  # waits for the device
        times.append(perf_counter())
        if not math.isfinite(losses[-1]):
            raise FloatingPointError(f"{method}, seed {seed}: the loss of step {step} is {loss}")
        if step == 1 or step % max(sizes.steps // 6, 1) == 0:
            print(
                f"{method:17} seed {seed} step {step:5}  loss {losses[-1]:7.4f}  right {right:.3f}"
                f"  {times[-1] - times[0]:6.1f} s",
                flush=True,
            )
    taken = [b - a for a, b in pairwise(times)]
    return model, {
        "ms_training": 1e3 * median(taken[len(taken) // 2 :]),
        "loss": fmean(losses[-50:]),
    }


def judge(recall: ModuleType, model: Any, length: int, sizes: Sizes, device: str) -> dict[str, Any]:
    """How the model does on new sequences of a length, and where it looks."""
    import torch

    generator = torch.Generator(device).manual_seed(1_000_003)
    size = min(max(ON_DEVICE // length, 1), sizes.sequences)
    right = number = 0
    looked = []
    held: list[Any] = []
    hooks = [
        block.attention.register_forward_pre_hook(lambda layer, given: held.append(given[0]))
        for block in model.blocks
    ]
    for start in range(0, sizes.sequences, size):
        batch = min(size, sizes.sequences - start)
        tokens, first = recall.draw(batch, length, sizes.keys, generator)
        held.clear()
        with torch.no_grad(), torch.autocast(device, torch.bfloat16, device == "cuda"):
            scores, answers = recall.asked(model, tokens, first, LAST)
            layers = [
                weights_on(block.attention, x, tokens, first)
                for block, x in zip(model.blocks, held, strict=True)
            ]
        right += int((scores.argmax(1) == answers).sum())
        number += len(answers)
        looked.append(torch.cat(layers, 1).double().cpu())
    for hook in hooks:
        hook.remove()
    weight, keys = torch.cat(looked, 2).mean(2)  # by head, over all keys that were asked for
    return {
        "accuracy": right / number,
        "asked": number,
        "right": float(weight.max()),
        "keys": float(keys[weight.argmax()]),
        "keys_all": float(keys.mean()),
    }


def weights_on(attention: Any, x: Any, tokens: Any, first: Any) -> Any:
    """(2, heads, asked): the weight of the last keys on their own values, and the keys they see."""
    import maxent.torch as mt
    import torch

    query, key, _ = attention.rows(x)
    places = torch.arange(first.shape[1], device=x.device)
    last = places[-LAST:]
    with torch.autocast(x.device.type, enabled=False):  # scores of 16 bits would be ties
        scores = (query[:, :, 2 * last].float() @ key.float().mT) / math.sqrt(query.shape[-1])
    later = torch.arange(x.shape[1], device=x.device) > 2 * last[:, None]
    alpha = attention.alpha
    alpha = alpha[:, None, None] if isinstance(alpha, torch.Tensor) else alpha
    p = mt.entmax(scores.masked_fill(later, -math.inf), alpha)
    own = (tokens[:, None, ::2] == tokens[:, 2 * last, None]) & (places < last[:, None])
    found = (p[..., 1::2] * own[:, None]).sum(3), (p > 0).sum(3).float()
    again = (first < places)[:, -LAST:]
    return torch.stack([each.transpose(0, 1)[:, again] for each in found])


def step_ms(recall: ModuleType, model: Any, length: int, sizes: Sizes, device: str) -> float:
    """Forward and backward for so many tokens in sequences of a length: the median."""
    import torch

    generator = torch.Generator(device).manual_seed(0)
    batch = max(sizes.tokens // length, 1)
    sequences = recall.draw(batch, length, sizes.keys, generator)
    times: list[float] = []
    while len(times) < 3 or (len(times) < 13 and sum(times) < 3000):
        if device == "cuda":
            torch.cuda.synchronize()
        begin = perf_counter()
        with torch.autocast(device, torch.bfloat16, device == "cuda"):
            loss = torch.nn.functional.cross_entropy(*recall.asked(model, *sequences))
        loss.backward()
        model.zero_grad()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(1e3 * (perf_counter() - begin))
    return median(times[1:])


def rows(
    sizes: Sizes, seeds: int, minutes: float, names: tuple[str, ...], device: str
) -> Iterator[dict[str, Any]]:
    """A row for each method, seed and length; after so many minutes no training is begun."""
    recall, begin = example(), perf_counter()
    for seed in range(seeds):
        for method in names or tuple(methods(recall)):
            if perf_counter() - begin > 60 * minutes:
                print(f"{minutes:g} minutes are over: {method}, seed {seed} is left out")
                continue
            try:
                yield from lines(recall, method, seed, sizes, device)
            except (RuntimeError, FloatingPointError) as error:  # the others go on
                print(f"{method}, seed {seed} failed: {error!r}", flush=True)


def lines(
    recall: ModuleType, method: str, seed: int, sizes: Sizes, device: str
) -> Iterator[dict[str, Any]]:
    """Train one model; a row for each length."""
    model, training = fit(recall, method, seed, sizes, device)
    alphas = [
        f"{value:.3f}"
        for block in model.blocks
        if block.attention.raw_alpha is not None
        for value in block.attention.alpha.tolist()
    ]
    for length in sizes.lengths:
        row: dict[str, Any] = {"method": method, "seed": seed, "length": length}
        row |= judge(recall, model, length, sizes, device)
        row["ms_step"] = step_ms(recall, model, length, sizes, device)
        row |= training | {"alphas": " ".join(alphas)}
        print({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
        yield row


def run(
    out: Path,
    quick: bool = False,
    minutes: float = math.inf,
    steps: int = Sizes().steps,
    seeds: int = 3,
    names: tuple[str, ...] = (),
) -> list[Path]:
    """Write the table; without a CUDA device only the quick one."""
    import torch

    device = "cuda" if torch.cuda.is_available() and not quick else "cpu"
    if device == "cpu" and not quick:
        print("no CUDA device: --quick runs a tiny model on the CPU")
        return []
    sizes = QUICK if quick else Sizes(steps=steps)
    path = out / f"associative_recall{'_quick' if quick else ''}.csv"
    return [write_rows(path, rows(sizes, 1 if quick else seeds, minutes, names, device))]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a tiny model on the CPU")
    parser.add_argument("--minutes", type=float, default=math.inf, help="then no model is begun")
    parser.add_argument("--steps", type=int, default=Sizes().steps, help="of training")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=(), choices=tuple(methods(example())))
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    settings = (given.quick, given.minutes, given.steps, given.seeds, tuple(given.only))
    for written in run(given.out, *settings):
        print(f"written: {written}")


if __name__ == "__main__":
    main()
