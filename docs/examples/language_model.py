"""A small GPT with three heads: cross-entropy, 1.5-entmax and sparsemax.

python docs/examples/language_model.py [--device cuda] [--classes 128256] [--width 512] ...

The text is the reference manual that comes with Python, its words and signs the vocabulary, which
``--classes`` makes larger. A sparse head gives exact zeros: what it samples from is what it was
trained with.
"""

import argparse
import math
import re
import time
from itertools import pairwise
from pydoc_data.topics import topics

import maxent.torch as mt
import torch
from torch import nn


class GPT(nn.Module):
    """Embeddings, blocks of attention, and a head whose weight is that of the embeddings."""

    def __init__(self, classes, width, length, layers, entropy):
        super().__init__()
        self.words, self.places = nn.Embedding(classes, width), nn.Embedding(length, width)
        nn.init.normal_(self.words.weight, std=0.02)
        block = nn.TransformerEncoderLayer(
            width, max(width // 64, 1), 4 * width, 0.0, batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(block, layers, nn.LayerNorm(width), False)
        self.head = None  # torch's own
        if entropy != "cross-entropy":
            self.head = mt.LinearFenchelYoungLoss(width, classes, entropy, shift=1)
            self.head.weight = self.words.weight

    def hidden(self, tokens):
        """What the head gets at each place."""
        length = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length, tokens.device)
        x = self.words(tokens) + self.places.weight[:length]
        return self.blocks(x, mask, is_causal=True)

    def forward(self, tokens):
        """The loss of predicting each next word."""
        hidden = self.hidden(tokens)
        if self.head is not None:
            return self.head(hidden, tokens)
        scores = nn.functional.linear(hidden[:, :-1], self.words.weight)
        return nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())


def batches(text, steps, size, length, device):
    """Stretches of the text, the same for every head."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        starts = torch.randint(len(text) - length, (size, 1), generator=generator)
        yield text[starts + torch.arange(length)].to(device)


@torch.no_grad()
def judge(model, tokens):
    """Support size, share of next words within it, and their bits; with softmax all words are."""
    if model.head is None:
        return len(model.words.weight), 1.0, model(tokens).item() / math.log(2)
    p = model.head.predict(model.hidden(tokens)[:, :-1])
    bits = -p.log_prob(tokens[:, 1:]) / math.log(2)
    inside = bits.isfinite()
    return p.support.float().mean().item(), inside.float().mean().item(), bits[inside].mean().item()


def main():
    """Train the three, and say how they do."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    for name, value in {"classes": 0, "width": 64, "length": 64, "layers": 2, "batch": 8}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--steps", type=int, default=40)
    asked = parser.parse_args()
    words = re.findall(r"\w+|[^\w\s]", "\n".join(topics.values()))
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(words))}
    text = torch.tensor([vocabulary[word] for word in words])
    classes = max(asked.classes, len(vocabulary))
    print(f"{len(words):,} words, {classes:,} classes")
    for entropy in ("cross-entropy", "entmax15", "sparsemax"):
        torch.manual_seed(0)
        model = GPT(classes, asked.width, asked.length, asked.layers, entropy).to(asked.device)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3 * (64 / asked.width) ** 0.5)
        times = []
        for step, tokens in enumerate(
            batches(text, asked.steps, asked.batch, asked.length, asked.device)
        ):
            with torch.autocast(asked.device, torch.bfloat16, asked.device == "cuda"):
                loss = model(tokens)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if asked.device == "cuda":
                torch.cuda.synchronize()
            times.append(time.perf_counter())
            if step % max(asked.steps // 4, 1) == 0 or step == asked.steps - 1:
                support, inside, bits = judge(model, tokens)
                print(
                    f"{entropy:13} step {step:5}  loss {loss.item():7.3f}  support {support:9.1f}  "
                    f"next word in it {inside:6.1%}, with {bits:5.2f} bits"
                )
        taken = sorted(b - a for a, b in pairwise(times))
        print(f"{entropy:13} {1e3 * taken[len(taken) // 2]:.1f} ms per step")


if __name__ == "__main__":
    main()
