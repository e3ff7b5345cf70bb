"""python -m maxent.cli."""

from maxent._command import run

run()
