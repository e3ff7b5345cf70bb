"""A dependency parser: bi-LSTM, biaffine scores, and the loss of your choice over trees.

    python parser.py --treebank DIR --prefix en --loss crf sparsemap hinge

trains on the files DIR/<prefix>*-train.conllu[.gz], keeps the best epoch on *-dev and reports the
unlabeled attachment on *-test, with gold tokens and part-of-speech tags (Fenchel-Young paper,
§9.2, Table 5). With --projective no arcs of its trees cross. Without a treebank it learns a few
sentences by heart.
"""

import argparse
import gzip
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import torch
from maxent.torch.structured import (
    ArborescenceLoss,
    ProjectiveLoss,
    arborescence_argmax,
    projective_argmax,
)
from torch import Tensor, nn

LOSSES = ("crf", "sparsemap", "hinge")
PAD, UNKNOWN, ROOT = 0, 1, 2

TINY = """
the/DET/2 cat/NOUN/3 sleeps/VERB/0
a/DET/2 dog/NOUN/3 chases/VERB/0 the/DET/5 cat/NOUN/3
she/PRON/2 reads/VERB/0 a/DET/5 long/ADJ/5 book/NOUN/2
the/DET/3 old/ADJ/3 dog/NOUN/4 sleeps/VERB/0 in/ADP/7 the/DET/7 garden/NOUN/4
a/DET/2 hearing/NOUN/4 is/AUX/4 scheduled/VERB/0 on/ADP/7 the/DET/7 issue/NOUN/2 today/NOUN/4
"""


class Sentence(NamedTuple):
    """Words, their tags, and their heads, which count from 1; 0 is the root."""

    words: list[str]
    tags: list[str]
    heads: list[int]


class Batch(NamedTuple):
    """Padded (batch, n) tensors with the root first, and the nodes of each sentence.

    Heads and lengths stay on the CPU, where trees are searched and summed: compiled kernels are
    faster on a few small graphs than a device is.
    """

    words: Tensor
    tags: Tensor
    heads: Tensor
    lengths: Tensor


def tiny_treebank() -> list[Sentence]:
    """The embedded sentences; the last one is not projective."""
    rows = [[token.split("/") for token in line.split()] for line in TINY.strip().splitlines()]
    return [
        Sentence([w for w, _, _ in row], [t for _, t, _ in row], [int(h) for _, _, h in row])
        for row in rows
    ]


def read_conllu(path: Path) -> list[Sentence]:
    """The sentences of a CoNLL-U file; ranges and empty nodes are left out."""
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    blocks = text.strip().split("\n\n")
    sentences = []
    for block in blocks:
        fields = [line.split("\t") for line in block.splitlines() if not line.startswith("#")]
        tokens = [f for f in fields if f[0].isdigit()]
        sentences.append(
            Sentence([f[1] for f in tokens], [f[3] for f in tokens], [int(f[6]) for f in tokens])
        )
    return sentences


def read_part(folder: Path, prefix: str, part: str) -> list[Sentence]:
    """The sentences of <prefix>*-<part>.conllu or .conllu.gz."""
    paths = sorted(folder.glob(f"{prefix}*-{part}.conllu*"))
    if len(paths) != 1:
        raise SystemExit(
            f"{folder} has {len(paths)} files {prefix}*-{part}.conllu[.gz], expected one; "
            "choose a treebank by --prefix"
        )
    return read_conllu(paths[0])


