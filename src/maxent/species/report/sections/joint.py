"""The joint fit of several species: what it is, what this species had of it, and from whom."""

from __future__ import annotations

from maxent.species.fitting.results import Borrowing
from maxent.species.report.markup import (
    Html,
    count,
    element,
    fixed,
    joined,
    paragraph,
    small,
    table,
)
from maxent.species.report.sections.base import CROSS_VALIDATED, Context

IS = (
    "Species were fitted together, over the places where any of them was recorded. Records of "
    "other species tell where people looked, so that empty corners of the map do not count as "
    "absences. And they tell how species respond alike: a species with few records leans on those "
    "whose responses are like its own, and on itself as its records grow."
)
IS_NOT = (
    "It does not say that species affect each other. Two species are alike here because they are "
    "recorded under the same conditions, not because they compete or depend on each other, and a "
    "correlation of a species with few records is mostly what the fit lent it. It is still a "
    "density of records, relative to those of the group: how often a species is met where others "
    "are, not how likely it is to be present. What all of them miss in common, such as a valley "
    "that nobody visits, none of them can tell."
)


SPACE = (
    "The model also looks at places (--spatial): what the variables do not explain may be "
    "explained by where records are. Within the region of the records that is right, and often "
    "better. It says nothing of other times or other regions, where the same places do not exist: "
    "do not project it. The variables place x and place y of this report are the coordinates; "
    "their share of a prediction, in the explanations and contributions, is the part of space; "
    "the maps environment.tif and space.tif are the two parts of the log density."
)


def joint(context: Context) -> Html | None:
    """What the joint model is and is not, who was most alike, and whether it helped."""
    told = context.result.borrowing
    if told is None:
        return None
    alone = told.n_species == 1
    return joined(
        [
            paragraph(_alone(told) if alone else IS),
            None if alone else paragraph(IS_NOT),
            paragraph(element("strong", SPACE)) if told.spatial else None,
            _scores(told),
            None if alone else _alike(told),
            paragraph(_fit(told), class_="says"),
        ]
    )


def _alone(told: Borrowing) -> str:
    return (
        "A joint fit was asked for, and this is the only species of "
        f"{told.group or 'its group'}: there was nobody to borrow from. Its density is that of its "
        "own records, with the features and the penalty of a joint fit."
    )


def _fit(told: Borrowing) -> str:
    """How it was solved, in words."""
    said = (
        f"{count(told.n_species)} species with {count(told.n_records)} records at "
        f"{count(told.n_places)} places, {count(told.n_features)} features in common. "
    )
    if told.rounds:
        said += (
            "How far species follow each other was taken from their weights "
            f"{count(told.rounds)} times, each time followed by a fit of all. "
        )
    said += (
        f"The last fit is within {small(max(told.gap, 0.0), 1)} nats per record of the best there "
        "is for its correlations (the duality gap)"
    )
    said += "." if told.converged else ", which is not as close as it should be."
    if told.own_share:
        said += (
            f" {told.own_share:.0%} of the log density is that of a model of this species' own "
            "records."
        )
    return said


def _scores(told: Borrowing) -> Html | None:
    if not told.own:
        return (
            paragraph(f"Own and joint were not compared: {told.reason}.") if told.reason else None
        )
    rows = [
        [name, fixed(scores["gain"]), fixed(scores["auc"])]
        for name, scores in (("own model", told.own), ("joint model", told.joint))
    ]
    how = f"{CROSS_VALIDATED[told.kind]}, {count(told.folds)} folds"
    caption = f"Held-out records, cross-validation {how}"
    better = told.joint["gain"] > told.own["gain"]
    says = (
        "Gain is the mean log density of the held-out records against an even map. Places are "
        "hidden from all species at once, so that no neighbour tells of them; scores are weighted "
        "by the records of a fold. "
    )
    if told.joint["gain"] <= 0:
        says += (
            "Here neither is better than an even map"
            if told.own["gain"] <= 0
            else "Here the joint model is no better than an even map"
        )
        says += " where records were hidden: do not rely on the map away from the records."
    elif better:
        says += "Here the joint model does better."
    else:
        says += (
            "Here the joint model does no better than the species' own: look at both before you "
            "use the map."
        )
    head = ["Model", "Held-out gain", "Held-out AUC"]
    return joined([table(caption, head, rows, right=[1, 2]), paragraph(says, class_="says")])


def _alike(told: Borrowing) -> Html:
    if max(told.alike.values()) <= 0:
        return paragraph(
            "No species of the group responds like this one (all correlations are 0 or less): its "
            "density rests on its own records, and on where the others do not live."
        )
    rows = [[element("em", name), fixed(r, 2)] for name, r in told.alike.items() if r > 0]
    caption = "From whom it borrowed: the species whose weights are most like its own"
    says = (
        "1 is the same response to everything, 0 nothing in common. joint_correlations.csv, beside "
        "the index of all species, has all of them, also those below 0, of species that live where "
        "this one does not; joint_tree.png draws them."
    )
    shown = table(caption, ["Species", "Correlation"], rows, right=[1])
    return joined([shown, paragraph(says, class_="says")])
