"""Word frequencies from a small sample: the relaxation path beside the usual ways of smoothing.

Six novels of Jane Austen and 59 inaugural addresses (word_counts). Of one text, N tokens drawn
without replacement are observed, N others choose the parameter of every method, the rest tests:
mean log loss a token, in nats. The prior is the other texts' counts + 0.5, the vocabulary that of
all texts, the same for every method. Tokens are drawn one by one, not in passages. Good-Turing has
no parameter to choose.

python -m experiments.smoothing [--data DIR] [--quick]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

import maxent as mx
from experiments.south_america import DATA

RESULTS = Path(__file__).parent / "results"
CORPORA = {
    "novels": ("austen_by_novel.parquet", (100, 300, 1_000, 3_000, 10_000, 30_000)),
    "addresses": ("inaugural_by_address.parquet", (100, 300, 1_000)),
}
SEEDS = 10
PATH, REFERENCE = "relaxation path", "Jelinek-Mercer"
SWITCH = 1.65  # standard deviations between Turing's estimate and the line (Gale and Sampson)


@dataclass(frozen=True, eq=False)
class Sample:
    """Counts of each word: of the prior, observed, to choose the parameter, to test."""

    prior: np.ndarray
    observed: np.ndarray
    validation: np.ndarray
    test: np.ndarray

    @property
    def u(self) -> np.ndarray:
        """The prior as probabilities."""
        return self.prior / self.prior.sum()

    @property
    def q(self) -> np.ndarray:
        """The observation as probabilities."""
        return self.observed / self.observed.sum()


def log_loss(p: np.ndarray, counts: np.ndarray) -> float:
    """Mean of -log p over the tokens."""
    seen = counts > 0
    with np.errstate(divide="ignore"):
        return float(-(counts[seen] @ np.log(p[seen])) / counts.sum())


# ---- the methods: (p, parameter) of a sample ----

Method = Callable[[Sample], tuple[np.ndarray, float]]


def chosen(model: Callable[[Sample, float], np.ndarray], grid: np.ndarray) -> Method:
    """A method whose parameter is the best on the validation counts: a grid, then Brent."""

    def fit(sample: Sample) -> tuple[np.ndarray, float]:
        def loss(t: float) -> float:
            return log_loss(model(sample, float(np.exp(t))), sample.validation)

        points = np.log(grid)
        losses = [loss(t) for t in points]
        k = int(np.argmin(losses))
        ends = points[max(k - 1, 0)], points[min(k + 1, len(points) - 1)]
        finer = minimize_scalar(loss, bounds=ends, method="bounded", options={"xatol": 1e-4})
        best = finer.x if finer.fun < losses[k] else points[k]
        return model(sample, float(np.exp(best))), float(np.exp(best))

    return fit


def relaxation(sample: Sample) -> tuple[np.ndarray, float]:
    """The point of the exact path that is the best on the validation counts."""
    path = mx.RelaxationPath(sample.prior, sample.observed).fit()
    nu = path.select(sample.validation)
    return path.distribution_at(nu), nu


def add_constant(sample: Sample, a: float) -> np.ndarray:
    """Lidstone: every word was seen a times before."""
    return (sample.observed + a) / (sample.observed.sum() + a * sample.observed.size)


def dirichlet(sample: Sample, strength: float) -> np.ndarray:
    """A sample of this size of the prior was seen before.

    Jelinek and Mercer's with odds N / strength: for one N the same family, found by another search.
    """
    return (sample.observed + strength * sample.u) / (sample.observed.sum() + strength)


def jelinek_mercer(sample: Sample, odds: float) -> np.ndarray:
    """Observation and prior mixed, in proportion to odds and 1."""
    return (odds * sample.q + sample.u) / (1 + odds)


def absolute_discount(backing_off: bool) -> Callable[[Sample, float], np.ndarray]:
    """d, or all, is taken from every count and shared by the prior; d may be over 1.

    All words get a share, or (backing off) only those with nothing left.
    """

    def model(sample: Sample, d: float) -> np.ndarray:
        kept = np.maximum(sample.observed - d, 0)
        freed = sample.observed.sum() - kept.sum()
        share = np.where((kept == 0) | (not backing_off), sample.u, 0.0)
        return (kept + freed * share / share.sum()) / sample.observed.sum()

    return model


def good_turing_counts(counts: np.ndarray) -> tuple[np.ndarray, float]:
    """Simple Good-Turing (Gale and Sampson 1995): p of the seen words, mass of the unseen.

    Turing's (r + 1) N_{r+1} / N_r until N_{r+1} is 0 or it is within 1.65 deviations of the line
    log Z_r = a + b log r; the line's r (1 + 1/r)^{b+1} from there on; then scaled to 1 - N_1 / N.
    """
    r, n_r = np.unique(counts[counts > 0], return_counts=True)
    total = float(r @ n_r)
    unseen = n_r[0] / total if r[0] == 1 else 0.0
    before = np.append(0, r[:-1])
    after = np.append(r[1:], 2 * r[-1] - before[-1])
    z = 2 * n_r / (after - before)
    slope = np.polyfit(np.log(r), np.log(z), 1)[0] if len(r) > 1 else -1.0
    line = r * (1 + 1 / r) ** (slope + 1)
    adjusted, turing = line.copy(), True
    number = dict(zip(r.tolist(), n_r.tolist(), strict=True))
    for k, value in enumerate(r.tolist()):
        above = number.get(value + 1, 0)
        if not turing or not above:
            break
        x = (value + 1) * above / n_r[k]
        deviation = (value + 1) * np.sqrt(above / n_r[k] ** 2 * (1 + above / n_r[k]))
        turing = abs(x - line[k]) > SWITCH * deviation
        if turing:
            adjusted[k] = x
    share = (1 - unseen) * adjusted / (n_r @ adjusted)
    return np.append(0.0, share)[np.searchsorted(np.append(0, r), counts)], unseen


def good_turing(by_prior: bool) -> Method:
    """The mass of the unseen words is shared evenly, or by the prior."""

    def fit(sample: Sample) -> tuple[np.ndarray, float]:
        p, mass = good_turing_counts(sample.observed)
        weight = np.where(sample.observed == 0, sample.u if by_prior else 1.0, 0.0)
        if not weight.any():
            return p / p.sum(), 0.0
        return p + mass * weight / weight.sum(), mass

    return fit


DISCOUNTS = np.union1d(np.geomspace(1e-2, 1e4, 121), np.arange(1.0, 21.0))
METHODS: dict[str, Method] = {
    PATH: relaxation,
    REFERENCE: chosen(jelinek_mercer, np.geomspace(1e-8, 1e4, 121)),
    "Dirichlet": chosen(dirichlet, np.geomspace(1e-2, 1e12, 141)),
    "absolute discounting, mixed": chosen(absolute_discount(backing_off=False), DISCOUNTS),
    "absolute discounting, back-off": chosen(absolute_discount(backing_off=True), DISCOUNTS),
    "Good-Turing, prior": good_turing(by_prior=True),
    "Good-Turing, even": good_turing(by_prior=False),
    "add-constant": chosen(add_constant, np.geomspace(1e-5, 1e3, 81)),
    "prior": lambda sample: (sample.u, np.nan),
    "observed": lambda sample: (sample.q, np.nan),
}
WITHOUT_PARAMETER = ("prior", "observed")
COLOURS = {
    "add-constant": "tab:purple",
    "Good-Turing, even": "tab:red",
    "Good-Turing, prior": "tab:orange",
    "absolute discounting, mixed": "tab:cyan",
    "absolute discounting, back-off": "tab:blue",
    "prior": "0.6",
    PATH: "tab:green",
}


# ---- the measurement ----


def drawn(own: np.ndarray, others: np.ndarray, tokens: int, seed: int) -> Sample:
    """Tokens of one text in random order: observed, validation and the rest."""
    words = np.repeat(np.arange(own.size), own)
    words = np.random.default_rng(seed).permutation(words)
    parts = words[:tokens], words[tokens : 2 * tokens], words[2 * tokens :]
    counts = (np.bincount(part, minlength=own.size) for part in parts)
    return Sample(2 * others + 1, *counts)  # others + 0.5, twice: counts are whole numbers


def measure(data: Path, quick: bool) -> Any:
    """One row a text, sample size and seed: the loss and the parameter of every method."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for corpus, (name, sizes) in CORPORA.items():
        counts = pd.read_parquet(data / "word_counts" / name).set_index("word")
        total = counts.to_numpy().sum(axis=1)
        for text in list(counts)[:: 3 if quick else 1]:
            own = counts[text].to_numpy()
            for size in sizes:
                if own.sum() < 2 * size + min(size, 10_000):  # too little is left to test
                    continue
                for seed in range(2 if quick else SEEDS):
                    sample = drawn(own, total - own, size, seed)
                    found = {"corpus": corpus, "text": text, "tokens": size, "seed": seed}
                    for method, fit in METHODS.items():
                        p, parameter = fit(sample)
                        assert abs(p.sum() - 1) < 1e-9, (method, p.sum())
                        found[method] = log_loss(p, sample.test)
                        if method not in WITHOUT_PARAMETER:
                            found[f"{method}: parameter"] = parameter
                    rows.append(found)
            print(f"{corpus}: {text} done", flush=True)
    return pd.DataFrame(rows)


