"""Settings: what a fit of a species can be told, each with its default, its help and its limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from maxent.species.fitting.options import (
    ALWAYS,
    BACKGROUND,
    CHECKS,
    DATA,
    FOR_MAPS,
    MODEL,
    OUTPUT,
    check_block_size,
    check_options,
    option,
)

if TYPE_CHECKING:
    from maxent.core.entropies import Entropy
    from maxent.density import Recipe

RULES = (  # of the table of thresholds
    "Fixed cumulative value 1",
    "Fixed cumulative value 5",
    "Fixed cumulative value 10",
    "Minimum training presence",
    "10 percentile training presence",
    "Equal training sensitivity and specificity",
    "Maximum training sensitivity plus specificity",
    "Equal test sensitivity and specificity",
    "Maximum test sensitivity plus specificity",
    "Balance training omission, predicted area and threshold value",
    "Equate entropy of thresholded and original distributions",
)
# the names of features.letters and potentials.BY_NAME, written out: a command starts without them
_LETTERS = "lqpthck"
_POTENTIALS = ("box", "ball", "quadratic", "elastic", "smooth-box", "laplace", "equality")
VIF = 10.0  # a usual limit
NO_REGION = (
    "extent region needs a study region: give one (--region, --buffer, --hull or --ecoregions), "
    "or draw all of the layers (--extent layers)"
)
_CV = ("auto", "blocks", "checkerboard", "environment", "random", "none")
_REPLICATES = ("bootstrap", "subsample", "crossvalidate")
_INTERVALS = ("none", "laplace", "bootstrap")
_QUADRATIC = ("box", "quadratic", "elastic", "equality")  # sums of |w| and w^2 over the features


def _cells(typed: str) -> int | None:
    if typed == "all":
        return None
    if not typed.isdigit() or int(typed) < 1:
        raise ValueError(f"background is a number of cells or all, got {typed!r}")
    return int(typed)


def _typed_cells(background: int | None) -> list[str]:
    return ["all" if background is None else str(background)]


def _with_cloglog(typed: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(["cloglog", *typed]))


def _without_cloglog(outputs: tuple[str, ...]) -> list[str]:
    return [name for name in outputs if name != "cloglog"]


@dataclass(frozen=True)
class Settings:
    """What a fit of a species can be told; defaults as in maxent.jar where it has the setting.

    Parameters
    ----------
    features : str, default "auto"
        "auto" or letters of "lqpthck", see ``MaxentDensity``.
    potential : str, default "box"
        "box" (l1), "ball", "quadratic", "elastic", "smooth-box" or "laplace", see
        ``MaxentDensity``.
    entropy : str, default "shannon"
        "shannon", or "tsallis:1.5" for exact zeros.
    multiplier : float, default 1.0
        Regularization multiplier.
    preset : "maxent" or "maxnet", default None
        Features and tables of that program.
    joint : bool, default False
        Whether the species of the run are fitted as one problem, over the places with a record of
        any of them, and borrow from those that respond alike (``maxent.species.fitting.joint``).
    group_column : str, default None
        With ``joint``, the column of the records that says which species belong together, such as
        family: each group is a problem of its own.
    spatial : bool, default False
        With ``joint``, whether the kernel looks at the coordinates too. That is right within the
        sampled region, and not for projections to other times or places.
    background : int or None, default 10000
        Number of background cells, None for every cell.
    bias : "background" or "prior", default "background"
        What a bias raster is for: "background" draws the background in proportion to it, "prior"
        takes it out of the density.
    select : str, default None
        "vif" or "vif=10" drops the variables whose variance inflation factor is larger, the worst
        first; "forward" adds variables while the held-out gain of blocks grows.
    bias_kernel : str, default None
        Effort from the records themselves: the bandwidth in km of their kernel density, or "auto".
    keep_duplicates : bool, default False
        Whether to count every record of a cell, not one.
    clean : bool, default False
        Whether to leave out records in doubtful places: at 0, 0, perhaps with a lost minus sign, at
        centroids of countries and provinces, at capitals and institutions, of few decimals.
    thin : float, default None
        Smallest distance between records in km.
    minimum : int, default 3
        Smallest number of records.
    test_share : float, default 0.0
        Share of the records held out at random for testing.
    cv : str, default "auto"
        Cross-validation: "auto", "blocks", "checkerboard", "environment", "random" or "none".
    folds : int, default 4
        Its folds.
    block_size : str, default None
        Side of the blocks of "blocks": km, or "layers" or "residuals" for the range over which
        these are alike; None for blocks of equal numbers of records.
    replicates : int, default 0
        Further refits, with maps of their mean and spread.
    replicate_kind : str, default "bootstrap"
        "bootstrap", "subsample" or "crossvalidate".
    jackknife : bool, default True
        Whether to refit with and without each variable.
    bootstrap : int, default 20
        Refits for the bands of response curves.
    intervals : "none", "laplace" or "bootstrap", default "none"
        How intervals of curves, maps, areas and range change are found, of 90 %: from the curvature
        of the fitted problem, or by refits to records drawn in spatial blocks.
    permutations : int, default 10
        Shuffles of each variable.
    diagnostic_cells : int, default 10000
        Background cells that the refits of diagnostics use at most.
    prevalence : float, default 0.5
        `tau` of the logistic output.
    outputs : tuple of str, default ("cloglog",)
        Maps to write: "cloglog" (always), "raw", "logistic", "cumulative" or "log".
    clamp : bool, default True
        Whether to hold variables in their ranges in maps.
    mask : "mess" or "exdet", default None
        Leave cells that extrapolate out of maps: a variable outside its range, or for "exdet" also
        a new combination of variables.
    extent : str, default "layers"
        What the map of the training layers, and maps of other layers on their grid, are cut to:
        "layers" (nothing), "region" (the study region), or a file of polygons.
    threshold : str, default None
        Rule of the thresholds table (or a number) for a map of presence.
    seed : int, default 0
        Seed of everything random.
    verbose : int, default 1
        0 silences progress.
    """

    features: str = option(
        "auto",
        "Use these classes of features: auto, or letters of lqpthck (k: a kernel).",
        MODEL,
        "--features",
        "-f",
        with_swd=ALWAYS,
    )
    potential: str = option(
        "box",
        "Penalise by box (l1), ball, quadratic, elastic, smooth-box or laplace.",
        MODEL,
        choices=_POTENTIALS,
        with_swd=ALWAYS,
    )
    entropy: str = option(
        "shannon",
        "Use this entropy: shannon, or tsallis:1.5 for exact zeros.",
        MODEL,
        with_swd=ALWAYS,
    )
    multiplier: float = option(
        1.0, "Multiply the regularization by this.", MODEL, "--multiplier", "-m", with_swd=ALWAYS
    )
    preset: str | None = option(
        None,
        "Take features and tables of constants from maxent or maxnet.",
        MODEL,
        choices=(None, "maxent", "maxnet"),
        with_swd=ALWAYS,
    )
    joint: bool = option(
        False,
        "Fit all species of the file as one problem, over the places with any record: those with "
        "few records borrow from those that respond alike.",
        MODEL,
        with_swd=ALWAYS,
    )
    group_column: str | None = option(
        None,
        "With --joint, the column of groups, such as family: each group is fitted by itself.",
        MODEL,
    )
    spatial: bool = option(
        False,
        "With --joint, also look at places: right within the region of the records, not for other "
        "times or places.",
        MODEL,
    )
    background: int | None = option(
        10_000,
        "Draw this many background cells, or all.",
        BACKGROUND,
        read=_cells,
        write=_typed_cells,
    )
    bias: str = option(
        "background",
        "Use effort as background (draw it in proportion) or prior (take it out of the density).",
        BACKGROUND,
        "--bias-as",
        choices=("background", "prior"),
    )
    select: str | None = option(
        None,
        "Choose variables: vif[=10] drops those of a larger variance inflation factor, forward "
        "adds one at a time while blocked cross-validation gains.",
        MODEL,
    )
    bias_kernel: str | None = option(
        None,
        "Estimate sampling effort by the kernel density of the records themselves (all of the "
        "file, or --background-records), with this bandwidth in km, or auto.",
        BACKGROUND,
    )
    keep_duplicates: bool = option(False, "Count every record of a cell, not just one.", DATA)
    clean: bool = option(
        False,
        "Leave out records in doubtful places: at 0, 0, at centroids, capitals and museums, with a "
        "lost minus sign, or of few decimals.",
        DATA,
    )
    thin: float | None = option(None, "Keep only records this many km apart.", DATA)
    minimum: int = option(3, "Refuse species with fewer records.", DATA, least=1, with_swd=ALWAYS)
    test_share: float = option(
        0.0, "Hold out this share of the records.", CHECKS, least=0, most=0.99, with_swd=ALWAYS
    )
    cv: str = option(
        "auto",
        "Cross-validate by auto, blocks, checkerboard, environment, random or none.",
        CHECKS,
        choices=_CV,
        with_swd=ALWAYS,
    )
    folds: int = option(4, "Cross-validate in this many folds.", CHECKS, least=2, with_swd=ALWAYS)
    block_size: str | None = option(
        None,
        "Make blocks this many km wide, or as far as layers or residuals are alike [default: "
        "blocks of equal numbers of records].",
        CHECKS,
        with_swd=ALWAYS,
    )
    replicates: int = option(
        0, "Refit this many times, and map mean and spread.", CHECKS, least=0, with_swd=ALWAYS
    )
    replicate_kind: str = option(
        "bootstrap",
        "Refit by bootstrap, subsample or crossvalidate.",
        CHECKS,
        "--replicate-type",
        choices=_REPLICATES,
        with_swd=ALWAYS,
    )
    jackknife: bool = option(True, "Fit with and without each variable.", CHECKS, with_swd=ALWAYS)
    bootstrap: int = option(
        20,
        "Refit this many times for the bands of response curves.",
        CHECKS,
        least=0,
        with_swd=ALWAYS,
    )
    intervals: str = option(
        "none",
        "Give intervals of curves, maps, areas and range change: laplace (from the curvature of "
        "the fit; fast), bootstrap (100 refits to spatial blocks of records) or none.",
        CHECKS,
        choices=_INTERVALS,
        with_swd=ALWAYS,
    )
    permutations: int = option(
        10, "Shuffle this many times for permutation importance.", CHECKS, least=0, with_swd=ALWAYS
    )
    diagnostic_cells: int = 10_000
    prevalence: float = option(
        0.5, "Assume this prevalence in the logistic output.", OUTPUT, with_swd=ALWAYS
    )
    outputs: tuple[str, ...] = option(
        ("cloglog",),
        "Map this output besides cloglog: raw, logistic, cumulative or log; repeat for more.",
        OUTPUT,
        "--output",
        read=_with_cloglog,
        write=_without_cloglog,
        with_swd=FOR_MAPS,
    )
    clamp: bool = option(True, "Hold variables in their ranges.", OUTPUT, with_swd=FOR_MAPS)
    mask: str | None = option(
        None,
        "Leave out of maps where they extrapolate: mess (a variable outside its range) or "
        "exdet (also a new combination of variables).",
        OUTPUT,
        choices=(None, "mess", "exdet"),
        with_swd=FOR_MAPS,
    )
    extent: str = option(
        "layers",
        "Draw the map on all of the layers, on the study region alone (region), or within the "
        "polygons of this file.",
        OUTPUT,
    )
    threshold: str | None = option(
        None,
        "Also map presence, by a rule of the thresholds table or a value.",
        OUTPUT,
        with_swd=FOR_MAPS,
    )
    seed: int = option(0, "Seed everything random with this.", least=0, with_swd=ALWAYS)
    verbose: int = field(default=1, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.test_share < 1:
            raise ValueError(f"test_share must lie in [0, 1), got {self.test_share!r}")
        check_options(self)
        if isinstance(self.features, str):
            object.__setattr__(self, "features", self.features.lower())
        letters = self.features
        if letters != "auto" and not (
            isinstance(letters, str) and letters and set(letters) <= set(_LETTERS)
        ):
            raise ValueError(f"features must be auto or letters of {_LETTERS}, got {letters!r}")
        if not self.multiplier > 0:
            raise ValueError(f"multiplier must be a positive number, got {self.multiplier!r}")
        if self.background is not None and not (
            isinstance(self.background, int) and self.background > 0
        ):
            raise ValueError(
                f"background must be a number of cells, or None for all, got {self.background!r}"
            )
        if not isinstance(self.extent, str) or not self.extent:
            raise ValueError(f"extent must be layers, region or a file, got {self.extent!r}")
        _check_rule(self.threshold)
        _check_bandwidth(self.bias_kernel)
        if self.select is not None:
            self.selection()
        if not 0 < self.prevalence < 1:
            raise ValueError(f"prevalence must lie between 0 and 1, got {self.prevalence!r}")
        if self.entropy != "shannon":  # which needs no classes: a command starts without them
            parse_entropy(self.entropy)
        check_block_size(self.block_size)
        if self.block_size is not None and self.cv != "blocks":
            raise ValueError(f"block_size has no effect on cv {self.cv}; give --cv blocks")
        self._check_intervals()
        self._check_joint()

    def _check_intervals(self) -> None:
        """Refuse intervals of what has none."""
        if self.intervals == "none":
            return
        if self.entropy != "shannon":
            raise ValueError(
                f"intervals are of Gibbs densities, entropy shannon; got {self.entropy!r}"
            )
        if self.intervals == "bootstrap" and self.joint:
            raise ValueError(
                "intervals by bootstrap refit a species by itself, and --joint fits all of them: "
                "take --intervals laplace, given the other species"
            )
        if self.intervals == "laplace" and self.potential not in _QUADRATIC:
            raise ValueError(
                f"intervals by laplace need a penalty of {', '.join(_QUADRATIC)}; of "
                f"{self.potential} take --intervals bootstrap"
            )

    def _check_joint(self) -> None:
        """Refuse what says nothing without a joint fit, and what cannot be beside one."""
        if not self.joint:
            if self.group_column is not None:
                raise ValueError(
                    "group_column has no effect by itself: it says which species are fitted "
                    "together (--joint)"
                )
            if self.spatial:
                raise ValueError(
                    "spatial has no effect by itself: it adds a kernel of the coordinates to "
                    "species fitted together (--joint)"
                )
            return
        if self.entropy != "shannon":
            raise ValueError(f"joint fits Gibbs densities, entropy shannon; got {self.entropy!r}")
        if self.select is not None:
            raise ValueError(
                "joint needs the same variables for all species, and --select chooses for each; "
                "give one of them"
            )
        if self.block_size == "residuals":
            raise ValueError(
                "block_size residuals is of one density, and --joint splits the places of all "
                "species at once; give km, or layers"
            )
        if self.bias == "prior":
            raise ValueError(
                "joint takes where people looked from the places of the records; effort that is "
                "taken out of the density (--bias-as prior) is for species fitted one by one: "
                "leave it out, or draw the places by it (--bias-as background)"
            )

    def selection(self) -> tuple[str, float]:
        """How variables are selected: "vif" with its limit, or "forward"."""
        how, given, limit = (self.select or "").partition("=")
        try:
            value = float(limit) if given else VIF
        except ValueError:
            value = float("nan")
        if (how == "vif" and value >= 1) or (how == "forward" and not given):
            return how, value
        raise ValueError(
            f"select must be vif, vif=LIMIT with a limit of 1 or more, or forward, got "
            f"{self.select!r}"
        )

    @property
    def replicate_split(self) -> str:
        """How replicates split the records, as ``replicate`` calls it."""
        return {"crossvalidate": "random"}.get(self.replicate_kind, self.replicate_kind)

    def check_tested(self, tested: bool) -> None:
        """Refuse a threshold rule of test records where there are none."""
        rules = [] if self.threshold is None else _rules(self.threshold)
        if rules and not tested and all(" test " in rule for rule in rules):
            raise ValueError(
                f"threshold {self.threshold!r} is a rule of test records, and there are none; hold "
                "some out (--test-share, --test) or choose another rule"
            )

    def recipe(self, categorical: tuple[str, ...] = ()) -> Recipe:
        """The density of these settings; layers of categories are always used."""
        from maxent.density import Recipe
        from maxent.species.fitting.space import WithoutPlaces

        kind = WithoutPlaces if self.spatial else Recipe
        letters = self.features
        if categorical and letters != "auto" and "c" not in letters:
            letters += "c"
        return kind(
            letters,
            self.potential,
            entropy=parse_entropy(self.entropy),
            multiplier=self.multiplier,
            preset=self.preset,
            categorical=categorical,
            prevalence=self.prevalence,
            verbose=self.verbose,
        )

    def listed(self) -> dict[str, Any]:
        """By name, for the report."""
        left = ["verbose"] if self.block_size is not None else ["verbose", "block_size"]
        left += ["intervals"] if self.intervals == "none" else []
        return {k: v for k, v in asdict(self).items() if k not in left}


def parse_entropy(text: str) -> Entropy:
    """Read "shannon" or "tsallis:ALPHA".

    >>> parse_entropy("tsallis:1.5")
    Tsallis(alpha=1.5)
    """
    from maxent.core.entropies import Shannon, Tsallis

    name, _, parameter = text.partition(":")
    if name == "shannon" and not parameter:
        return Shannon()
    if name == "tsallis":
        try:
            return Tsallis(float(parameter))
        except ValueError:
            pass
    raise ValueError(
        f'entropy must be "shannon" or "tsallis:ALPHA" such as tsallis:1.5, got {text!r}'
    )


def _check_bandwidth(kernel: str | None) -> None:
    if kernel is None or kernel == "auto":
        return
    try:
        known = 0 < float(kernel) <= 5000
    except ValueError:
        known = False
    if not known:
        raise ValueError(f"bias_kernel must be auto or a bandwidth up to 5000 km, got {kernel!r}")


def _check_rule(rule: str | None) -> None:
    """Refuse a threshold that is no number from 0 to 1 and no rule's name or start of a name."""
    if rule is None or (rule and _rules(rule)):
        return
    try:
        if 0 <= float(rule) <= 1:
            return
    except ValueError:
        pass
    raise ValueError(
        f"threshold must be a number from 0 to 1 (cloglog) or one of: {'; '.join(RULES)}; got "
        f"{rule!r}"
    )


def _rules(start: str) -> list[str]:
    return [name for name in RULES if name.lower().startswith(start.lower())]
