"""The transformer of experiments.language_head, its losses, and what is measured of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch.nn.functional import (
    cross_entropy,
    linear,
    relu,
    scaled_dot_product_attention,
)

import maxent.torch as mt
import torch
from torch import Tensor, nn

ALPHAS = {"softmax": 1.0, "entmax15": 1.5, "learned": 1.5, "sparsemax": 2.0}
SMOOTHING = 1e-6  # epsilon of the likelihood that a learned alpha goes by
ALPHA_ROWS = 1024  # of a step, that it sees
ROWS = 2048  # whose scores are there at once when measuring
REACHES = (16, 32, 128, 512)  # of repetitions (Welleck et al., 2020)


class Sizes(NamedTuple):
    """Of the model and of a step."""

    classes: int = 1 << 15
    width: int = 768
    heads: int = 12
    layers: int = 12
    length: int = 1024
    batch: int = 64
    samples: int = 64
    sampled: int = 256  # tokens of a sample


class Block(nn.Module):
    """Attention and a layer with squared ReLU, each after a norm."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width = sizes.width
        self.heads = sizes.heads
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2))
        self.project = nn.Linear(width, 3 * width, bias=False)
        self.mix = nn.Linear(width, width, bias=False)
        self.widen = nn.Linear(width, 4 * width, bias=False)
        self.narrow = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        rows = self.project(self.norms[0](x)).unflatten(-1, (3, self.heads, -1))
        query, key, value = rows.permute(2, 0, 3, 1, 4)
        query, key = rotated(query, cos, sin), rotated(key, cos, sin)
        seen = scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.mix(seen.transpose(1, 2).flatten(2))
        made: Tensor = x + self.narrow(relu(self.widen(self.norms[1](x))).square())
        return made


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions."""
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1).type_as(x)


class GPT(nn.Module):
    """Blocks between embeddings and a head with the same weight."""

    cos: Tensor
    sin: Tensor

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.embed = nn.Embedding(sizes.classes, sizes.width)
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))
        self.norm = nn.RMSNorm(sizes.width)
        half = sizes.width // sizes.heads // 2
        angles = torch.outer(torch.arange(sizes.length), 10000.0 ** (-torch.arange(half) / half))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                end = name.endswith(("mix.weight", "narrow.weight"))
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * sizes.layers if end else 1))

    def forward(self, tokens: Tensor) -> Tensor:
        """What the head gets at each place."""
        length = tokens.shape[1]
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, self.cos[:length], self.sin[:length])
        made: Tensor = self.norm(x)
        return made


class Alpha(nn.Module):
    """An alpha between 1 and 2, which starts at 1.5."""

    def __init__(self) -> None:
        super().__init__()
        self.raw = nn.Parameter(torch.zeros(()))

    def forward(self, hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
        """Minus the epsilon-smoothed log-likelihood of some rows, whose scores stay as they are.

        The Fenchel-Young loss itself cannot choose: for given scores it falls as alpha grows,
        since the entropy in its conjugate does, whatever the targets are.
        """
        some = slice(None, None, max(len(targets) // ALPHA_ROWS, 1))
        with torch.no_grad():
            x = scores(hidden.detach()[some], weight)
        p = mt.entmax(x, (1 + self.raw.sigmoid()).expand(len(x), 1))
        own = p.gather(1, targets[some, None])[:, 0]
        return -((own + SMOOTHING) / (1 + SMOOTHING * x.shape[1])).log().mean()

    def value(self) -> float:
        """The number now; waits for the device."""
        return 1 + float(self.raw.detach().sigmoid())


def torch_loss(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """Torch's linear layer and cross-entropy."""
    return cross_entropy(linear(hidden, weight), targets)


def head_loss(alpha: float) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """The head in one."""
    return lambda hidden, weight, targets: mt.linear_fenchel_young_loss(
        hidden, weight, targets, alpha
    )


def loss_of(name: str, alpha: float) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """What is trained with: for softmax torch's."""
    return torch_loss if name == "softmax" else head_loss(alpha)


def scores(hidden: Tensor, weight: Tensor) -> Tensor:
    """Scores of 16-bit numbers in float32, as the head has them."""
    if hidden.device.type == "cuda":
        hidden, weight = hidden.bfloat16(), weight.bfloat16()
    return linear(hidden.float(), weight.float())


def autocast(device: str) -> Any:
    """bfloat16 on CUDA."""
    return torch.autocast(device, torch.bfloat16, device == "cuda")


