"""Times: dates of records, times of layers, and which of the one belong to the other.

====================  ============================================================================
``spans.py``          texts of dates as spans of days, and names of layers that end in one
``record_dates.py``   the dates of a file of records: their columns, their formats
``series.py``         layers that are one variable at several times
``dated_layers.py``   such layers, one time opened at once, and the time of each record
``settings.py``       what a fit in time is told
``timing.py``         how time was treated, for the model and the report
====================  ============================================================================
"""
