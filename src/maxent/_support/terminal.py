"""Text for a terminal, whatever names the data hold and whatever went wrong."""

from __future__ import annotations

import traceback
from pathlib import Path

FAILED, PARTLY, INTERRUPTED = 1, 3, 130  # exit codes; 2, wrong usage, is typer's
CAUTION = "caution: "  # how a note begins that nobody should miss

# what the interpreter raises where the code is wrong: its words mean nothing to a user
_SLIPS = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError)
_CONTROLS = (code for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t")
_VISIBLE = {code: f"\\x{code:02x}" for code in _CONTROLS}


def printable(text: str) -> str:
    r"""Text whose control characters, which a terminal would obey, are written out.

    >>> print(printable("Acer \x1b[2J"))
    Acer \x1b[2J
    """
    return text.translate(_VISIBLE)


def in_words(error: BaseException) -> str:
    """An error in one line; of a system error the words, of a slip in the code where it is.

    >>> in_words(OSError(28, "No space left on device", "out/map.tif"))
    'out/map.tif: No space left on device'
    >>> in_words(ValueError("two\\nlines"))
    'two lines'
    >>> in_words(MemoryError())
    'not enough memory'
    """
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if isinstance(error, OSError) and error.filename and str(error.filename) not in text:
        text = f"{error.filename}: {text}"
    if isinstance(error, MemoryError):
        text = f"not enough memory{text and ': '}{text}"
    elif isinstance(error, _SLIPS) or type(error).__module__.startswith("numba."):
        lines = [line for line in text.splitlines() if line.strip()]
        text = (
            f"a fault of maxent ({type(error).__name__}: {lines[0] if lines else ''}"
            f"{_place(error)}); `maxent --debug` shows all of it, please report it"
        )
    return " ".join(text.split()) or type(error).__name__


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f", {Path(frames[-1].filename).name} line {frames[-1].lineno}" if frames else ""
