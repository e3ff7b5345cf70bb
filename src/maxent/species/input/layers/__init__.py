"""Environmental layers: rasters on one grid, and what is read from them.

====================  ============================================================================
``grid.py``           where cells lie; pure arithmetic
``placement.py``      how two grids lie to each other: the same cells, a part, an overlap
``sources.py``        bands of files that GDAL opens
``missing.py``        values for "not known" in files that do not say so
``turning.py``        layers that begin at another meridian
``alignment.py``      one grid for sources that come on several
``array_sources.py``  planes of xarray objects
``naming.py``         layers chosen and named by the user
``dates.py``          names of the layers of a file with time
``areas.py``          square kilometres of cells
``hints.py``          what looks like a slip
``layers.py``         all layers of a region, read one window at a time
``background.py``     the cells that stand for the region
``similarity.py``     how similar another place is to the region
``extrapolation.py``  which combinations of variables it does not have
``units.py``          whether other layers are in the units of those of the fit
====================  ============================================================================
"""
