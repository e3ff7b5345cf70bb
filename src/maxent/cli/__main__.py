"""python -m maxent.cli."""

from maxent.cli import main

main()
