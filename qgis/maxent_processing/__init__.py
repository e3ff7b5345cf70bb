"""Maxent for the Processing toolbox of QGIS: species distributions by a command."""


def classFactory(iface):
    """The plugin, as QGIS asks for it."""
    from .plugin import MaxentPlugin

    return MaxentPlugin(iface)
