"""Structured maps and losses for torch: the domains of ``maxent.structured`` as layers."""

__all__: list[str] = []
