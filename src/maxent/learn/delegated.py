"""Fitted attributes that an estimator reads from what its fit has made."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class Delegated(property, Generic[T]):
    """The attribute of an estimator that a path of names leads to, ``"density_.schema"``."""

    def __init__(self, path: str, document: str) -> None:
        first, _, rest = path.partition(".")
        read = attrgetter(rest)

        def value(estimator: Any) -> Any:
            if not hasattr(estimator, first):
                name = type(estimator).__name__
                raise AttributeError(f"{name} is not fitted yet: call fit first")
            return read(getattr(estimator, first))

        super().__init__(value, doc=document)

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: type, /) -> Self: ...
        @overload
        def __get__(self, instance: Any, owner: type | None = None, /) -> T: ...
        def __get__(self, instance: Any, owner: type | None = None, /) -> Any: ...
