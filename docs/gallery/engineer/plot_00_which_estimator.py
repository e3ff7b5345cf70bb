"""
Which estimator?
================

Start from what the rows of ``y`` are. Every estimator here follows scikit-learn's manners and ends
with a duality gap in ``gap_``.

- A class: :class:`maxent.FenchelYoungClassifier`, with probabilities that may be exactly zero
  (:class:`maxent.FenchelYoungClassifierCV` chooses alpha and strength); :class:`maxent.MED` for
  margins; :class:`maxent.StructMaxentClassifier` where features are to be grown.
- Several labels: :class:`maxent.FenchelYoungMultilabel`. Proportions of labels:
  :class:`maxent.FenchelYoungRegressor`. A ranking of labels: :class:`maxent.LabelRanker`.
- Labels along a sequence: :class:`maxent.L2CRF` or :class:`maxent.M3N` (:class:`maxent.L2CRFCV`
  and :class:`maxent.M3NCV` choose the constant), :class:`maxent.L1CRF` for few weights,
  :class:`maxent.LaplaceMEDN` for a sparse prior, :class:`maxent.ChainClassifier` for any loss and
  penalty. Labels on a tree: :class:`maxent.TreeClassifier`.
- Partners of two sets: :class:`maxent.Matcher`. An alignment of two sequences:
  :class:`maxent.Aligner`.
- Occurrences among cells: :class:`maxent.MaxentDensity` or, with grown features,
  :class:`maxent.StructMaxent`; from files, ``maxent fit``. Counts alone:
  :class:`maxent.RelaxationPath`.
"""

# %%
# The same as a picture:

import matplotlib.pyplot as plt

WAYS = {
    "a class": ["FenchelYoungClassifier", "MED: margins", "StructMaxentClassifier: grown features"],
    "several labels": ["FenchelYoungMultilabel"],
    "proportions of labels": ["FenchelYoungRegressor"],
    "a ranking of labels": ["LabelRanker"],
    "labels along a sequence": [
        "L2CRF, M3N: l2",
        "L1CRF, LaplaceMEDN: few weights",
        "ChainClassifier: any loss",
    ],
    "labels on a tree": ["TreeClassifier"],
    "partners of two sets": ["Matcher"],
    "an alignment": ["Aligner"],
    "occurrences among cells": ["MaxentDensity", "StructMaxent: grown features"],
    "counts alone": ["RelaxationPath"],
}

figure, axes = plt.subplots(figsize=(8, 6.4))
axes.set(xlim=(0, 10), ylim=(0, sum(map(len, WAYS.values()))))
axes.invert_yaxis()
axes.axis("off")
box = {"boxstyle": "round,pad=0.35", "linewidth": 1.0}
axes.text(0.1, 7.5, "y is ...", fontsize=13, va="center")
thread = {"color": "#c2410c", "linewidth": 0.8, "zorder": 0}
line = 0.5
for kind, names in WAYS.items():
    middle = line + (len(names) - 1) / 2
    axes.plot([1.25, 1.7], [7.5, middle], color="#0f766e", linewidth=0.8)
    axes.text(1.8, middle, kind, va="center", bbox=box | {"fc": "#e6f2f0", "ec": "#0f766e"})
    for name in names:
        axes.plot([2.1 + 0.1 * len(kind), 4.9, 5.3], [middle, middle, line], **thread)
        axes.text(5.4, line, name, va="center", bbox=box | {"fc": "white", "ec": "#c2410c"})
        line += 1
figure.tight_layout()
plt.show()

# %%
# **How to read this.** Follow the line from what your ``y`` is to the estimators that learn it.
# Where there are several, the words behind a name say what it is for; the first is the one to
# begin with.
