"""Groups of species that are fitted together: their fits, and the files of a group.

Beside the folders of the species a run with --joint has, for each group, ``joint_model.json`` (the
densities of all its species), ``joint_correlations.csv`` and ``joint_tree.png``; with
--group-column their names end in that of the group.
"""

from __future__ import annotations

import csv
import io as text
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from maxent import io
from maxent._support.terminal import in_words
from maxent.density import JointDensity
from maxent.species import report
from maxent.species.batch.job import Job, Shared, ready
from maxent.species.batch.slugs import slugs
from maxent.species.fitting.joint import Joint, SpeciesGroup, fit_group
from maxent.species.fitting.results import Sample
from maxent.species.study.samples import Region

_FILES = {
    "model": "joint_model.json",
    "correlations": "joint_correlations.csv",
    "tree": "joint_tree.png",
}


def fit_groups(
    queue: Sequence[Job],
    shared: Shared,
    groups: Mapping[str, Sequence[str]],
    stage: Callable[[str, str], None],
) -> tuple[dict[str, JointDensity], dict[str, Joint], list[dict[str, Any]]]:
    """The joint fits by group, the part of each species, and rows of those that failed."""
    jobs = {job.species: job for job in queue}
    whole: dict[str, JointDensity] = {}
    parts: dict[str, Joint] = {}
    failed: list[dict[str, Any]] = []
    for group, members in groups.items():
        samples: dict[str, Sample] = {}
        region: Region | None = None
        errors: dict[str, str] = {}
        for name in members:
            stage(name, "records")
            try:
                prepared, region = ready(jobs[name], shared)
                samples[name] = prepared.train
            except Exception as error:  # the others are fitted without it
                errors[name] = in_words(error).removeprefix(f"{name}: ")
        if samples:
            first = next(iter(samples))
            try:
                together = (
                    SpeciesGroup.from_tables(group, samples, shared.categorical)
                    if region is None
                    else SpeciesGroup.from_region(group, region, samples)
                )
                whole[group], made = fit_group(together, shared.settings, partial(stage, first))
                parts |= made
            except Exception as error:
                errors |= dict.fromkeys(samples, f"the joint fit of its group: {in_words(error)}")
        failed += [
            {"species": name, "status": "failed", "error": error} for name, error in errors.items()
        ]
    return whole, parts, failed


# -- files -----------------------------------------------------------------------------------------


def file_names(groups: Iterable[str]) -> dict[str, dict[str, str]]:
    """The names of the files of each group.

    >>> file_names([""])[""]["model"], file_names(["Pinaceae"])["Pinaceae"]["tree"]
    ('joint_model.json', 'joint_tree_Pinaceae.png')
    """
    chosen = slugs(group for group in groups if group)
    return {
        group: {what: _named(file, chosen.get(group, "")) for what, file in _FILES.items()}
        for group in groups
    }


def _named(file: str, group: str) -> str:
    stem, dot, end = file.partition(".")
    return f"{stem}_{group}{dot}{end}" if group else file


def missing(groups: Iterable[str], out: Path) -> bool:
    """Whether a file of a group is not there."""
    return any(not (out / names["model"]).is_file() for names in file_names(groups).values())


def write_groups(joints: Mapping[str, JointDensity], out: Path) -> None:
    """The densities of each group, its correlations as a table, and its tree as a picture."""
    for group, names in file_names(joints).items():
        joint = joints[group]
        io.save(joint, out / names["model"])
        io.write_atomically(out / names["correlations"], _csv(joint))
        tree = out / names["tree"]
        if len(joint) > 1:
            io.write_atomically(tree, report.tree_png(joint.linkage(), joint.species))
        else:
            tree.unlink(missing_ok=True)


def _csv(joint: JointDensity) -> bytes:
    file = text.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["species", "records", *joint.species])
    rows = zip(joint.species, joint.n_presences, joint.correlations(), strict=True)
    for name, number, row in rows:
        writer.writerow([name, round(float(number)), *(f"{r:.4f}" for r in row)])
    return file.getvalue().encode()
