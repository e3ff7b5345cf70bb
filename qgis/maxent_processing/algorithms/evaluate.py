"""maxent:evaluate: a fitted model on records that it has not seen."""

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
    ABOUT = (
        "Scores a fitted model on records that it has not seen, against the background or "
        "against records of absence: AUC, Boyce index, log loss and omission."
    )
    MODEL, ABSENCES, OUTPUT = "MODEL", "ABSENCES", "OUTPUT"

    def initAlgorithm(self, config=None):
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
        words += [*self.common_words(parameters, context), "--out", out]
        found = self.run_command(words, feedback)
        for name, value in found.items():
            if isinstance(value, (int, float)):
                feedback.pushInfo(f"{name.replace('_', ' ')}: {value:.6g}")
        return {self.OUTPUT: out, "AUC": found["auc"]}
