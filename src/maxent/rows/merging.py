"""Parts of an answer put together, in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

Part = TypeVar("Part")


def merged(parts: Iterable[Part | None], merge: Callable[[Part, Part], Part]) -> Part | None:
    """All parts as one, merged in a balanced tree; None is a part without content.

    Of n parts it holds log2(n) at a time, so they may come one by one.

    >>> merged(iter("abc"), lambda one, other: one + other)
    'abc'
    """
    waiting: list[tuple[int, Part]] = []  # merged parts, of fewer and fewer parts each
    for part in parts:
        if part is None:
            continue
        count = 1
        while waiting and waiting[-1][0] == count:
            count, part = 2 * count, merge(waiting.pop()[1], part)
        waiting.append((count, part))
    if not waiting:
        return None
    _, whole = waiting.pop()
    while waiting:
        whole = merge(waiting.pop()[1], whole)
    return whole
