"""Maxent for the Processing toolbox of QGIS: species distributions, fitted by the command `maxent`."""


def classFactory(iface):  # noqa: N802, as QGIS calls it
    """The plugin, as QGIS asks for it."""
    from .plugin import MaxentPlugin

    return MaxentPlugin(iface)
