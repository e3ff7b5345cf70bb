"""maxent:evaluate: a fitted model on records that it has not seen."""

import json

from qgis.core import (
    QgsProcessing,
    QgsProcessingOutputNumber,
    QgsProcessingParameterFeatureSource,
    QgsProcessingParameterFile,
    QgsProcessingParameterFileDestination,
)

from ..inputs import file_name, vector_file
from .base import MaxentAlgorithm
from .records import add_records, record_words


class Evaluate(MaxentAlgorithm):
    """The command `maxent evaluate`."""

    NAME, TITLE = "evaluate", "Evaluate a model on new records"
    ABOUT = "Scores a fitted model on records that it has not seen, against the background or against records of absence: AUC, Boyce index, log loss and omission."
    MODEL, ABSENCES, OUTPUT = "MODEL", "ABSENCES", "OUTPUT"

    def initAlgorithm(self, config=None):  # noqa: N802
        """Its dialog."""
        self.addParameter(
            QgsProcessingParameterFile(self.MODEL, "Model", fileFilter="Models (*.json *.lambdas)")
        )
        add_records(self, "New records")
        self.addParameter(
            QgsProcessingParameterFeatureSource(
                self.ABSENCES, "Records of absence", [QgsProcessing.TypeVectorPoint], optional=True
            )
        )
        self.add_layers(categories=False)
        self.add_seed()
        self.add_overwrite()
        self.add_extra()
        self.addParameter(
            QgsProcessingParameterFileDestination(self.OUTPUT, "Table of scores", "Tables (*.csv)")
        )
        self.addOutput(QgsProcessingOutputNumber("AUC", "AUC"))

    def work(self, parameters, context, feedback, folder):
        """Score."""
        out = self.parameterAsFileOutput(parameters, self.OUTPUT, context)
        model = self.parameterAsFile(parameters, self.MODEL, context)
        words = ["evaluate", model, *record_words(self, parameters, context, feedback, folder)]
        words += self.layer_words(parameters, context, feedback)
        absences = self.parameterAsSource(parameters, self.ABSENCES, context)
        if absences is not None:
            (folder / "absences").mkdir()
            path = folder / "absences" / file_name(absences, "absences")
            words += ["--absences", vector_file(absences, path, context, feedback, points=True)]
        scores = folder / "scores.json"
        words += ["--json", str(scores), *self.common_words(parameters, context), "--out", out]
        for line in self.run_command(words, feedback).splitlines():
            feedback.pushInfo(line)
        found = json.loads(scores.read_text(encoding="utf-8"))
        return {self.OUTPUT: out, "AUC": _find(found, "auc")}


def _find(found, name):
    """A score of the first species, wherever it is in what the command wrote."""
    if isinstance(found, dict):
        if isinstance(found.get(name), (int, float)):
            return found[name]
        found = list(found.values())
    if isinstance(found, list):
        for part in found:
            value = _find(part, name)
            if value is not None:
                return value
    return None
