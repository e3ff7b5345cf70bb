"""Language models trained with softmax, 1.5-entmax, a learned alpha and sparsemax as their heads.

A GPT of 110 million parameters (12 blocks of width 768, rotary positions, RMSNorm, squared ReLU;
the weight of the head is that of the embeddings) reads sequences of 1,024 tokens of Debian's
documentation packages (`_language_text` names them and their licences). Models differ in their
loss alone: the same seed draws the same first weights and the same sequences, and the number of
steps, which the schedule of the learning rate depends on, comes from ``--tokens``.

- softmax: torch's linear layer and cross-entropy; our head with Shannon's entropy, the same loss,
  is timed beside it.
- entmax15, sparsemax: ``linear_fenchel_young_loss`` with alpha 1.5 and 2.
- learned: the same with one alpha between 1 and 2. The loss cannot choose it, since for any scores
  it falls as alpha grows; it follows the gradient of the epsilon-smoothed likelihood of 1,024
  rows of each step instead, whose scores are held fixed.

A row of language_head.csv is a seed, a loss and an evaluation. During training it is on 64
sequences of the validation pages, at the end on all (``judged``: tokens).

- ms_step, gb_step: a step of training (median since the last row), and the most memory it takes;
  head_ms, head_gb: the head alone, forward and backward on the hidden vectors of a batch, memory
  beside inputs and gradients; torch_ms, torch_gb and shannon_ms, shannon_gb: the same for torch's
  linear layer and cross-entropy, and for our head with Shannon's entropy;
- own_loss: on validation, in the loss that was trained with; accuracy: of the best class;
- temperature, bits_calibrated: bits per byte of softmax(scores / temperature), with the temperature
  that is best for every second sequence, judged on the others;
- epsilon, epsilon_perplexity, bits_smoothed: the same for (p + epsilon) / (1 + epsilon n);
  sparsemax_score, js: the other measures of Martins et al., "Sparse Text Generation" (2020);
- support_mean, support_median, inside: classes with p > 0, and how often the next token is one;
- rep, wrep: the best class is among the last 16 to 512 tokens, and is so and wrong (Welleck et al.,
  2020); rep_text: the next token is.

language_head_samples.csv: n-grams and repetitions of 64 texts of 256 tokens drawn from each model's
own distribution, and of pages as they are ("text"); language_head_samples.txt has three of each.
language_head_summary.csv: the last rows, means over seeds.

python -m experiments.language_head corpus                     # needs lxml, tokenizers, apt-get
python -m experiments.language_head train --loss entmax15 [--tokens 100] [--minutes 9] [--resume]
python -m experiments.language_head all [--minutes 9]           # each loss in a process of its own
python -m experiments.language_head merge FOLDER
python -m experiments.language_head plot

Training needs torch, numpy and a CUDA device; ``--quick`` is a tiny model for a CPU, in seconds.
A run that reaches ``--minutes`` leaves a checkpoint for ``--resume`` beside the tokens; ``all`` is
gone on with by the same command.
"""

from __future__ import annotations

import argparse
import csv
import math
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean, median
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments import _language_text
from experiments.run import RESULTS, write_rows

LOSSES = ("softmax", "entmax15", "learned", "sparsemax")
NAME = "language_head"
TABLES = (NAME, f"{NAME}_samples")
WAIT = 10  # steps between looks at the device
WRITTEN = 3  # samples
START = 0.6  # minutes that a process takes beside its training


class Plan(NamedTuple):
    """Of a run."""

    loss: str
    seed: int = 0
    tokens: float = 100e6
    rate: float = 1e-3
    minutes: float = math.inf
    every: int = 150  # steps between evaluations
    judged: int = 64  # sequences
    save: float = 4.0  # minutes between checkpoints
    compile: bool = False
    quick: bool = False

    @property
    def name(self) -> str:
        """Of its files."""
        return f"{self.loss}_{self.seed}"


class Text(NamedTuple):
    """Tokens, and the bytes each stands for."""

    train: NDArray[np.uint16]
    validation: NDArray[np.uint16]
    words: list[bytes]


