"""The exact relaxation path of maximum entropy problems (Dubiner and Singer)."""

from maxent.relaxation.path import Active, RelaxationPath
from maxent.relaxation.single import solve_relaxed

__all__ = ["Active", "RelaxationPath", "solve_relaxed"]
