"""python-crfsuite: CRFsuite's trainer and tagger, in one thread.

As a script it trains from a file of its own form (label and names of a token in a line) and prints
the most memory it held; it imports nothing of ours then.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path

NAME = "python-crfsuite"


def train(
    sequences: Iterable[tuple[list, list[str]]], c2: float, iterations: int, path: Path
) -> None:
    """So many iterations of L-BFGS on sum of losses + c2 ||w||^2, no other rule to stop."""
    from pycrfsuite import Trainer

    trainer = Trainer(verbose=False)
    for tokens, labels in sequences:
        trainer.append(tokens, labels)
    trainer.select("lbfgs")
    never = {"epsilon": 1e-30, "delta": 1e-30, "period": iterations + 1}
    trainer.set_params({"c1": 0.0, "c2": c2, "max_iterations": iterations, **never})
    trainer.train(str(path))


def train_l1(
    sequences: Iterable[tuple[list, list[str]]], c1: float, iterations: int, path: Path
) -> float:
    """The same by OWL-QN on sum of losses + c1 ||w||_1; the objective that it reports last."""
    from pycrfsuite import Trainer

    reported: list[float] = []

    class Listening(Trainer):
        def message(self, text: str) -> None:
            if text.startswith("Loss:"):
                reported.append(float(text.split(":")[1]))

    trainer = Listening(verbose=True)
    for tokens, labels in sequences:
        trainer.append(tokens, labels)
    trainer.select("lbfgs")
    never = {"epsilon": 1e-30, "delta": 1e-30, "period": iterations + 1}
    trainer.set_params({"c1": c1, "c2": 0.0, "max_iterations": iterations, **never})
    trainer.train(str(path))
    return reported[-1]


def tagger(path: Path):
    """The model of a file."""
    from pycrfsuite import Tagger

    model = Tagger()
    model.open(str(path))
    return model


def weights(path: Path) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], float]]:
    """Of (attribute, label) and of (label, label)."""
    info = tagger(path).info()
    return info.state_features, info.transitions


def read(path: Path) -> Iterator[tuple[list[list[str]], list[str]]]:
    """Sequences of a file, one at a time."""
    tokens: list[list[str]] = []
    labels: list[str] = []
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.strip():
                label, *names = line.rstrip("\n").split("\t")
                tokens.append(names)
                labels.append(label)
            elif tokens:
                yield tokens, labels
                tokens, labels = [], []


def describe() -> str:
    return f"{NAME} {version(NAME)}"


def main() -> None:
    source, c2, iterations, target = sys.argv[1:]
    train(read(Path(source)), float(c2), int(iterations), Path(target))
    print(int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024)


if __name__ == "__main__":
    main()
