"""TuningSettings: how candidates are compared and one of them chosen; no data is touched here."""

from __future__ import annotations

from dataclasses import dataclass

from maxent.species.fitting.options import CHECKS, check_block_size, check_options, option

PARTITIONS = ("blocks", "checkerboard", "checkerboard2", "environment", "random", "jackknife")
_OF_N = ("blocks", "environment", "random")  # whose number of folds can be chosen
_PARTS = ("blocks", "checkerboard", "checkerboard2", "environment")  # with background of their own

# statistics of a candidate by the name that is typed: column of the table, and its better direction
STATISTICS = {
    "log_loss": ("test_log_density", 1),
    "auc": ("test_auc", 1),
    "auc_difference": ("auc_difference", -1),
    "boyce": ("test_boyce", 1),
    "omission_minimum": ("omission_minimum", -1),
    "omission_10": ("omission_10_percentile", -1),
    "partial_roc": ("partial_roc", 1),
    "aicc": ("aicc", -1),
    "weights": ("n_weights", -1),
}

# of a fit's settings, those that a comparison takes too
TAKEN = ("clean", "thin", "background", "bias", "bias_kernel", "preset", "seed")

NO_MEMORY = (  # why it has none
    "every candidate is fitted once for each fold, on cells in memory; tune with a background of "
    "some thousand cells, and fit the settings that it finds to all"
)


@dataclass(frozen=True)
class TuningSettings:
    """How candidates are compared.

    Parameters
    ----------
    partition : str, default "blocks"
        "blocks", "checkerboard" (2 folds), "checkerboard2" (4, on two levels), "environment"
        (groups of like conditions), "random" or "jackknife" (each record alone).
    column : str, default None
        Column of the records that names the fold of each.
    folds : int, default None
        Folds of blocks, environment and random; None is 4.
    block_size : str, default None
        Side of blocks: km, or "layers" or "residuals" for the range over which these are alike;
        None for blocks of equal numbers of records.
    squares : int, default None
        Cells along a square of a checkerboard; None is so that 4 to 8 squares lie along the
        records.
    validation : "full" or "partition", default "full"
        Background that AUC and Boyce index compare with: all, or that of the partition.
    scoring : str, default "log_loss"
        What chooses: a statistic; several after commas, each among the best of those before it; or
        weights as in "auc:2,boyce:1".
    null : int, default 0
        Null models of the chosen settings.
    partial_roc : float, default None
        Percent of omission of a partial ROC, None for none.

    Examples
    --------
    >>> TuningSettings(scoring="omission_10,auc").rule()
    ('in turn', [('omission_10_percentile', -1, 1.0), ('test_auc', 1, 1.0)])
    """

    partition: str = option(
        "blocks", f"Make folds by {', '.join(PARTITIONS)}.", CHECKS, choices=PARTITIONS
    )
    column: str | None = option(
        None, "Take the folds from this column of the records.", CHECKS, "--partition-column"
    )
    folds: int | None = option(
        None, "Make this many blocks, groups or random folds [default: 4].", CHECKS
    )
    block_size: str | None = option(
        None,
        "Make blocks this many km wide, or as far as layers or residuals are alike [default: "
        "blocks of equal numbers of records].",
        CHECKS,
    )
    squares: int | None = option(
        None,
        "Make squares of a checkerboard this many cells wide [default: by the records].",
        CHECKS,
    )
    validation: str = option(
        "full",
        "Compare test records with this background: full, or that of their partition.",
        CHECKS,
        "--validation-background",
        choices=("full", "partition"),
    )
    scoring: str = option(
        "log_loss",
        f"Choose by {', '.join(STATISTICS)}; by several in turn, as omission_10,auc; or weighted, "
        "as auc:2,boyce:1.",
        CHECKS,
    )
    null: int = option(0, "Fit this many null models with the chosen settings.", CHECKS, least=0)
    partial_roc: float | None = option(
        None, "Also compute partial ROC at this percentage of omission, such as 5.", CHECKS
    )

    def __post_init__(self) -> None:
        check_options(self)
        if self.column is not None and self.partition != "blocks":
            raise ValueError(f"column and --partition {self.partition} both name folds; give one")
        kind = "the folds of a column" if self.column is not None else self.partition
        if self.folds is not None:
            if kind not in _OF_N:
                raise ValueError(f"folds has no effect on {kind}; leave it out")
            if self.folds < 2:
                raise ValueError(f"folds must be at least 2, got {self.folds}")
        check_block_size(self.block_size)
        if self.block_size is not None and kind != "blocks":
            raise ValueError(f"block_size has no effect on {kind}; leave it out")
        if self.squares is not None:
            if not kind.startswith("checkerboard"):
                raise ValueError(f"squares has no effect on {kind}; leave it out")
            if self.squares < 1:
                raise ValueError(f"squares must be at least 1 cell wide, got {self.squares}")
        if self.validation == "partition" and kind not in _PARTS:
            raise ValueError(f"validation by partition needs blocks or squares, got {kind}")
        if self.partial_roc is not None and not 0 < self.partial_roc < 100:
            raise ValueError(
                "partial_roc is a percentage of omission above 0 and below 100, got "
                f"{self.partial_roc:g}; at 0 no map could be worse than chance"
            )
        _, parts = self.rule()
        if self.partial_roc is None and any(name == "partial_roc" for name, _, _ in parts):
            raise ValueError("scoring by partial_roc needs --partial-roc, such as 5")
        if kind == "jackknife" and any(name == "test_boyce" for name, _, _ in parts):
            raise ValueError("scoring by boyce needs folds of several records, got jackknife")

    @property
    def n_folds(self) -> int:
        """Of blocks, groups and random folds."""
        return 4 if self.folds is None else self.folds

    def rule(self) -> tuple[str, list[tuple[str, int, float]]]:
        """ "in turn" or "weighted", and the column, direction and weight of each statistic."""
        words = [word.strip() for word in self.scoring.split(",") if word.strip()]
        named = [word.partition(":")[::2] for word in words]
        weighted = [bool(weight) for _, weight in named]
        unknown = [name for name, _ in named if name not in STATISTICS]
        if unknown or not named:
            raise ValueError(f"scoring must name {', '.join(STATISTICS)}, got {self.scoring!r}")
        if any(weighted) and not all(weighted):
            raise ValueError(f"scoring by weights needs one for each part, got {self.scoring!r}")
        parts = [(*STATISTICS[name], _weight(weight, self.scoring)) for name, weight in named]
        return "weighted" if any(weighted) else "in turn", parts


def _weight(typed: str, scoring: str) -> float:
    try:
        weight = float(typed or 1)
    except ValueError:
        weight = 0.0
    if not 0 < weight < float("inf"):
        raise ValueError(f"scoring takes positive weights, as auc:2,boyce:1, got {scoring!r}")
    return weight
