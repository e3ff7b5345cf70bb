"""Whether the other species of the group lent strength, and what decided it."""

from __future__ import annotations

from maxent.species.fitting.results import Sharing
from maxent.species.report.markup import Html, count, element, fixed, joined, paragraph, table
from maxent.species.report.sections.base import CROSS_VALIDATED, Context

_LENDERS = 10  # shown at most


def sharing(context: Context) -> Html | None:
    """The choice, both scores and who lent most."""
    told = context.result.sharing
    if told is None:
        return None
    return joined([paragraph(_choice(told)), _scores(told), _lenders(told)])


def _choice(told: Sharing) -> str:
    if told.chosen:
        return (
            "This density is shared: the mean of the log of the species' own density and the log "
            f"of one that combines those of {count(told.n_others)} other species of the run. "
            "Records that were kept from the fit are likelier under it than under the species' "
            "own density."
        )
    if told.own:
        return (
            "This is the species' own density. Its mean with that of "
            f"{count(told.n_others)} other species of the run was tried, and records that were "
            "kept from the fit are not likelier under it."
        )
    return f"This is the species' own density: {told.reason}."


def _scores(told: Sharing) -> Html | None:
    if not told.own:
        return None
    rows = [
        [name, fixed(scores["gain"]), fixed(scores["auc"]), "chosen" if mine else ""]
        for name, scores, mine in (
            ("own density", told.own, not told.chosen),
            ("shared with other species", told.shared, told.chosen),
        )
    ]
    caption = f"Held-out records, cross-validation {CROSS_VALIDATED[told.kind]}, {told.folds} folds"
    says = (
        "Gain is the mean log density of the held-out records against an even map, and decides; "
        "the held-out records are kept from the species' own part and from the weights of the "
        "others, whose records are used whole. The better of two scores flatters a little. Both "
        "scores are of records, not of a survey: where all species were looked for in the "
        "same places, sharing learns these places too, unless the background has them (a target "
        "group)."
    )
    head = ["Density", "Held-out gain", "Held-out AUC", ""]
    return joined([table(caption, head, rows, right=[1, 2]), paragraph(says, class_="says")])


def _lenders(told: Sharing) -> Html | None:
    if not told.lenders:
        return None
    order = sorted(told.lenders, key=lambda name: -abs(told.lenders[name]))[:_LENDERS]
    rows = [[element("em", name), fixed(told.lenders[name])] for name in order]
    caption = f"Weights of the other species, the {len(order)} largest of {len(told.lenders)}"
    return table(caption, ["Species", "Weight of its log density"], rows, right=[1])
