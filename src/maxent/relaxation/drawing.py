"""The geometric picture of a relaxation path (relaxation paper, Figs 2 and 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from maxent.relaxation.path import RelaxationPath

_LABELLED = 60  # knots drawn as points


def draw(path: RelaxationPath, ax: Any, lines: int) -> Any:
    """mu(nu) in green, knots in black, lines of I_- in blue and of I_+ in red."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install maxent[plot]") from error
    if ax is None:
        _, ax = plt.subplots(figsize=(6, 4.5), layout="constrained")
    last = float(path.nu[-1]) if path.segments > 1 else 1.0
    right = min(1.15 * last, path.nu_stop)
    top = 1.15 * float(np.max(path.mu)) if path.segments > 1 else right
    ends = np.array([0.0, right])
    distinct = np.unique(np.column_stack([path._u, path._q]), axis=0)
    distinct = distinct[distinct[:, 0] > 0]
    shown = np.unique(np.linspace(0, len(distinct) - 1, min(lines, len(distinct))).astype(int))
    if path.divergence == "kl":
        for u, q in distinct[shown]:
            for sign, colour in ((-1, "tab:blue"), (1, "tab:red")):
                ax.plot(ends, (q * ends + sign) / u, color=colour, lw=0.6, alpha=0.6)
    nu = np.append(path.nu, right)
    mu = np.append(path.mu, path._ratio(np.array([right])) * right)
    ax.plot(nu, mu, color="tab:green", lw=2, label=r"$\mu(\nu)$")
    if path.segments <= _LABELLED:
        ax.plot(path.nu[1:], path.mu[1:], "k.", ms=6, label="knots")
    low = min(0.0, 1.15 * float(np.min(mu)))
    ax.set(xlim=(0, right), ylim=(low, top), xlabel=r"$\nu$", ylabel=r"$\mu$")
    ax.set_title(f"{path._rows.n:,} rows, {path.segments:,} segments", fontsize=10)
    ax.legend(loc="upper left", frameon=False)
    return ax
