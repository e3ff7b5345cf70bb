"""maxent:tune: settings by spatially blocked cross-validation."""

from pathlib import Path

from qgis.core import (
    QgsProcessingOutputHtml,
    QgsProcessingParameterEnum,
    QgsProcessingParameterFolderDestination,
    QgsProcessingParameterNumber,
    QgsProcessingParameterString,
)

from .base import MaxentAlgorithm
from .records import add_records, record_words

PARTITIONS = ("blocks", "checkerboard", "checkerboard2", "environment", "random", "jackknife")
SAID = ("features", "potential", "multiplier", "test_log_density", "test_auc", "test_boyce", "aicc")
SCORES = ("log_loss", "auc", "boyce", "omission_10", "aicc")


class Tune(MaxentAlgorithm):
    """The command `maxent tune`."""

    NAME, TITLE = "tune", "Tune the settings of a fit"
    ABOUT = (
        "Tries classes of features and multipliers of the regularization by cross-validation "
        "in spatial blocks, as "
        "ENMeval does, and says which are best. The report has the table and the picture."
    )
    FEATURES, MULTIPLIERS, PARTITION, SCORING, BACKGROUND, OUTPUT = (
        *("FEATURES", "MULTIPLIERS", "PARTITION", "SCORING", "BACKGROUND", "OUTPUT"),
    )

    def initAlgorithm(self, config=None):
        """Its dialog."""
        add_records(self)
        self.add_layers(categories=True)
        self.addParameter(
            QgsProcessingParameterString(
                self.FEATURES, "Classes of features to try", "l,lq,lqh,lqph"
            )
        )
        self.addParameter(
            QgsProcessingParameterString(self.MULTIPLIERS, "Multipliers to try", "0.5,1,2,4,8")
        )
        self.addParameter(
            QgsProcessingParameterEnum(
                self.PARTITION, "Folds", options=list(PARTITIONS), defaultValue=0
            )
        )
        self.addParameter(
            QgsProcessingParameterEnum(
                self.SCORING, "Choose by", options=list(SCORES), defaultValue=0
            )
        )
        self.advanced(
            QgsProcessingParameterNumber(
                self.BACKGROUND, "Cells of the background", defaultValue=10000, minValue=1
            )
        )
        self.add_seed()
        self.add_overwrite()
        self.add_extra()
        self.addParameter(
            QgsProcessingParameterFolderDestination(self.OUTPUT, "Folder of the results")
        )
        self.addOutput(QgsProcessingOutputHtml("REPORT", "Report"))

    def work(self, parameters, context, feedback, folder):
        """Try them all."""
        out = self.parameterAsString(parameters, self.OUTPUT, context)
        words = ["tune", *record_words(self, parameters, context, feedback, folder)]
        words += self.layer_words(parameters, context, feedback)
        words += ["--features", self.parameterAsString(parameters, self.FEATURES, context)]
        words += ["--multipliers", self.parameterAsString(parameters, self.MULTIPLIERS, context)]
        words += [
            "--partition",
            PARTITIONS[self.parameterAsEnum(parameters, self.PARTITION, context)],
        ]
        words += ["--scoring", SCORES[self.parameterAsEnum(parameters, self.SCORING, context)]]
        words += ["--background", str(self.parameterAsInt(parameters, self.BACKGROUND, context))]
        words += [*self.common_words(parameters, context), "--out", out]
        for told in self.run_command(words, feedback):
            feedback.pushInfo(f"{told['species']}: {told['advice']}")
            for row in told["rows"][:5]:
                feedback.pushInfo(
                    ", ".join(
                        f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}"
                        for k, v in row.items()
                        if k in SAID
                    )
                )
        reports = sorted(Path(out).glob("*.html"))
        return {self.OUTPUT: out, "REPORT": str(reports[0])}
