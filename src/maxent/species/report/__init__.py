"""Reports: one self-contained page per species, an index of many, and a map for a slide."""

from maxent.species.report.figures import tree_png
from maxent.species.report.index import write_index
from maxent.species.report.maps import write_map_png
from maxent.species.report.page import write_report

__all__ = ["tree_png", "write_index", "write_map_png", "write_report"]
