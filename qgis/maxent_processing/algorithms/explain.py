"""maxent:explain: why a place is suitable."""

from html import escape
from pathlib import Path

from qgis.core import (
    QgsProcessingOutputNumber,
    QgsProcessingParameterFile,
    QgsProcessingParameterFileDestination,
    QgsProcessingParameterPoint,
)

from .base import MaxentAlgorithm

PAGE = """<!doctype html><meta charset="utf-8"><title>{title}</title>
<style>body{{font:14px sans-serif}}td,th{{padding:.2em .8em;text-align:right}}
td:first-child,th:first-child{{text-align:left}}.outside{{color:#b3261e}}</style>
<h1>{title}</h1><p>{said}</p>
<table><tr><th>variable<th>here<th>adds<th>usual<th>range of the fit</tr>
{rows}</table>
"""


class Explain(MaxentAlgorithm):
    """The command `maxent explain`."""

    NAME, TITLE = "explain", "Explain the suitability of a place"
    ABOUT = (
        "Says what each variable adds to the suitability of a place, compared with the usual "
        "background, and which of them are outside the ranges of the fit."
    )
    MODEL, PLACE, OUTPUT = "MODEL", "PLACE", "OUTPUT"

    def initAlgorithm(self, config=None):
        """Its dialog."""
        self.addParameter(
            QgsProcessingParameterFile(self.MODEL, "Model", fileFilter="Models (*.json *.lambdas)")
        )
        self.add_layers(categories=False)
        self.addParameter(QgsProcessingParameterPoint(self.PLACE, "Place"))
        self.addParameter(
            QgsProcessingParameterFileDestination(self.OUTPUT, "Explanation", "Pages (*.html)")
        )
        self.addOutput(QgsProcessingOutputNumber("CLOGLOG", "Suitability (cloglog)"))

    def work(self, parameters, context, feedback, folder):
        """Ask, and write the page."""
        out = self.parameterAsFileOutput(parameters, self.OUTPUT, context)
        model = self.parameterAsFile(parameters, self.MODEL, context)
        words = ["explain", model, *self.layer_words(parameters, context, feedback)]
        crs = self.parameterAsPointCrs(parameters, self.PLACE, context)
        place = self.parameterAsPoint(parameters, self.PLACE, context, crs)
        words += ["--at", f"{place.x()!r},{place.y()!r}"]
        if crs.isValid():
            words += ["--crs", crs.authid() or crs.toWkt()]
        (told,) = self.run_command(words, feedback)
        Path(out).write_text(page(told), encoding="utf-8")
        for share in told["shares"]:
            feedback.pushInfo(f"{share['variable']}: {share['share']:+.3f}")
        return {self.OUTPUT: out, "CLOGLOG": told["outputs"].get("cloglog")}


def page(told):
    """What the command told of a place, to be read."""
    outputs = ", ".join(f"{name} {value:.4g}" for name, value in told["outputs"].items())
    said = f"{escape(outputs)}. What the variables add to the exponent, the largest first:"
    rows = "\n".join(map(_row, told["shares"]))
    title = f"The place {told['x']:g}, {told['y']:g}"
    return PAGE.format(title=title, said=said, rows=rows)


def _row(share):
    def number(value):
        return "" if value is None else f"{value:.4g}"

    known = share["low"] is not None
    span = f"{number(share['low'])} to {number(share['high'])}" if known else ""
    outside = ' class="outside"' if share["outside"] else ""
    return (
        f"<tr{outside}><td>{escape(str(share['variable']))}<td>{number(share['value'])}<td>{share['share']:+.3f}"
        f"<td>{number(share['usual'])}<td>{span}{', outside' if share['outside'] else ''}</tr>"
    )
