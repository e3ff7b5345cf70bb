"""
When some mistakes cost more than others
========================================

Missing a severe case is worse than a false alarm. A cost matrix tells the classifier so while it
is trained.
"""

# %%
# Three groups of patients overlap in two measurements (made-up data). ``cost[i, j]`` is the price
# of answering j when i is true. Calling a severe case healthy costs ten times as much as calling a
# healthy person mildly ill.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from sklearn.metrics import confusion_matrix

import maxent as mx

names = ["healthy", "mild", "severe"]
cost = np.array([[0.0, 1.0, 2.0], [2.0, 0.0, 1.0], [10.0, 5.0, 0.0]])

rng = np.random.default_rng(0)
centres = np.array([[-1.2, -0.6], [0.0, 0.9], [1.2, -0.6]])


def draw(n):
    """n patients of each group."""
    y = np.repeat(np.arange(3), n)
    return centres[y] + rng.normal(size=(len(y), 2)), y


X, y = draw(150)
X_test, y_test = draw(2000)

# %%
# In training, the cost is added to the score of each wrong answer, so the right answer has to win
# by a wider margin where a mistake is expensive. With Shannon's entropy this is known as
# *softmax-margin*.

models = {
    "without costs": mx.FenchelYoungClassifier("shannon").fit(X, y),
    "with costs": mx.FenchelYoungClassifier("shannon", cost=cost).fit(X, y),
}

grid = np.stack(np.meshgrid(np.linspace(-4, 4, 200), np.linspace(-4, 4, 200)), axis=-1)
colors = ["#0072B2", "#E69F00", "#D55E00"]
fig, axes = plt.subplots(1, 2, figsize=(7, 3.4), sharey=True)
for axis, (name, model) in zip(axes, models.items(), strict=True):
    answer = model.predict(grid.reshape(-1, 2)).reshape(200, 200)
    axis.pcolormesh(*np.moveaxis(grid, -1, 0), answer, cmap=ListedColormap(colors), alpha=0.35)
    for k, color in enumerate(colors):
        axis.scatter(*X[y == k].T, s=9, color=color, label=names[k])
    axis.set(title=name, xlim=(-4, 4), ylim=(-4, 4))
    axis.set_xlabel("first measurement")
axes[0].set_ylabel("second measurement")
handles, labels = axis.get_legend_handles_labels()
fig.legend(handles, labels, loc="lower center", ncols=3)
fig.tight_layout(rect=(0, 0.08, 1, 1))

# %%
# **How to read this.** Dots are patients, and the background is the answer given there. With costs
# the region of the answer "severe" grows at the expense of the others: more false alarms, fewer
# severe cases missed.

answers = {name: model.predict(X_test) for name, model in models.items()}
expected = models["without costs"].predict_proba(X_test) @ cost
answers["least expected cost"] = expected.argmin(axis=1)
for name, answer in answers.items():
    table = confusion_matrix(y_test, answer)
    missed = 1 - table[2, 2] / table[2].sum()
    paid = np.sum(cost * table) / len(y_test)
    print(f"{name:>19}: mean cost {paid:.3f}, severe cases missed {missed:.1%}")

# %%
# The last line is the textbook alternative: fit without costs, then give the answer with the least
# expected cost under the predicted probabilities. Where these probabilities are good, as here, it
# does better still. Training with costs is for losses that give no probabilities, such as the
# multi-class hinge, ``FenchelYoungClassifier(mx.Zero(), cost=cost)``.
