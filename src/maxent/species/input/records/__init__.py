"""Occurrence records: read, brought to the grid of the layers, and cleaned.

==================  ==============================================================================
``text_table.py``   text tables on disk, whatever their delimiter
``encodings.py``    which encoding a table is in
``archives.py``     Darwin Core archives and GBIF's downloads, with their citation and licences
``columns.py``      which columns hold what
``names.py``        spellings of one name
``selection.py``    which records are used: presences, by basis and uncertainty
``rows.py``         records left out by hand
``occurrences.py``  records of species, from tables and vector files
``locating.py``     records in the coordinate reference system of the layers
``cleaning.py``     what a fit cannot use is taken out
``doubts.py``       places that are doubtful: 0, 0, capitals, centroids (``places.csv``)
``swd.py``          samples with data: tables that need no rasters
==================  ==============================================================================
"""
