"""CSV files of a fit: maxent.jar's under its column names, and the numbers behind the report.

=================================  ===========================================================
``maxentResults.csv``              one row per species and replicate, and their average
``<species>_omission.csv``         omission and area at every threshold
``<species>_samplePredictions``    the three predictions at every record
``<species>_sampleAverages.csv``   mean of each variable over the training records
``thresholds.csv`` ...             threshold rules, response curves, importance, jackknife,
                                   replicates and coefficients, one table each
``odmap.csv``                      the model as the ODMAP protocol describes one
=================================  ===========================================================

Numbers have ten digits; what is not known is empty. Files are UTF-8 and replaced in one step.
"""

from maxent.species.report.tables.fit_tables import write_tables
from maxent.species.report.tables.jar_results import (
    RESULTS,
    results_row,
    results_rows,
    write_results,
)

__all__ = ["RESULTS", "results_row", "results_rows", "write_results", "write_tables"]
