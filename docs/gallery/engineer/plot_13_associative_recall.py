"""
Attention that finds one key among many
=======================================

In associative recall a sequence is made of keys and their values, "k7 v2 k1 v5 k7 v2 ...", and
whenever a key comes back its value has to be predicted. A transformer has to find the key among all
that came before: more and more of them as sequences grow. :func:`maxent.torch.entmax_attention`
gives exactly zero to all others, where softmax gives each of them a little.
"""

# %%
# ``docs/examples/attention.py`` has the task and a transformer of a screen. The whole difference
# between its models is ``alpha`` in one line, ``mt.entmax_attention(query, key, value, alpha,
# is_causal=True)``: 1 is softmax. We train both on sequences of 64 tokens.

import csv
import runpy
import sys
from pathlib import Path

import matplotlib.pyplot as plt

import maxent.torch as mt
import torch

root = Path(sys.argv[0]).resolve().parents[3]
recall = runpy.run_path(str(root / "docs" / "examples" / "attention.py"))
models = {method: recall["trained"](method) for method in ("softmax", "entmax 1.5")}

# %%
# What the models look at in a new sequence. With ``return_support=True`` attention gives its
# weights too, as lists of the keys that are not zero; ``to_dense`` makes a picture of them.

tokens, first = recall["draw"](1, 64, 128, torch.Generator().manual_seed(2))
fig, axes = plt.subplots(1, 2, figsize=(7, 3.6), layout="constrained")
for axis, (method, model) in zip(axes, models.items(), strict=True):
    block = model.blocks[0]
    with torch.no_grad():
        rows = block.attention.rows(block.norms[0](model.embed(tokens)))
        _, support = mt.entmax_attention(
            *rows, block.attention.alpha, is_causal=True, return_support=True
        )
    weights = support.to_dense()[0, :, ::2].mean(0)  # of both heads; keys alone ask for something
    image = axis.imshow(weights.sqrt().numpy(), cmap="cividis", vmin=0, vmax=1, aspect="auto")
    place = torch.arange(32)
    again = first[0] < place
    axis.plot(
        2 * first[0, again].numpy() + 1,
        place[again].numpy(),
        "s",
        mfc="none",
        mec="white",
        ms=4,
        mew=0.6,
    )
    axis.set(title=f"{method}: {support.counts[0, :, ::2].double().mean():.1f} keys for a query")
    axis.set(xlabel="token looked at")
axes[0].set_ylabel("key that asks")
bar = fig.colorbar(image, ax=axes, label="weight", shrink=0.8, ticks=[0, 0.1**0.5, 0.5**0.5, 1])
bar.ax.set_yticklabels(["0", "0.1", "0.5", "1"])
bar.outline.set_visible(False)

# %%
# **How to read this.** Each row is a key, from the first of the sequence to the last; a white
# square is where its value was first seen. Both models look there, and where the key was seen again
# later. Softmax also leaves a haze on tokens that have nothing to do with the key, and more tokens
# make more of it. Entmax gives most of them exactly zero.
#
# Does this help with sequences longer than those of training? The same comparison at full size, a
# model with 8,192 keys that is trained on 512 tokens and tested on up to 16,384, is
# ``experiments/associative_recall.py``:

table = root / "experiments" / "results" / "associative_recall.csv"
results = list(csv.DictReader(table.read_text().splitlines())) if table.exists() else []
if not results:
    print("No results yet: python -m experiments.associative_recall writes them on a GPU.")
else:
    fig, axes = plt.subplots(1, 2, figsize=(7, 3.2), layout="constrained", sharex=True)
    lengths = sorted({int(row["length"]) for row in results})
    for method in dict.fromkeys(row["method"] for row in results):
        marker, line = "o" if "entmax" in method else "s", ":" if "log n" in method else "-"
        for axis, column in zip(axes, ("accuracy", "right"), strict=True):
            runs = {}
            for row in results:
                if row["method"] == method:
                    runs.setdefault(int(row["length"]), []).append(float(row[column]))
            means = [sum(values) / len(values) for values in runs.values()]
            axis.plot(list(runs), means, ls=line, marker=marker, ms=4, label=method)
    for axis, label in zip(
        axes, ("share of right values", "weight on the right keys"), strict=True
    ):
        axis.set(xscale="log", xlabel="tokens", ylabel=label)
        axis.set_xticks(lengths, [f"{n // 1024}k" if n >= 1024 else str(n) for n in lengths])
        axis.minorticks_off()
    axes[0].legend(frameon=False, fontsize=8)

# %%
# **How to read this.** Means of three seeds; the leftmost length is that of training. Left, the
# share of values that are right. Right, how much of the attention falls on the right keys, in the
# head that does it best. Dotted: scores multiplied by s log n for n keys, with s learned.
