"""Settings chosen by cross-validation: a table of statistics, a rule that chooses, null models.

=================  ===============================================================================
``partitions``     folds: blocks, checkerboards, random, jackknife, or the user's own
``candidates``     every combination fitted and scored
``choice``         rules by which one of them is chosen
``nulls``          what the chosen one is worth beside models of random places
``files``          from files to a table, a picture and a page
=================  ===============================================================================
"""

from maxent.species.fitting.tuning.files import Tuned, Tuning, tune, tune_files

__all__ = ["Tuned", "Tuning", "tune", "tune_files"]
