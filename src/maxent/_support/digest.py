"""The digest of a model file: of what its JSON says, however it is laid out.

Two texts have the same digest where they hold the same names, texts and numbers: the order of keys,
white space, escapes and the spelling of a number (``1``, ``1.0``, ``1e0``) do not matter.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

FIELD = "digest"
_KIND = "sha256:"


def digest_of(document: dict[str, Any]) -> str:
    """The digest of a document but for the field that holds it.

    >>> digest_of({"a": 1.0, "b": [0.1]}) == digest_of({"b": [0.1], "a": 1, "digest": "..."})
    True
    >>> digest_of({"a": 1.0}) == digest_of({"a": 1.0000000000000002})
    False
    """
    content = {name: _plain(value) for name, value in document.items() if name != FIELD}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return _KIND + hashlib.sha256(text.encode()).hexdigest()


def _plain(x: Any) -> Any:
    """Numbers without a fraction as integers, but for -0.0: other programs write 1.0 as 1."""
    if isinstance(x, float):
        return int(x) if x.is_integer() and (x or math.copysign(1, x) > 0) else x
    if isinstance(x, list):
        return [_plain(item) for item in x]
    if isinstance(x, dict):
        return {name: _plain(item) for name, item in x.items()}
    return x