def windows(length: int, total: int, seed: int, step: int, batch: int) -> NDArray[np.int64]:
    """Where the sequences of a step start: each epoch cuts the text anew, in random order."""
    if total < 2 * length + 2:
        raise ValueError(f"the text needs {2 * length + 2} tokens and more, got {total}")
    number = (total - 1) // length - 1
    starts = []
    for place in range(step * batch, (step + 1) * batch):
        epoch, inside = divmod(place, number)
        order, offset = _epoch(seed, epoch, number, length)
        starts.append(offset + length * order[inside])
    return np.array(starts)


_EPOCHS: dict[tuple[int, int, int, int], tuple[NDArray[np.int64], int]] = {}


def _epoch(seed: int, epoch: int, number: int, length: int) -> tuple[NDArray[np.int64], int]:
    key = seed, epoch, number, length
    if key not in _EPOCHS:
        random = np.random.default_rng([seed, epoch])
        _EPOCHS.clear() if len(_EPOCHS) > 2 else None
        _EPOCHS[key] = random.permutation(number), int(random.integers(length))
    return _EPOCHS[key]


def cost(
    loss: Callable[[Tensor, Tensor, Tensor], Tensor],
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    repeats: int = 7,
) -> tuple[float, float]:
    """Milliseconds of forward and backward, and GB beside inputs and gradients; the median."""
    cuda = hidden.device.type == "cuda"
    hidden = hidden.detach().requires_grad_()
    weight = weight.detach().requires_grad_()
    gradients = hidden.nbytes + weight.nbytes
    times = []
    before = peak = 0
    for repeat in range(repeats):
        hidden.grad = weight.grad = None
        if cuda:
            torch.cuda.synchronize()
            if repeat:
                torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            events[0].record()
        begin = perf_counter()
        with autocast(hidden.device.type):
            value = loss(hidden, weight, targets)
        value.backward()
        if cuda:
            events[1].record()
            torch.cuda.synchronize()
            peak = torch.cuda.max_memory_allocated() - before - gradients
            times.append(events[0].elapsed_time(events[1]))
        else:
            times.append(1e3 * (perf_counter() - begin))
    return median(times[2:]), (max(peak, 0) / 1e9 if cuda else math.nan)


@torch.no_grad()
def measured(
    model: GPT, alpha: float, tokens: Tensor, letters: Tensor, batch: int = 16
) -> dict[str, float]:
    """How the model does on sequences (n, length + 1) that it was not trained on.

    Every second sequence serves to fit the temperature and epsilon, and the others to judge them.
    """
    device = tokens.device.type
    with autocast(device):
        hidden = torch.cat([model(part[:, :-1]) for part in tokens.split(batch)])
    rows, targets = hidden.flatten(0, 1), tokens[:, 1:].flatten()
    weight = model.embed.weight
    parts: dict[str, list[Tensor]] = {}
    for x, y in chunks(rows, targets, weight):
        p = mt.entmax(x, alpha)
        some = {
            "loss": mt.fenchel_young_loss(x, y, alpha, "none"),
            "own": p.gather(1, y[:, None])[:, 0],
            "support": (p > 0).sum(1) if alpha > 1 else torch.full_like(y, x.shape[1]),
            "squares": p.square().sum(1),
            "guess": x.argmax(1),
        }
        for key, value in some.items():
            parts.setdefault(key, []).append(value)
    found = {key: torch.cat(value) for key, value in parts.items()}
    own, support = found["own"].double(), found["support"].double()
    guess = found["guess"].reshape(len(tokens), -1)
    fit = torch.zeros(guess.shape, dtype=torch.bool, device=tokens.device)
    fit[::2] = True
    fit = fit.flatten()
    size = float(letters[targets[~fit]].sum()) * math.log(2)
    temperature = best_temperature(rows[fit], targets[fit], weight)
    calibrated = sum(
        float(cross_entropy(x / temperature, y, reduction="sum"))
        for x, y in chunks(rows[~fit], targets[~fit], weight)
    )
    epsilon = min(
        (10.0 ** (k / 4) for k in range(-48, -3)),
        key=lambda epsilon: smoothed(own[fit], epsilon, len(weight)),
    )
    likelihood = smoothed(own[~fit], epsilon, len(weight))
    rep, wrep = repeated(guess, tokens)
    return {
        "own_loss": float(found["loss"].double().mean()),
        "accuracy": float((guess.flatten() == targets).double().mean()),
        "temperature": temperature,
        "bits_calibrated": calibrated / size,
        "epsilon": epsilon,
        "epsilon_perplexity": math.exp(likelihood),
        "bits_smoothed": likelihood * int((~fit).sum()) / size,
        "sparsemax_score": float((own + (1 - found["squares"].double()) / 2).mean()),
        "js": float(divergence(own).mean()),
        "support_mean": float(support.mean()),
        "support_median": float(support.median()),
        "inside": float((own > 0).double().mean()) if alpha > 1 else 1.0,
        "rep": rep,
        "wrep": wrep,
        "rep_text": repeated(tokens[:, 1:], tokens)[0],
        "judged": float(len(targets)),
    }


