"""What a process may set before it compiles; numba is not loaded for it."""

from __future__ import annotations

from collections.abc import Callable

# what a command does before the first kernel of its process is compiled, given the cache's folder
# or None; here, so that a command can set it without loading numba
before_compiling: Callable[[str | None], object] | None = None

# whether small problems do without kernels where compiling them would take longer; ``maxent warm``
# turns it off, to compile what larger problems need
spare_small_problems = True
