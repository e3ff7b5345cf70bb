"""How alike the niches of two species are, and whether chance would make them so.

===================  ===============================================================================
``comparison.py``    the two species compared: overlap, tests, tables
``data.py``          records, background and layers of two fits, read again
``null_tests.py``    an observed overlap beside a null distribution
``geography.py``     tests on the map, by models that are fitted again (Warren et al. 2008)
``environment.py``   niches as densities on two principal components (Broennimann et al. 2012)
``files.py``         tables, JSON and pictures
===================  ===============================================================================
"""