def chunks(rows: Tensor, targets: Tensor, weight: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Scores and targets of some rows at a time."""
    for x, y in zip(rows.split(ROWS), targets.split(ROWS), strict=True):
        yield scores(x, weight), y


def best_temperature(rows: Tensor, targets: Tensor, weight: Tensor) -> float:
    """That with the least cross-entropy, which is convex in its inverse: by bisection."""
    low, high = -8.0, 8.0  # of log2
    for _ in range(15):
        middle = (low + high) / 2
        slope = 0.0
        for x, y in chunks(rows, targets, weight):
            mean = ((x / 2**middle).softmax(1) * x).sum(1)
            slope += float((mean - x.gather(1, y[:, None])[:, 0]).double().sum())
        if slope > 0:  # colder makes the mean score even larger
            low = middle
        else:
            high = middle
    return float(2 ** ((low + high) / 2))


def smoothed(own: Tensor, epsilon: float, classes: int) -> float:
    """Minus the log-likelihood of (p + epsilon) / (1 + epsilon n), the mean.

    Its exponential is the epsilon-perplexity of Martins et al., "Sparse Text Generation" (2020).
    """
    return math.log1p(epsilon * classes) - float((own + epsilon).log().mean())


def divergence(own: Tensor) -> Tensor:
    """Jensen-Shannon's of p and the right class, which depends on its p alone."""
    return math.log(2) + (torch.xlogy(own, own) - (1 + own) * own.log1p()) / 2


def repeated(guess: Tensor, tokens: Tensor) -> tuple[float, float]:
    """rep and wrep of Welleck et al. (2020), the means over their four reaches.

    The share of guesses (n, length) that are among the last tokens that were seen, and of those
    that are so and wrong; tokens (n, length + 1).
    """
    seen, wrong = tokens[:, :-1], guess != tokens[:, 1:]
    found = torch.zeros_like(wrong)
    shares = []
    for back in range(max(REACHES)):
        if back < guess.shape[1]:
            found[:, back:] |= guess[:, back:] == seen[:, : seen.shape[1] - back]
        if back + 1 in REACHES:
            shares.append([float(x.double().mean()) for x in (found, found & wrong)])
    rep, wrep = np.mean(shares, axis=0)
    return float(rep), float(wrep)


@torch.no_grad()
def sampled(model: GPT, alpha: float, sizes: Sizes, seed: int, device: str) -> Tensor:
    """Texts (samples, sampled + 1) from the model's own distribution, after the end of a page."""
    generator = torch.Generator(device).manual_seed(seed)
    tokens = torch.zeros(sizes.samples, 1, dtype=torch.int64, device=device)
    for _ in range(sizes.sampled):
        with autocast(device):
            hidden = model(tokens)[:, -1]
        p = mt.entmax(scores(hidden, model.embed.weight), alpha)
        tokens = torch.cat([tokens, torch.multinomial(p, 1, generator=generator)], 1)
    return tokens


def variety(tokens: NDArray[np.int64]) -> dict[str, float]:
    """Of texts (n, length).

    distinct_n: different n-grams over all; rep_w: the share of tokens that are among the 16 before
    them (Fu et al., 2021); seq_rep_4: 4-grams of a text that it had already (Welleck et al., 2020).
    """
    found = {}
    for n in (1, 2, 3, 4):
        grams = np.lib.stride_tricks.sliding_window_view(tokens, n, 1)
        found[f"distinct_{n}"] = len(np.unique(grams.reshape(-1, n), axis=0)) / grams[..., 0].size
    again = np.zeros(tokens.shape, bool)
    for back in range(1, 17):
        again[:, back:] |= tokens[:, back:] == tokens[:, :-back]
    found["rep_w"] = float(again[:, 1:].mean())
    own = [len(np.unique(row, axis=0)) / len(row) for row in grams]
    return found | {"seq_rep_4": 1 - float(np.mean(own))}
