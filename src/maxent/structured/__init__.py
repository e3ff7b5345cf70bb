"""Structured domains: polytopes whose oracles are dynamic programmes. Simple ones are here too."""

from maxent import domains
from maxent.domains import *  # noqa: F403
from maxent.structured.arborescence import Arborescence
from maxent.structured.chain import Chain

__all__ = ["Arborescence", "Chain", *domains.__all__]
