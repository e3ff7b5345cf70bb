"""The picture of docs/structured/aligner.md: a pair of sequences and three alignments of it."""

import matplotlib.pyplot as plt
import numpy as np

import maxent as mx


def warped(rng: np.random.Generator, n: int = 40, m: int = 50):
    """A signal and a nuisance at two speeds; the path that aligns them."""
    time = np.concatenate([[0.0], np.cumsum(rng.gamma(0.5, size=m - 1) + 0.05)])
    time *= (n - 1) / time[-1]
    signal = np.sin(np.linspace(0, 9, n)) + np.linspace(0, 2, n)
    copy = np.interp(time, np.arange(n), signal) + 0.05 * rng.normal(size=m)
    walks = [np.cumsum(rng.normal(size=size)) / 3 for size in (n, m)]
    pair = np.column_stack([signal, walks[0]]), np.column_stack([copy, walks[1]])
    partner = np.rint(time).astype(int)
    best = mx.Alignment(n, m)
    nearest = -np.abs(np.arange(n)[:, None] - partner).astype(float)
    return pair, best.path(best.argmax(nearest.ravel()))[0]


def draw() -> None:
    """Learn from nine pairs, draw the tenth."""
    rng = np.random.default_rng(3)
    X, y = zip(*(warped(rng) for _ in range(10)), strict=True)
    model = mx.Aligner(cost=1.0, potential=0.01, tol=1e-4).fit(X[1:], y[1:])
    first, second = X[0]
    plain = mx.Alignment(len(first), len(second))
    cost = np.sum((first[:, None] - second) ** 2, axis=2)
    paths = {
        "true": y[0],
        "plain warping": plain.path(plain.argmax(-cost.ravel()))[0],
        "learned": model.predict(X[:1])[0],
    }
    _, (left, right) = plt.subplots(1, 2, figsize=(7, 3.6), layout="constrained")
    for channel, name in enumerate(("signal", "nuisance")):
        left.plot(first[:, channel], color=f"C{channel}", label=f"{name}, first")
        left.plot(second[:, channel], "--", color=f"C{channel}", label=f"{name}, second")
    left.set(xlabel="element", ylabel="value", title="a pair of sequences")
    marginals = model.predict_marginals(X[:1])[0]
    right.imshow(marginals, origin="lower", aspect="auto", cmap="Greys", vmin=0, vmax=1)
    colours = ("black", "C3", "C2")
    for (name, path), style, colour in zip(paths.items(), "-:-", colours, strict=True):
        wide = 3.5 if name == "true" else 1.8
        right.plot(path[:, 1], path[:, 0], style, color=colour, lw=wide, label=name)
    right.set(xlabel="element of the second", ylabel="element of the first", title="alignments")
    for axis in (left, right):
        axis.legend(fontsize=8)
