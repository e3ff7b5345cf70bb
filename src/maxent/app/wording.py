"""Messages of the command in the words of the page: its fields instead of options to be typed."""

from __future__ import annotations

import re
from functools import cache

from maxent.species.fitting.options import options_of
from maxent.species.fitting.settings import Settings
from maxent.species.input.files import LayerFiles, RecordFile, StudyFiles
from maxent.species.input.source_settings import SourceSettings

# what the page calls a field, where that is not its name; the same words as in web/src
_RECORDS = {
    "species": "Column of names",
    "x": "Column of longitude or x",
    "y": "Column of latitude or y",
    "crs": "Coordinate reference system",
    "presence": "Column of presence and absence",
    "basis": "Kinds of record to use",
    "max_uncertainty": "Leave out places less certain than so many metres",
    "leave_out": "left out by hand",
}
_LAYERS = {
    "categorical": "categories",
    "align": "Resample all of them to the grid of",
    "crs": "Coordinate reference system of the layers",
    "without": "use",
}
_STUDY = {
    "polygons": "draw a polygon",
    "hull": "convex hull of the records",
    "buffer": "Buffer in km",
}
_SETTINGS = {
    "features": "Shape of response curves",
    "multiplier": "Smoothness",
    "cv": "How to test the model",
    "replicates": "Replicates for a map of uncertainty",
    "threshold": "Threshold for a map of presence",
    "extent": "Where maps are drawn",
    "mask": "Places unlike all that the fit has seen",
    "background": "How many cells",
    "clean": "Leave out doubtful places",
    "thin": "Keep records so many km apart",
}
_OTHERS = {
    "--background-records": "where the species of another file were recorded",
    "--target-group": "where any species of the file was recorded",
    "--bias": "drawn in proportion to a raster of sampling effort",
    "--bias-kernel": "drawn where records are dense",
    "--apart": "At least so many km apart",
    "--survey": "Surveys and counts",
    "--counts": "Surveys and counts",
    "--project": "Also map these layers",
    "--out": "Name of the results' folder",
    "--species": "species; fit",
    "--multipliers": "Multipliers",
    "--partition": "Hold out",
    "--squares": "Cells along a square",
    "--scoring": "Choose by",
    "--null": "Null models",
    "--partial-roc": "Partial ROC at this % of omission",
    "--partition-column": "Column of folds",
}
_VISITS = {
    "area_column": "Column of areas or effort",
    "area_unit": "Unit of areas",
    "site_area": "Area of every visit",
    "count_column": "Column of individuals counted",
    "visits_column": "Column of visits",
    "weigh": "How to weigh kinds of records",
    "area": "Area that probabilities are for",
    "count_size": "Overdispersion of counts",
    "effort_layers": "Layers of effort",
}
_COMMANDS = {
    "`maxent evaluate`": "“Test it on other records”, under a result,",
    "`maxent fit --kind survey`": "“Surveys and counts”, below,",
    "`maxent fit --kind counts`": "“Surveys and counts”, below,",
}
# of these classes the page has all fields, of the others those above
_WHOLE = (Settings,)
_KEYWORD = re.compile(r"\b(?:\w+= and )?\w+= \((?=--)([^()]*)\)")  # of a function, with its flag
_FLAG = re.compile(
    r"(?<![\w-])--[a-z](?:[a-z-]*[a-z])?(?:[ =](?:[A-Z][A-Z=:_\[\]]+|\d+(?:\.\d+)?)\b)?"
)


@cache
def _labels() -> dict[str, str]:
    """The label of every flag that has a field on the page."""
    found = {}
    for cls, labels in (
        (RecordFile, _RECORDS),
        (LayerFiles, _LAYERS),
        (StudyFiles, _STUDY),
        (Settings, _SETTINGS),
        (SourceSettings, _VISITS),
    ):
        for name, option in options_of(cls).items():
            if name in labels or cls in _WHOLE:
                found[option.flag(name)] = labels.get(name, name.replace("_", " "))
    return found | _OTHERS


def for_page(text: str) -> str:
    """A message with the names of fields for options; one without a field is called an option.

    >>> for_page("multiplier must be a positive number, got -1")
    'Smoothness must be a positive number, got -1'
    >>> for_page("hold some out (--test-share) or raise --max-cells 5")
    'hold some out (“test share”) or raise the option --max-cells 5 of the command'
    """
    for command, place in _COMMANDS.items():
        text = text.replace(command, place)
    first, must, rest = text.partition(" must ")
    if must and first.isidentifier():
        text = f"{(_VISITS | _SETTINGS).get(first, first.replace('_', ' '))}{must}{rest}"
    # what stands between backticks is typed as it is
    parts = _KEYWORD.sub(r"\1", text).split("`")
    return "`".join(part if i % 2 else _FLAG.sub(_field, part) for i, part in enumerate(parts))


def _field(found: re.Match[str]) -> str:
    flag, _, value = found[0].replace("=", " ").partition(" ")
    label = _labels().get(flag)
    if label is None:
        return f"the option {found[0]} of the command"
    return f"“{label}”: {value}" if value[:1].isdecimal() else f"“{label}”"
