"""Domains as arguments of operators: the object itself, or a text that makes it again."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

from maxent import io
from maxent.core.domains import Domain
from maxent.torch._operators import constant, runs_here
from torch import Tensor


def domain_argument(domain: Domain, theta: Tensor) -> Any:
    """The domain where operations run at once; its text where they are recorded."""
    return domain if runs_here(theta) else _text(domain)


def domain_of(given: Any) -> Any:
    """The domain of an argument."""
    return _read(given) if isinstance(given, str) else given


@constant
def _text(domain: Domain) -> str:
    try:
        return io.as_text(domain)
    except AttributeError as error:
        raise ValueError(
            "torch.compile does not see a domain that is made within what is compiled: make it "
            "outside"
        ) from error


@lru_cache(maxsize=64)
def _read(text: str) -> Domain:
    return cast(Domain, io.of_text(text))
