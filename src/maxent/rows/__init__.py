"""Where the scores theta and the distributions p of a problem live, and sums over them.

``Evaluator.at(entropy, w)`` gives the ``Evaluation`` at some weights: arrays in memory
(``maxent.rows.local``), or blocks in files and on the workers of a cluster (``maxent.blocks``). No
other room asks which of them it is.
"""

from maxent.rows.evaluator import Evaluation, Evaluator, Line
from maxent.rows.local import LocalEvaluation, LocalEvaluator
from maxent.rows.moved import Moved

__all__ = ["Evaluation", "Evaluator", "Line", "LocalEvaluation", "LocalEvaluator", "Moved"]
