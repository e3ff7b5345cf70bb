"""The geometric picture of a relaxation path (relaxation paper, Figs 2 and 5)."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxent.rows.arrays import Array

_LABELLED = 60  # knots drawn as points


def draw(nu: Array, mu: Array, u: Array, q: Array, ax: Any, lines: int) -> Any:
    """mu(nu) in green, knots in black, lines of I_- in blue and of I_+ in red.

    ``nu`` and ``mu`` are the knots from (0, 0) and, last, the end of the picture; ``u`` and ``q``
    the prior and the observation of the rows, of which ``lines`` are drawn at most.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install maxent[plot]") from error
    if ax is None:
        _, ax = plt.subplots(figsize=(6, 4.5), layout="constrained")
    segments, right = nu.size - 1, float(nu[-1])
    top = 1.15 * float(np.max(mu[:-1])) if segments > 1 else right
    ends = np.array([0.0, right])
    distinct = np.unique(np.column_stack([u, q]), axis=0)
    distinct = distinct[distinct[:, 0] > 0]
    shown = np.unique(np.linspace(0, len(distinct) - 1, min(lines, len(distinct))).astype(int))
    for prior, observed in distinct[shown]:
        for sign, colour in ((-1, "tab:blue"), (1, "tab:red")):
            ax.plot(ends, (observed * ends + sign) / prior, color=colour, lw=0.6, alpha=0.6)
    ax.plot(nu, mu, color="tab:green", lw=2, label=r"$\mu(\nu)$")
    if segments <= _LABELLED:
        ax.plot(nu[1:-1], mu[1:-1], "k.", ms=6, label="knots")
    low = min(0.0, 1.15 * float(np.min(mu)))
    ax.set(xlim=(0, right), ylim=(low, top), xlabel=r"$\nu$", ylabel=r"$\mu$")
    ax.set_title(f"{u.size:,} rows, {segments:,} segments", fontsize=10)
    ax.legend(loc="upper left", frameon=False)
    return ax
