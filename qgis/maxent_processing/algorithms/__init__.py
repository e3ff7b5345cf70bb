"""One algorithm for each command of maxent that makes maps or judges them."""

from .change import RangeChange
from .check import Check
from .evaluate import Evaluate
from .explain import Explain
from .fit import Fit
from .project import Project
from .tune import Tune

ALGORITHMS = (Check, Fit, Tune, Project, Evaluate, RangeChange, Explain)
