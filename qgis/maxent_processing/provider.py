"""The provider "Maxent" of Processing, and its setting."""

from pathlib import Path

from processing.core.ProcessingConfig import ProcessingConfig, Setting
from qgis.core import QgsProcessingProvider
from qgis.PyQt.QtGui import QIcon

from .algorithms import ALGORITHMS

COMMAND = "MAXENT_COMMAND"  # the name of the setting
ICON = str(Path(__file__).with_name("icon.svg"))


class MaxentProvider(QgsProcessingProvider):
    """All algorithms, each a command of maxent."""

    def id(self):
        """The first part of the names of algorithms, as in maxent:fit."""
        return "maxent"

    def name(self):
        """As the toolbox shows it."""
        return "Maxent"

    def longName(self):
        """The same, in full."""
        return "Maxent: species distributions"

    def icon(self):
        """Of the toolbox."""
        return QIcon(ICON)

    def load(self):
        """Add the setting, then the algorithms."""
        ProcessingConfig.settingIcons[self.name()] = self.icon()
        ProcessingConfig.addSetting(
            Setting(
                self.name(),
                COMMAND,
                "Command maxent, its Python or its environment (empty: look for it)",
                "",
                valuetype=Setting.STRING,
            )
        )
        ProcessingConfig.readSettings()
        self.refreshAlgorithms()
        return True

    def unload(self):
        """Take the setting away again."""
        ProcessingConfig.removeSetting(COMMAND)

    def loadAlgorithms(self):
        """One of each."""
        for algorithm in ALGORITHMS:
            self.addAlgorithm(algorithm())


def configured_command():
    """What the user has set, or nothing."""
    return ProcessingConfig.getSetting(COMMAND) or ""
