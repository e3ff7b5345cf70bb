"""Text for a terminal, whatever names the data hold."""

from __future__ import annotations

_CONTROLS = (code for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t")
_VISIBLE = {code: f"\\x{code:02x}" for code in _CONTROLS}


def printable(text: str) -> str:
    r"""Text whose control characters, which a terminal would obey, are written out.

    >>> print(printable("Acer \x1b[2J"))
    Acer \x1b[2J
    """
    return text.translate(_VISIBLE)
