"""
Does a sparse head pay in a language model?
===========================================

:doc:`A small model <plot_06_language_model_head>` learns a made-up language with a head that rules
words out. Here it is a transformer of 110 million parameters and real text: Debian's documentation.
Four models see the same tokens in the same order, from the same first weights, and differ in the
loss of their last layer alone.
"""

# %%
# ``experiments/language_head.py`` trains them on one GPU: with softmax and cross-entropy, with
# 1.5-entmax, with sparsemax, and with an alpha that is learned. Losses of different alpha cannot be
# compared, so all are judged in two common measures, both in bits per byte of text that was not
# trained on. One takes the scores of a model alone: a softmax of them, at the temperature that is
# best for them. The other takes its probabilities p as they are, with a little added to each, since
# a word that was ruled out and comes all the same would cost infinitely many bits. What is added,
# epsilon, is the best for each model too.

import csv
import sys
from pathlib import Path

import matplotlib.pyplot as plt

folder = Path(sys.argv[0]).resolve().parents[3] / "experiments" / "results"


def table(name):
    """The rows of a csv, if it is there."""
    path = folder / f"language_head{name}.csv"
    return list(csv.DictReader(path.read_text().splitlines())) if path.exists() else []


results, ends, samples = table(""), table("_summary"), table("_samples")
if not results:
    print("No results yet: python -m experiments.language_head writes them on a GPU.")

# %%
# Bits and accuracy while they train, and how many of the 32,768 tokens each leaves possible.

panels = {
    "bits_calibrated": "bits per byte, softmax of scores",
    "bits_smoothed": "bits per byte, own p with epsilon",
    "accuracy": "share of right tokens",
    "support_mean": "tokens left possible",
}
if results:
    fig, axes = plt.subplots(2, 2, figsize=(8, 5.6), layout="constrained", sharex=True)
    for axis, (column, label) in zip(axes.flat, panels.items(), strict=True):
        for loss in dict.fromkeys(row["loss"] for row in results):
            rows = [row for row in results if row["loss"] == loss]
            # on the same part of the validation text; the last row is on all of it
            rows = [row for row in rows if row["seed"] == rows[0]["seed"]][1:-1]
            tokens = [float(row["tokens"]) / 1e6 for row in rows]
            axis.plot(tokens, [float(row[column]) for row in rows], label=loss)
        axis.set_ylabel(label)
    for axis in axes[1]:
        axis.set_xlabel("million tokens")
    axes[1, 1].set_yscale("log")
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4)

# %%
# **How to read this.** Lower is better in the upper row. Left, the scores of the sparse models are
# used in a way they were not trained for; right, softmax is as it was trained, since its best
# epsilon is next to nothing. Softmax leaves all tokens possible. With the tokens and the learning
# rate that all have here, softmax has the fewest bits throughout and sparsemax by far the most: a
# word that is ruled out learns only where it comes itself. The alpha that is learned goes most of
# the way back to softmax, and so do its results.
#
# At the end, on all of the validation text; and what a step costs, whole and the head alone.

columns = {
    "alpha": "alpha",
    "accuracy": "accuracy",
    "bits_calibrated": "bits, softmax",
    "bits_smoothed": "bits, own p",
    "support_mean": "possible",
    "inside": "next one is",
    "ms_step": "ms a step",
    "head_ms": "ms head",
    "gb_step": "GB a step",
    "head_gb": "GB head",
}
if ends:
    print(f"{'':10}" + "".join(f"{name:>14}" for name in columns.values()))
    for row in ends:
        print(f"{row['loss']:10}" + "".join(f"{float(row[name]):14.4g}" for name in columns))

# %%
# **What it saves, and what it costs.** A step of the sparse models takes less time and little more
# than half of the memory, most of which the scores of all tokens and their gradients were.
# Cross-entropy saves as much without being sparse where the same head computes it, with
# ``entropy="shannon"``: the columns ``shannon_ms`` and ``shannon_gb`` of the table. Ruling words
# out is paid for in accuracy and in bits. For a model of this kind and size, trained from nothing
# on few tokens, take cross-entropy; take entmax where zeros are what you are after.

# %%
# Texts that each model draws from its own distribution, with nothing cut off, beside the pages
# themselves: the share of different sequences of n tokens, and how many tokens are among the 16
# before them. The nearer to the pages' own numbers, the better: more variety is not. All models
# write more different pairs and longer sequences than people do, and those with 1.5-entmax and
# sparsemax, which are less sure of what comes, more than softmax.

columns = {"distinct_1": "n = 1", "distinct_2": "n = 2", "distinct_4": "n = 4", "rep_w": "repeated"}
if samples:
    print(f"{'':10}" + "".join(f"{name:>10}" for name in columns.values()))
    for row in samples:
        print(f"{row['loss']:10}" + "".join(f"{float(row[name]):10.3f}" for name in columns))

# %%
# "Next one is": how often the token that came was one of those left possible. The largest of
# these tables is ``experiments/results/language_head.csv``, and texts that were drawn are in
# ``language_head_samples.txt`` beside it.
