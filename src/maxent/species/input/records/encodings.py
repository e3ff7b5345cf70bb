"""Which encoding the bytes of a table are in, where nothing states it."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable

_WORD = re.compile(rb"[A-Za-z\x80-\xff]*[\x80-\xff][A-Za-z\x80-\xff]*")
_WORDS = 5000  # distinct ones that are looked at
_SHOWN = 3
_NAMES = {"cp1252": "Windows-1252", "mac-roman": "Mac Roman", "latin-1": "Latin-1"}
_OUTSIDE_CP1252 = bytes([0x81, 0x8D, 0x8F, 0x90, 0x9D])
_APOSTROPHE, _FLORIN = "\u2019", "\u0192"
_OPENING, _CLOSING = "\u201c\u2018\u00ab\u00a1\u00bf", "\u201d\u2019\u00bb"
_DASHES = "\u2013\u2014\u2018"  # and what joins names


def utf8(chunks: Iterable[bytes]) -> bool:
    """Whether bytes are UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for chunk in chunks:
            decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def one_byte(chunks: Iterable[bytes]) -> tuple[str, str]:
    """The likeliest encoding of one byte per character, and what to say of it.

    Windows-1252 unless it has no such bytes, or its words read better as Mac Roman; where neither
    is it, Latin-1, which reads any byte.

    >>> one_byte([bytes([0x8E]) + b"i" + bytes([0x9E]) + b"kov"])[0]
    'cp1252'
    >>> one_byte(["Espa\u00f1a;M\u00fcnchen".encode("mac-roman")])[0]
    'mac-roman'
    """
    words: dict[bytes, None] = {}
    undefined = False
    for chunk in chunks:
        undefined |= any(byte in chunk for byte in _OUTSIDE_CP1252)
        if len(words) < _WORDS:
            words |= dict.fromkeys(_WORD.findall(chunk))
    found = list(words)[:_WORDS]
    candidates = ["latin-1" if undefined else "cp1252", "mac-roman"]
    best = max(candidates, key=lambda name: sum(_sense(word.decode(name)) for word in found))
    read = [word.decode(best) for word in found]
    shown = ", ".join(repr(word) for word in sorted(read, key=_sense, reverse=True)[:_SHOWN])
    return best, (
        f"not UTF-8; read as {_NAMES[best]} ({best}), with words such as {shown}: if they are "
        "wrong, save the table as UTF-8"
    )


def _sense(word: str) -> int:
    """How much like a word this is: letters of one case, capitals in front, no symbols inside."""
    score = 0
    for i, letter in enumerate(word):
        if letter.isascii():
            continue
        before, after = word[i - 1 : i] if i else "", word[i + 1 : i + 2]
        inside = before.isalpha() and after.isalpha()
        if (letter.isupper() or letter.islower()) and letter != _FLORIN:
            # "caf\u017d": a capital after a small letter, "Nord\u00f1Sud": one after this
            lone = (letter.isupper() and before.islower()) or (letter.islower() and after.isupper())
            odd = letter.isupper() and before.isupper() and after.islower()
            score += -1 if lone or odd else 1
        elif letter == _APOSTROPHE and inside:
            score += 1
        elif letter in _OPENING + _CLOSING and not inside:
            score += 1 if (after if letter in _OPENING else before).isalpha() else -1
        elif not letter.isprintable():
            score -= 3
        elif inside and letter not in _DASHES:
            score -= 1
    return score
