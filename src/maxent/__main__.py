"""python -m maxent."""

from maxent._command import run

run()
