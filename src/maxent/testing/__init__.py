"""The mathematics of the library as checks: one line tests an own class.

>>> from maxent.testing import check_entropy
>>> from maxent import Tsallis
>>> check_entropy(Tsallis(1.7), size=4)
"""

from maxent.testing.domains import check_domain
from maxent.testing.entropies import check_entropy
from maxent.testing.families import check_family
from maxent.testing.inside import check_inside
from maxent.testing.potentials import check_potential
from maxent.testing.solvers import check_solver

__all__ = [
    "check_domain",
    "check_entropy",
    "check_family",
    "check_inside",
    "check_potential",
    "check_solver",
]
