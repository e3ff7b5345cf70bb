"""Structured domains: polytopes whose oracles are dynamic programmes. Simple ones are here too."""

from maxent import domains
from maxent.domains import *  # noqa: F403
from maxent.structured.chain import Chain
from maxent.structured.transport import Birkhoff, Transport

__all__ = ["Birkhoff", "Chain", "Transport", *domains.__all__]