class Vocabulary:
    """Numbers for the words seen twice and for the tags; counts for the dropout of words."""

    def __init__(self, sentences: list[Sentence], least: int = 2) -> None:
        counts = Counter(word.lower() for s in sentences for word in s.words)
        kept = [word for word, count in counts.most_common() if count >= least]
        self.words = {word: i for i, word in enumerate(kept, start=3)}
        tags = sorted({tag for s in sentences for tag in s.tags})
        self.tags = {tag: i for i, tag in enumerate(tags, start=3)}
        self.counts = torch.tensor([0, 0, 0, *(counts[word] for word in kept)]).float()

    def batches(self, sentences: list[Sentence], nodes: int, device: str) -> list[Batch]:
        """Sentences of similar length, at most about ``nodes`` in a batch."""
        groups: list[list[Sentence]] = []
        for sentence in sorted(sentences, key=lambda s: len(s.words)):
            if not groups or (len(groups[-1]) + 1) * (len(sentence.words) + 1) > nodes:
                groups.append([])
            groups[-1].append(sentence)
        return [self._batch(group, device) for group in groups]

    def _batch(self, group: list[Sentence], device: str) -> Batch:
        n = 1 + max(len(s.words) for s in group)

        def padded(rows: list[list[int]]) -> Tensor:
            return torch.tensor([row + [0] * (n - len(row)) for row in rows], device=device)

        return Batch(
            padded([[ROOT, *(self.words.get(w.lower(), UNKNOWN) for w in s.words)] for s in group]),
            padded([[ROOT, *(self.tags.get(t, UNKNOWN) for t in s.tags)] for s in group]),
            padded([[0, *s.heads] for s in group]).cpu(),
            torch.tensor([1 + len(s.words) for s in group]),
        )


class Parser(nn.Module):
    """Scores (batch, n, n) [head, dependent] of every arc."""

    def __init__(self, vocabulary: Vocabulary, hidden: int = 200, dropout: float = 0.33) -> None:
        super().__init__()
        self.register_buffer("keep", vocabulary.counts / (vocabulary.counts + 0.25))
        self.words = nn.Embedding(len(vocabulary.words) + 3, 100, padding_idx=PAD)
        self.tags = nn.Embedding(len(vocabulary.tags) + 3, 50, padding_idx=PAD)
        self.dropout = nn.Dropout(dropout)
        self.encoder = nn.LSTM(
            150, hidden, num_layers=2, bidirectional=True, batch_first=True, dropout=dropout
        )
        self.head = nn.Linear(2 * hidden, hidden)
        self.dependent = nn.Linear(2 * hidden, hidden)
        self.bilinear = nn.Parameter(torch.randn(hidden, hidden) / hidden**0.5)
        self.prior = nn.Parameter(torch.zeros(hidden))

    def forward(self, batch: Batch) -> Tensor:
        """Scores of the arcs between all nodes of each sentence."""
        words = batch.words
        if self.training:  # rare words are often replaced by the unknown one
            drop = torch.rand(words.shape, device=words.device) > self.keep[words]
            words = words.masked_fill(drop & (words > ROOT), UNKNOWN)
        x = self.dropout(torch.cat([self.words(words), self.tags(batch.tags)], dim=-1))
        packed = nn.utils.rnn.pack_padded_sequence(
            x, batch.lengths, batch_first=True, enforce_sorted=False
        )
        states, _ = nn.utils.rnn.pad_packed_sequence(self.encoder(packed)[0], batch_first=True)
        states = self.dropout(states)
        head = self.dropout(nn.functional.leaky_relu(self.head(states), 0.1))
        dependent = self.dropout(nn.functional.leaky_relu(self.dependent(states), 0.1))
        return head @ self.bilinear @ dependent.transpose(1, 2) + (head @ self.prior)[..., None]


def without_crossings(batch: Batch) -> Batch:
    """The sentences with the projective trees that share most heads with theirs."""
    marks = nn.functional.one_hot(batch.heads, batch.heads.shape[1]).transpose(1, 2)
    return batch._replace(heads=projective_argmax(marks.double(), batch.lengths))


@torch.no_grad()
def attachment(model: Parser, batches: list[Batch], projective: bool = False) -> float:
    """The share of words, punctuation included, whose head is right in the best tree."""
    model.eval()
    decode = projective_argmax if projective else arborescence_argmax
    right = total = 0
    for batch in batches:
        best = decode(model(batch).cpu(), batch.lengths)
        real = torch.arange(best.shape[1]) < batch.lengths[:, None]
        real[:, 0] = False
        right += int((best == batch.heads)[real].sum())
        total += int(real.sum())
    return right / total


