"""Segments and CTC in torch, beside torch-struct and torch; phrases by segments and by a chain.

Seconds are CPU time, of all threads: the work that each does, on a machine that others share.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import process_time

import maxent.torch.structured as ms
import torch
from benchmarks.density import forget_peak, peak
from benchmarks.peers import torch_struct_segments as torch_struct
from benchmarks.report import Row, compared, missing
from benchmarks.timing import in_turns as turns
from maxent import ChainClassifier, Quadratic, SegmentClassifier
from maxent.tagging import TEMPLATES, phrase_scores, read_conll
from torch import Tensor

in_turns = partial(turns, repeats=5, clock=process_time)
SUITE, OURS, TORCH = "structured_segments", "maxent", "torch"
DATA = Path(os.environ.get("MAXENT_DATA", Path(__file__).parents[2] / "shared" / "data"))
TEN = ("at least 10 x faster", 10.0)


def run(quick: bool = False, only: str = "") -> list[Row]:
    """Every problem; ``only`` is how the names of those begin that are measured."""
    torch.set_num_threads(2)
    torch.manual_seed(0)
    rows: list[Row] = []
    if "semi-Markov".startswith(only):
        rows += sums(2 if quick else 8)
    if "long".startswith(only):
        rows += long(2000 if quick else 100_000)
    if "CTC".startswith(only):
        rows += ctc(4 if quick else 16)
    if "phrases".startswith(only):
        rows += phrases(100 if quick else 800)
    return rows


def sums(batch: int) -> list[Row]:
    """Log-partitions and the gradient, where a peer can hold its table."""
    content, durations = torch.randn(batch, 40, 5), torch.randn(6, 5)
    transitions = torch.randn(5, 5)
    problem = f"semi-Markov log-partition and gradient, {batch} x 40, K = 6, C = 5, float32"

    def ours() -> tuple[Tensor, Tensor]:
        scores = content.clone().requires_grad_()
        value = ms.segment_log_partition(scores, durations, transitions)
        return value.detach(), torch.autograd.grad(value.sum(), scores)[0]

    competitors = {OURS: ours}
    rows = []
    try:
        competitors[torch_struct.NAME] = torch_struct.sums(content, durations, transitions)
        competitors[torch_struct.NAME]()
    except ImportError as error:
        del competitors[torch_struct.NAME]
        rows.append(missing(SUITE, problem, torch_struct.NAME, str(error)))
    exact = ms.segment_marginals(content.double(), durations, transitions).labels
    times = in_turns(competitors)
    errors = {name: float((f()[1] - exact).abs().max()) for name, f in competitors.items()}
    return rows + compared(SUITE, problem, times, OURS, errors, {torch_struct.NAME: TEN})


def long(length: int) -> list[Row]:
    """One sequence whose table of segments would not fit: how far probabilities are from 1."""
    labels, longest = 24, 1000
    content, durations = torch.randn(1, length, labels), torch.randn(longest, labels)
    transitions = torch.randn(labels, labels)
    problem = f"long semi-Markov marginals, {length} positions, K = {longest}, C = {labels}"
    found: list[Tensor] = []

    def ours() -> None:
        found[:] = [ms.segment_marginals(content, durations, transitions).labels]

    ms.segment_marginals(content[:, :50], durations, transitions)  # compiles
    forget_peak()
    before = peak()
    times = turns({OURS: ours}, repeats=1, clock=process_time)
    error = {OURS: float((found[0].sum(2) - 1).abs().max())}
    table = length * longest * labels * 8 / 1e6
    note = f"{peak() - before:.0f} MB; a table of all segments takes {table:.4g} MB in float64"
    return [replace(row, note=note) for row in compared(SUITE, problem, times, OURS, error, {})]


def ctc(batch: int) -> list[Row]:
    """Loss and gradient beside torch's own; the error is that of the gradient."""
    scores, targets = torch.randn(batch, 150, 40), torch.randint(1, 40, (batch, 30))
    lengths, sizes = torch.full((batch,), 150), torch.full((batch,), 30)
    problem = f"CTC loss and gradient, {batch} x 150 x 40, targets of 30, float32"

    def ours() -> Tensor:
        leaf = scores.clone().requires_grad_()
        loss = ms.ctc_loss(leaf, targets, reduction="sum")
        return torch.autograd.grad(loss, leaf)[0]

    def theirs(given: Tensor = scores) -> Tensor:
        leaf = given.clone().requires_grad_()
        rows = leaf.log_softmax(2).transpose(0, 1)
        loss = torch.nn.functional.ctc_loss(rows, targets, lengths, sizes, reduction="sum")
        return torch.autograd.grad(loss, leaf)[0]

    exact = theirs(scores.double())
    competitors = {OURS: ours, TORCH: theirs}
    times = in_turns(competitors)
    errors = {name: float((f() - exact).abs().max()) for name, f in competitors.items()}
    return compared(SUITE, problem, times, OURS, errors, {})


def phrases(sentences: int) -> list[Row]:
    """CoNLL-2000 by segments and by a chain, to a gap of 0.01; accuracy: F1 on the test set."""
    problem = f"phrases of CoNLL-2000, {sentences} sentences, c2 = 0.5"
    folder = DATA / "conll2000"
    if not folder.is_dir():
        return [missing(SUITE, problem, OURS, f"no data at {folder}")]

    def read(part: str, count: int | None = None) -> tuple[list, list]:
        tokens = read_conll(folder / f"{part}.txt.gz")[:count]
        names = [list(map(list, row)) for row in TEMPLATES["chunking"].tokens(tokens)]
        return names, [[token[2] for token in row] for row in tokens]

    X, y = read("train", sentences)
    fresh, truth = read("test")
    settings = {"potential": Quadratic(1.0 / len(X)), "tol": 0.01}
    times, scores = {}, {}
    for name, model in (
        (OURS, SegmentClassifier(**settings)),
        (f"{OURS} (chain)", ChainClassifier(**settings)),
    ):
        begin = process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y)
        times[name] = [process_time() - begin]
        found = [labels.tolist() for labels in model.predict(fresh)]
        scores[name] = phrase_scores(truth, found).f1
    return compared(SUITE, problem, times, OURS, scores, {})
