"""Projection: a fitted density drawn on layers, every map in one pass at constant memory.

==============  ==================================================================================
``drawing.py``  windows read and scored in threads, written or kept in order
``plan.py``     what is drawn at the cells of a window
``geotiff.py``  files that appear whole, all of them or none
==============  ==================================================================================
"""

from maxent.species.projecting.drawing import project, project_xarray
from maxent.species.projecting.plan import EXTRAS

__all__ = ["EXTRAS", "project", "project_xarray"]