def train(
    kind: str,
    parts: dict[str, list[Sentence]],
    epochs: int = 30,
    nodes: int = 400,
    lr: float = 2e-3,
    device: str = "cpu",
    seed: int = 0,
    least: int = 2,
    hidden: int = 200,
    dropout: float = 0.33,
    projective: bool = False,
) -> dict[str, float]:
    """Attachment on the parts by the parameters of the best epoch on "dev"; the last loss.

    Besides, under "<part>, other trees", the attachment by trees with crossings where training was
    ``projective``, and by trees without where it was not.
    """
    torch.manual_seed(seed)
    vocabulary = Vocabulary(parts["train"], least)
    batches = {name: vocabulary.batches(part, nodes, device) for name, part in parts.items()}
    model = Parser(vocabulary, hidden, dropout).to(device)
    criterion: nn.Module
    if projective:
        criterion = ProjectiveLoss(kind, reduction="sum")
        batches["train"] = [without_crossings(batch) for batch in batches["train"]]
    else:
        criterion = ArborescenceLoss(kind, reduction="sum")  # type: ignore[arg-type]
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, betas=(0.9, 0.9))
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, epochs)
    best, kept = -1.0, {}
    for epoch in range(epochs):
        model.train()
        begin, total = time.perf_counter(), 0.0
        for i in torch.randperm(len(batches["train"])).tolist():
            batch = batches["train"][i]
            loss = criterion(model(batch).cpu(), batch.heads, batch.lengths)
            optimizer.zero_grad()
            (loss / (batch.lengths - 1).sum()).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            total += float(loss.detach())
        schedule.step()
        dev = attachment(model, batches["dev"], projective)
        print(
            f"{kind:9} epoch {epoch + 1:2}  loss {total:10.1f}  dev {100 * dev:.2f}  "
            f"{time.perf_counter() - begin:.1f} s",
            flush=True,
        )
        if dev > best:
            best = dev
            kept = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(kept)
    scores = {}
    for name in (part for part in parts if part != "train"):
        scores[name] = attachment(model, batches[name], projective)
        scores[f"{name}, other trees"] = attachment(model, batches[name], not projective)
    words = sum(len(sentence.words) for sentence in parts["train"])
    return scores | {"loss": total / words}  # of a word, in training, in the last epoch


def main() -> None:
    """Train with each loss and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--treebank", type=Path, help="folder of CoNLL-U files")
    parser.add_argument("--prefix", default="", help='how the names begin, such as "en-"')
    parser.add_argument("--loss", nargs="+", default=LOSSES, choices=LOSSES)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--nodes", type=int, default=400, help="words in a batch")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--projective", action="store_true", help="trees without crossing arcs")
    parser.add_argument("--sentences", type=int, help="train on the first so many alone")
    given = parser.parse_args()
    if given.treebank is None:
        tiny = tiny_treebank()
        for kind in given.loss:
            parts = {"train": tiny, "dev": tiny, "test": tiny}
            small = {"nodes": 12, "lr": 1e-2, "least": 1, "hidden": 50, "dropout": 0.0}
            small["projective"] = given.projective
            result = train(kind, parts, epochs=30, seed=given.seed, **small)
            assert result["test"] > 0.9, f"{kind}: attachment {result['test']:.3f}"
        return
    parts = {
        part: read_part(given.treebank, given.prefix, part) for part in ("train", "dev", "test")
    }
    parts["train"] = parts["train"][: given.sentences]
    results = {
        kind: train(
            kind,
            parts,
            given.epochs,
            given.nodes,
            given.lr,
            given.device,
            given.seed,
            projective=given.projective,
        )
        for kind in given.loss
    }
    print(f"\n{'loss':9}  dev UAS  test UAS")
    for kind, result in results.items():
        print(f"{kind:9}  {100 * result['dev']:7.2f}  {100 * result['test']:8.2f}")


if __name__ == "__main__":
    main()
