"""
A CRF tagger for noisy sequences
================================

Labels of a sequence depend on their neighbours. A *conditional random field* (CRF) learns how each
measurement votes for a label and how likely one label is to follow another, and reads the whole
sequence at once.
"""

# %%
# Made-up data: a wrist sensor sends four noisy readings a minute. A person sleeps, walks or runs,
# and usually goes on with what they are doing.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import confusion_matrix

import maxent as mx

names = np.array(["sleep", "walk", "run"])
change = np.array([[0.92, 0.08, 0.00], [0.06, 0.86, 0.08], [0.00, 0.14, 0.86]])
rng = np.random.default_rng(0)
levels = rng.normal(size=(3, 4))


def draw(length=60):
    """Readings (length, 4) and activities."""
    state = [rng.integers(3)]
    while len(state) < length:
        state.append(rng.choice(3, p=change[state[-1]]))
    return levels[state] + 1.2 * rng.normal(size=(length, 4)), names[state]


X, y = zip(*(draw() for _ in range(40)), strict=True)
X_test, y_test = zip(*(draw() for _ in range(40)), strict=True)

# %%
# A list of arrays and a list of label sequences is all that :class:`maxent.L2CRF` needs. For
# comparison we fit logistic regression to single minutes.

crf = mx.L2CRF(c2=0.1).fit(X, y)
alone = mx.FenchelYoungClassifier("shannon").fit(np.vstack(X), np.concatenate(y))

truth = np.concatenate(y_test)
guesses = {
    "each minute alone": alone.predict(np.vstack(X_test)),
    "CRF": np.concatenate(crf.predict(X_test)),
}
for name, guess in guesses.items():
    print(f"{name:>17}: accuracy {np.mean(guess == truth):.3f}")
print(f"gap of the CRF: {crf.gap_:.0e}")

# %%
# The probabilities of each minute, for one test sequence:

rows = {
    "each minute alone": alone.predict_proba(X_test[0]),
    "CRF": crf.predict_proba(X_test[:1])[0],
}
colors = dict(zip(names, ["#0072B2", "#E69F00", "#D55E00"], strict=True))
fig, axes = plt.subplots(3, 1, figsize=(7, 4), sharex=True, height_ratios=[0.3, 1, 1])
for minute, label in enumerate(y_test[0]):
    axes[0].axvspan(minute, minute + 1, color=colors[label], linewidth=0)
axes[0].set(title="true activity", yticks=[])
for axis, (name, p) in zip(axes[1:], rows.items(), strict=True):
    axis.stackplot(
        np.arange(len(p)) + 0.5,
        p.T,
        colors=[colors[label] for label in crf.classes_],
        labels=crf.classes_,
    )
    axis.set(title=name, ylabel="probability", ylim=(0, 1), xlim=(0, len(p)))
axes[2].set_xlabel("minute")
handles, labels = axes[2].get_legend_handles_labels()
fig.legend(handles, labels, loc="lower center", ncols=3)
fig.tight_layout(rect=(0, 0.07, 1, 1))

# %%
# **How to read this.** The height of a colour is the probability of that activity. Minute by
# minute the answers flicker. The CRF uses the minutes before and after, so its answer is steadier
# and follows the true activity in the top strip.

fig, axes = plt.subplots(1, 2, figsize=(7, 3.2))
for axis, (name, guess) in zip(axes, guesses.items(), strict=True):
    table = confusion_matrix(truth, guess, labels=names, normalize="true")
    axis.imshow(table, cmap="cividis", vmin=0, vmax=1)
    for (i, j), value in np.ndenumerate(table):
        axis.text(j, i, f"{value:.2f}", ha="center", va="center", color="wk"[int(value > 0.5)])
    axis.set(title=name, xlabel="answer", xticks=range(3), yticks=range(3))
    axis.set_xticklabels(names)
    axis.set_yticklabels(names)
axes[0].set_ylabel("truth")
fig.tight_layout()

# %%
# **How to read this.** Each row sums to 1 and says what became of one true activity. The CRF moves
# weight onto the diagonal.
#
# What it learnt about changes is in ``transitions_``: staying is favoured, and jumping between
# sleep and running has the lowest scores.

print("scores of changes, from row to column:", *crf.classes_)
print(crf.transitions_.round(2))
