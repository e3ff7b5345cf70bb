"""What QGIS loads: it brings the provider, and nothing else."""

from qgis.core import QgsApplication

from .provider import MaxentProvider


class MaxentPlugin:
    """Adds the provider to Processing, with a window of QGIS or without one."""

    def __init__(self, iface):
        self.iface = iface
        self.provider = None

    def initProcessing(self):
        """Called by itself where there is no window, as in qgis_process."""
        self.provider = MaxentProvider()
        QgsApplication.processingRegistry().addProvider(self.provider)

    def initGui(self):
        """Called where there is a window."""
        self.initProcessing()

    def unload(self):
        """Take the provider away again."""
        if self.provider is not None:
            QgsApplication.processingRegistry().removeProvider(self.provider)
            self.provider = None
