"""maxent:check: what a fit would use, without fitting."""

from qgis.core import QgsProcessingParameterFileDestination

from .base import MaxentAlgorithm
from .records import add_records, record_words


class Check(MaxentAlgorithm):
    """The command `maxent check`."""

    NAME, TITLE = "check", "Check records and layers"
    ABOUT = (
        "Says which records a fit would use and why others not, whether the layers agree, and "
        "which of them are alike, without fitting. The table has the fate of every record."
    )
    OUTPUT = "OUTPUT"

    def initAlgorithm(self, config=None):
        """Its dialog."""
        add_records(self)
        self.add_layers(categories=True)
        self.add_overwrite()
        self.add_extra()
        self.addParameter(
            QgsProcessingParameterFileDestination(
                self.OUTPUT, "Fate of every record", "Tables (*.csv)"
            )
        )

    def work(self, parameters, context, feedback, folder):
        """Look."""
        out = self.parameterAsFileOutput(parameters, self.OUTPUT, context)
        words = ["check", *record_words(self, parameters, context, feedback, folder)]
        words += self.layer_words(parameters, context, feedback)
        words += [*self.common_words(parameters, context), "--out", out]
        found = self.run_command(words, feedback)
        for told in found["records"]:
            fates = ", ".join(f"{number} {fate}" for fate, number in told["counts"].items())
            feedback.pushInfo(f"{told['species']}: {fates}")
        for layer in found["layers"]["layers"]:
            remarks = [layer["difference"], layer["drop"] and f"leave out? {layer['drop']}"]
            if layer["levels"] and not layer["categorical"]:
                remarks.append(f"{layer['levels']} whole numbers: categories?")
            told = "; ".join(filter(None, remarks))
            feedback.pushInfo(
                f"{layer['name']}: {layer['low']:.4g} to {layer['high']:.4g} {told}".rstrip()
            )
        return {self.OUTPUT: out}