def summary(table: Any) -> Any:
    """Mean loss of each method, its standard error over texts, and paired differences."""
    import pandas as pd

    texts = table.groupby(["corpus", "text", "tokens"], sort=False)[list(METHODS)].mean()
    rows = []
    for (corpus, tokens), group in texts.groupby(["corpus", "tokens"], sort=False):
        for method in METHODS:
            loss = group[method]
            less = loss - group[REFERENCE]
            versus = loss - group[PATH]
            finite = bool(np.isfinite(loss).all())
            rows.append(
                {
                    "corpus": corpus, "tokens": tokens, "texts": len(group), "method": method,
                    "loss": loss.mean(), "se": loss.sem() if finite else np.nan,
                    "less_reference": less.mean(), "less_se": less.sem() if finite else np.nan,
                    "less_path": versus.mean(), "less_path_se": versus.sem() if finite else np.nan,
                    "texts_worse_than_path": int((versus > 0).sum()),
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def draw(means: Any, path: Path) -> None:
    """Loss less that of Jelinek-Mercer, against the size of the sample."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(13, 4.8), layout="constrained")
    for axis, (corpus, group) in zip(axes, means.groupby("corpus", sort=False), strict=True):
        for k, (method, colour) in enumerate(COLOURS.items()):
            mine = group[group["method"] == method]
            ours = method == PATH
            axis.errorbar(
                mine["tokens"] * 1.025 ** (k - 3), mine["less_reference"], 2 * mine["less_se"],
                marker="o", ms=6 if ours else 4, lw=2.5 if ours else 1.3, capsize=2, color=colour,
                zorder=3 if ours else 2, label=method,
            )  # fmt: skip
        axis.axhline(0, color="k", lw=1.3, label="Jelinek-Mercer = Dirichlet")
        axis.set_xscale("log")
        axis.set_yscale("symlog", linthresh=0.05, linscale=1.5)
        ticks = (-0.02, 0, 0.02, 0.05, 0.1, 0.2, 0.5, 1)
        axis.set_yticks(ticks, [f"{t:g}" for t in ticks])
        axis.minorticks_off()
        axis.set_ylim(-0.03, 2)
        sizes = group.drop_duplicates("tokens")
        axis.set_xticks(sizes["tokens"], [f"{size:,}" for size in sizes["tokens"]])
        axis.set(
            xlabel="tokens observed", ylabel="log loss less Jelinek-Mercer's (nats; log above 0.05)"
        )
        texts = ", ".join(map(str, dict.fromkeys(sizes["texts"])))
        axis.set_title(f"{corpus}: {texts} texts; bars: 2 standard errors", fontsize=11)
        axis.grid(alpha=0.3)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=9)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def run(results: Path, data: Path = DATA, quick: bool = False) -> list[Path]:
    """Write all rows, their summary and the figure; nothing where the data are absent."""
    if not (data / "word_counts").exists():
        print(f"no word counts in {data}: set MAXENT_DATA or give --data")
        return []
    table = measure(data, quick)
    means = summary(table)
    wide = means.pivot_table(
        "loss", "method", ["corpus", "tokens"], sort=False, dropna=False, aggfunc="first"
    )
    print(wide.to_string(float_format="{:.4f}".format))
    if quick:
        return []
    paths = [results / f"smoothing{end}" for end in (".csv", "_summary.csv", ".png")]
    table.to_csv(paths[0], index=False, float_format="%.6g")
    means.to_csv(paths[1], index=False, float_format="%.5g")
    draw(means, paths[2])
    return paths


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data sets")
    parser.add_argument("--quick", action="store_true", help="fewer texts and seeds, not written")
    arguments = parser.parse_args()
    for path in run(RESULTS, arguments.data, arguments.quick):
        print(f"written: {path.relative_to(RESULTS.parents[1])}")