def full_text(folder: Path) -> Text:
    """What ``corpus`` has written."""
    parts = [_language_text.unpacked(folder / f"{name}.npy.xz") for name in ("train", "validation")]
    return Text(*parts, _language_text.vocabulary(folder / "tokenizer.json"))


def small_text() -> Text:
    """The bytes of Python's manual, each a token."""
    from pydoc_data.topics import topics

    pages = [np.frombuffer(page.encode(), np.uint8) for page in topics.values()]
    tokens = np.concatenate([np.append(page, 0) for page in pages]).astype(np.uint16)
    words = [b"", *(bytes([byte]) for byte in range(1, 256))]
    return Text(tokens[20_000:100_000], tokens[:20_000], words)


class Run:
    """One model in training."""

    def __init__(self, plan: Plan, text: Text, device: str) -> None:
        import torch
        from experiments import _language_model as parts

        self.parts, self.torch, self.plan, self.device = parts, torch, plan, device
        self.sizes = parts.Sizes()
        if plan.quick:
            self.sizes = parts.Sizes(256, 32, 2, 1, 32, 8, 4, 24)
        if len(text.words) != self.sizes.classes:
            raise ValueError(
                f"the model has {self.sizes.classes} classes and the text {len(text.words)}"
            )
        self.text = text
        self.steps = max(int(plan.tokens / (self.sizes.batch * self.sizes.length)), 1)
        torch.manual_seed(plan.seed)
        self.model = parts.GPT(self.sizes).to(device)
        self.alpha = parts.Alpha().to(device) if plan.loss == "learned" else None
        self.number = parts.ALPHAS[plan.loss]  # alpha as the head has it
        weights = list(self.model.parameters())
        groups = [
            {"params": [w for w in weights if w.ndim > 1], "weight_decay": 0.1},
            {"params": [w for w in weights if w.ndim == 1], "weight_decay": 0.0},
        ]
        cuda = device == "cuda"
        self.optimizers = [torch.optim.AdamW(groups, plan.rate, (0.9, 0.95), fused=cuda)]
        if self.alpha is not None:
            self.optimizers.append(torch.optim.Adam(self.alpha.parameters(), 1e-2))
        if plan.compile:
            for block in self.model.blocks:
                block.compile()
        self.step, self.seconds = 0, 0.0
        self.rows: list[dict[str, Any]] = []
        self.tokens = torch.from_numpy(text.train.astype(np.int32)).to(device)
        self.letters = torch.tensor([len(word) for word in text.words], device=device)
        self.times: list[float] = []
        self.losses: list[float] = []

    def batch(self, step: int) -> Any:
        """Sequences of a step, (batch, length + 1)."""
        size = self.sizes
        starts = self.parts.windows(size.length, len(self.tokens), self.plan.seed, step, size.batch)
        places = self.torch.from_numpy(starts)[:, None] + self.torch.arange(size.length + 1)
        return self.tokens[places.to(self.device)].long()

    def validation(self, number: int | None) -> Any:
        """Sequences from all over the validation text, all or so many."""
        length = self.sizes.length
        starts = np.arange(0, len(self.text.validation) - length, length)
        if number is not None and number < len(starts):
            starts = starts[np.linspace(0, len(starts) - 1, number).astype(int)]
        rows = self.text.validation[starts[:, None] + np.arange(length + 1)]
        return self.torch.from_numpy(rows.astype(np.int64)).to(self.device)

    def rate(self, step: int) -> float:
        """Up over a twentieth of the steps, then a cosine to a tenth."""
        warm = max(self.steps // 20, 1)
        if step < warm:
            return self.plan.rate * (step + 1) / warm
        done = (step - warm) / max(self.steps - warm, 1)
        return self.plan.rate * (0.55 + 0.45 * math.cos(math.pi * done))

    def advance(self) -> Any:
        """One step; its loss, still on the device."""
        torch, model = self.torch, self.model
        sequences = self.batch(self.step)
        for group in self.optimizers[0].param_groups:
            group["lr"] = self.rate(self.step)
        targets = sequences[:, 1:].flatten()
        with self.parts.autocast(self.device):
            hidden = model(sequences[:, :-1]).flatten(0, 1)
            loss = self.parts.loss_of(self.plan.loss, self.number)(
                hidden, model.embed.weight, targets
            )
        loss.backward()
        if self.alpha is not None:
            self.alpha(hidden, model.embed.weight, targets).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        self.step += 1
        return loss.detach()

    def train(self, out: Path, checkpoint: Path) -> bool:
        """Go on to the last step, or until the time is over; whether it is done."""
        torch, plan = self.torch, self.plan
        begin = saved = perf_counter()
        if not self.rows:
            self.judge(plan.judged, out)
        while self.step < self.steps:
            now = perf_counter()
            until = min(self.step + WAIT, self.steps)
            if plan.every * (self.step // plan.every + 1) < until:
                until = plan.every * (self.step // plan.every + 1)
            first = self.step
            made = torch.stack([self.advance() for _ in range(first, until)]).tolist()
            taken = perf_counter() - now
            self.seconds += taken
            if first:  # the first steps compile, and reserve memory
                self.times.append(taken / (until - first))
            self.losses += made
            if not all(map(math.isfinite, made)):
                raise FloatingPointError(f"{plan.name}: a loss of steps {first} to {until}: {made}")
            if self.alpha is not None:
                self.number = self.alpha.value()
            if self.step % plan.every == 0 and self.step < self.steps:
                self.judge(plan.judged, out)
            over = perf_counter() - begin > 60 * plan.minutes
            if over or perf_counter() - saved > 60 * plan.save:
                self.save(checkpoint)
                saved = perf_counter()
            if over:
                return self.step == self.steps and self.end(out)
        return self.end(out)

    def end(self, out: Path) -> bool:
        """Judge the trained model on all of the validation text, and let it write."""
        self.judge(None, out)
        with self.torch.compiler.set_stance("force_eager"):
            drawn = self.parts.sampled(
                self.model, self.number, self.sizes, self.plan.seed, self.device
            ).cpu()
        named = {"loss": self.plan.loss, "seed": self.plan.seed}
        rows = [named | self.parts.variety(drawn.numpy()[:, 1:])]
        texts = [b"".join(self.text.words[i] for i in row) for row in drawn[:WRITTEN].tolist()]
        page = pages(self.text.validation, self.sizes.sampled, self.sizes.samples)
        if len(page):
            rows.append({"loss": "text", "seed": self.plan.seed} | self.parts.variety(page))
        write_rows(out / f"{TABLES[1]}_{self.plan.name}.csv", iter(rows))
        part = out / f"{TABLES[1]}_{self.plan.name}.part"
        part.write_text(
            "".join(
                f"---- {self.plan.name}, sample {number}\n{text.decode(errors='replace')}\n\n"
                for number, text in enumerate(texts, 1)
            ),
            encoding="utf-8",
        )
        part.replace(part.with_suffix(".txt"))
        return True

    def judge(self, number: int | None, out: Path) -> None:
        """A row more of the table."""
        with self.torch.compiler.set_stance("force_eager"):  # shapes that come once
            self._judge(number, out)

    def _judge(self, number: int | None, out: Path) -> None:
        torch, plan, cuda = self.torch, self.plan, self.device == "cuda"
        weight = self.model.embed.weight
        row: dict[str, Any] = {
            "loss": plan.loss,
            "seed": plan.seed,
            "step": self.step,
            "steps": self.steps,
            "tokens": self.step * self.sizes.batch * self.sizes.length,
            "seconds": self.seconds,
            "ms_step": 1e3 * median(self.times) if self.times else math.nan,
            "gb_step": torch.cuda.max_memory_allocated() / 1e9 if cuda and self.step else math.nan,
            "alpha": self.number,
            "train_loss": fmean(self.losses) if self.losses else math.nan,
        }
        self.times, self.losses = [], []
        sequences = self.batch(self.step)
        with torch.no_grad(), self.parts.autocast(self.device):
            hidden = self.model(sequences[:, :-1]).flatten(0, 1)
            if cuda:  # as the head has them
                hidden, weight = hidden.bfloat16(), weight.bfloat16()
        targets = sequences[:, 1:].flatten()
        for name, loss in {
            "head": self.parts.loss_of(plan.loss, self.number),
            "torch": self.parts.torch_loss,
            "shannon": self.parts.head_loss(1.0),
        }.items():
            row[f"{name}_ms"], row[f"{name}_gb"] = self.parts.cost(loss, hidden, weight, targets)
        row |= self.parts.measured(self.model, self.number, self.validation(number), self.letters)
        self.rows.append(row)
        print({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
        write_rows(out / f"{NAME}_{plan.name}.csv", iter(self.rows))
        if cuda:
            torch.cuda.reset_peak_memory_stats()

    def save(self, path: Path) -> None:
        """All that a run needs to go on, whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        state = {
            "plan": self.plan._replace(minutes=0.0)._asdict(),
            "model": self.model.state_dict(),
            "alpha": None if self.alpha is None else self.alpha.state_dict(),
            "number": self.number,
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "step": self.step,
            "seconds": self.seconds,
            "rows": self.rows,
            "times": self.times,
            "losses": self.losses,
        }
        part = path.with_suffix(".part")
        self.torch.save(state, part)
        part.replace(path)

    def load(self, path: Path) -> None:
        """Go on from what ``save`` has written."""
        if not path.exists():
            raise FileNotFoundError(f"there is no checkpoint {path}: train without --resume first")
        state = self.torch.load(path, map_location=self.device, weights_only=True)
        for key in ("loss", "seed", "tokens", "rate", "quick"):
            if state["plan"][key] != getattr(self.plan, key):
                raise ValueError(
                    f"{path} is of a run with {key} {state['plan'][key]}, not "
                    f"{getattr(self.plan, key)}: ask for the same, or train without --resume"
                )
        self.model.load_state_dict(state["model"])
        if self.alpha is not None:
            self.alpha.load_state_dict(state["alpha"])
        for optimizer, known in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(known)
        for key in ("number", "step", "seconds", "rows", "times", "losses"):
            setattr(self, key, state[key])


def pages(tokens: NDArray[np.uint16], length: int, number: int) -> NDArray[np.int64]:
    """The beginnings of pages that are long enough, from all over the text."""
    ends = np.flatnonzero(tokens == 0)
    starts = np.append(0, ends[:-1] + 1)
    starts = starts[ends - starts >= length]
    if len(starts) > number:
        starts = starts[np.linspace(0, len(starts) - 1, number).astype(int)]
    return tokens[starts[:, None] + np.arange(length)].astype(np.int64)


def train(plan: Plan, text: Text, out: Path, checkpoints: Path, resume: bool = False) -> bool:
    """Train a model, or go on with it; whether it is done."""
    import torch

    device = "cuda" if torch.cuda.is_available() and not plan.quick else "cpu"
    if device == "cpu" and not plan.quick:
        raise RuntimeError("there is no CUDA device: --quick trains a tiny model on the CPU")
    torch.backends.cuda.matmul.allow_tf32 = True  # exact for the products of 16-bit numbers
    out.mkdir(parents=True, exist_ok=True)
    run = Run(plan, text, device)
    checkpoint = checkpoints / f"{plan.name}.pt"
    if resume:
        run.load(checkpoint)
    done = run.train(out, checkpoint)
    print(f"{plan.name}: step {run.step} of {run.steps}" + ("" if done else "; --resume goes on"))
    return done


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a csv."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def merge(folder: Path, out: Path) -> list[Path]:
    """Join the files of several runs, in this folder or one below it."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    texts = []
    for loss in (*LOSSES, "text"):
        for path in sorted(folder.rglob(f"{NAME}_*.csv")):
            table = TABLES["samples" in path.name]
            known = {(row["loss"], row["seed"]) for row in found[table]}
            rows = [row for row in read(path) if row["loss"] == loss]
            found[table] += [row for row in rows if (row["loss"], row["seed"]) not in known]
        texts += sorted(folder.rglob(f"{TABLES[1]}_{loss}_*.txt"))
    if not found[NAME]:
        raise FileNotFoundError(f"no {NAME}_LOSS_SEED.csv in {folder}: train writes them")
    out.mkdir(parents=True, exist_ok=True)
    written = [write_rows(out / f"{name}.csv", iter(found[name])) for name in TABLES if found[name]]
    written.append(write_rows(out / f"{NAME}_summary.csv", iter(summary(found[NAME]))))
    if texts:
        part = out / f"{TABLES[1]}.part"
        part.write_text("".join(path.read_text(encoding="utf-8") for path in texts))
        written.append(part.replace(out / f"{TABLES[1]}.txt"))
    return written


def summary(rows: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """The last row of each loss, the mean over the seeds that came to their end."""
    for loss in dict.fromkeys(row["loss"] for row in rows):
        ends = [row for row in rows if row["loss"] == loss and row["step"] == row["steps"]]
        if ends:
            numbers = [k for k in ends[0] if k not in ("loss", "seed", "step")]
            means = {k: fmean(float(row[k]) for row in ends) for k in numbers}
            yield {"loss": loss, "seeds": len(ends)} | means


def plot(out: Path) -> list[Path]:
    """Bits, accuracy and supports over training."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    path = out / f"{NAME}.csv"
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there: merge writes it")
    rows = read(path)
    fig, axes = plt.subplots(2, 2, figsize=(9, 6), layout="constrained", sharex=True)
    panels = {
        "bits_calibrated": "bits per byte, calibrated softmax",
        "bits_smoothed": "bits per byte, own p with epsilon",
        "accuracy": "accuracy",
        "support_mean": "tokens with p > 0",
    }
    for axis, (column, label) in zip(axes.flat, panels.items(), strict=True):
        for loss in dict.fromkeys(row["loss"] for row in rows):
            some = [row for row in rows if row["loss"] == loss and row["seed"] == rows[0]["seed"]]
            # on the same part of the validation text; the last row is on all of it
            some = [row for row in some if 0 < int(row["step"]) < int(row["steps"])]
            x = [float(row["tokens"]) / 1e6 for row in some]
            axis.plot(x, [float(row[column]) for row in some], label=loss)
        axis.set(ylabel=label, xlabel="million tokens")
    axes[1, 1].set_yscale("log")
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    part = out / f"{NAME}.part.png"
    fig.savefig(part, dpi=150)
    plt.close(fig)
    return [part.replace(out / f"{NAME}.png")]


def is_done(path: Path) -> bool:
    """Whether the table of a run has its last step, and its texts are written."""
    rows = read(path) if path.exists() else []
    texts = path.with_name(path.name.replace(NAME, TABLES[1], 1)).with_suffix(".txt")
    return bool(rows) and rows[-1]["step"] == rows[-1]["steps"] and texts.exists()


def train_all(
    losses: Iterable[str], out: Path, checkpoints: Path, minutes: float, options: list[str]
) -> bool:
    """Train each in a process of its own until the time is over; whether all are done.

    What fails leaves the others alone, and what was stopped is gone on with.
    """
    begin, done = perf_counter(), True
    for loss in losses:
        name = Plan(loss).name
        if is_done(out / f"{NAME}_{name}.csv"):
            continue
        left = minutes - (perf_counter() - begin) / 60 - START
        if left <= 0:
            return False
        command = [sys.executable, "-m", "experiments.language_head", "train", "--loss", loss]
        command += ["--out", str(out), "--checkpoints", str(checkpoints), *options]
        if math.isfinite(left):
            command += ["--minutes", f"{left:.3f}"]
        if (checkpoints / f"{name}.pt").exists():
            command.append("--resume")
        try:
            code = subprocess.run(
                command,
                cwd=Path(__file__).parents[1],
                timeout=60 * (left + START) if math.isfinite(left) else None,
            ).returncode
        except subprocess.TimeoutExpired:
            print(f"{name}: stopped, as the time was over", flush=True)
            return False
        if code:
            print(f"{name}: ended with code {code}", flush=True)
        done &= is_done(out / f"{NAME}_{name}.csv")
    return done


def run(out: Path) -> list[Path]:
    """Train all one after the other, and write the tables; only with a CUDA device."""
    import torch

    if not torch.cuda.is_available():
        print("no CUDA device: train --quick runs a tiny model on the CPU")
        return []
    parts = _language_text.FOLDER / "runs"
    if not train_all(LOSSES, parts, _language_text.FOLDER, math.inf, []):
        raise RuntimeError(f"a model was not trained to its end; those that were are in {parts}")
    written = [*merge(parts, out), *plot(out)]
    shutil.rmtree(parts)
    return written


def main() -> None:
    """The command."""
    about = __doc__.splitlines()[0] if __doc__ else None
    parser = argparse.ArgumentParser(description=about)
    commands = parser.add_subparsers(dest="command", required=True)
    folder = _language_text.FOLDER
    made = commands.add_parser("corpus", help="fetch the text and write its tokens")
    made.add_argument("--folder", type=Path, default=folder)
    made.add_argument("--packages", type=Path, help="where .deb files are, or are fetched to")
    made.add_argument("--megabytes", type=float, default=_language_text.MEGABYTES)
    fit = commands.add_parser("train", help="train one model")
    fit.add_argument("--loss", choices=LOSSES, required=True)
    fit.add_argument("--seed", type=int, default=0)
    fit.add_argument("--tokens", type=float, default=100.0, help="millions, of the whole training")
    fit.add_argument("--minutes", type=float, default=math.inf, help="then stop, to be resumed")
    fit.add_argument("--rate", type=float, default=Plan("").rate, help="largest learning rate")
    fit.add_argument("--every", type=int, default=Plan("").every, help="steps to an evaluation")
    fit.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    fit.add_argument("--compile", action="store_true", help="the blocks, by torch.compile")
    fit.add_argument("--quick", action="store_true", help="a tiny model on the CPU")
    fit.add_argument("--folder", type=Path, default=folder, help="of the tokens")
    fit.add_argument("--checkpoints", type=Path, default=folder)
    fit.add_argument("--out", type=Path, default=folder / "runs")
    whole = commands.add_parser(
        "all", help="train all losses; options that are not its own are those of train"
    )
    whole.add_argument("--losses", nargs="+", choices=LOSSES, default=LOSSES)
    whole.add_argument("--minutes", type=float, default=math.inf, help="of all together")
    whole.add_argument("--checkpoints", type=Path, default=folder)
    whole.add_argument("--out", type=Path, default=folder / "runs")
    for name, about in (("merge", "join the tables of runs"), ("plot", "draw the merged table")):
        each = commands.add_parser(name, help=about)
        if name == "merge":
            each.add_argument("runs", type=Path)
        each.add_argument("--out", type=Path, default=RESULTS)
    given, options = parser.parse_known_args()
    if options and given.command != "all":
        parser.error(f"unrecognized arguments: {' '.join(options)}")
    if given.command == "corpus":
        print(f"written: {_language_text.make(given.folder, given.packages, given.megabytes)}")
    elif given.command == "train":
        tokens = 2e4 if given.quick else 1e6 * given.tokens
        every = 30 if given.quick else given.every
        plan = Plan(
            *(given.loss, given.seed, tokens, given.rate, given.minutes, every),
            compile=given.compile,
            quick=given.quick,
        )
        text = small_text() if given.quick else full_text(given.folder)
        train(plan, text, given.out, given.checkpoints, given.resume)
    elif given.command == "all":
        places = given.out.resolve(), given.checkpoints.resolve()
        done = train_all(given.losses, *places, given.minutes, options)
        print("all are done" if done else "not all are done: the same command goes on")
        sys.exit(0 if done else 1)
    else:
        found = merge(given.runs, given.out) if given.command == "merge" else plot(given.out)
        for path in found:
            print(f"written: {path}")


if __name__ == "__main__":
    main()
