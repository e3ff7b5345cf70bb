"""Pieces of HTML. Text is escaped unless it is :class:`Html` already."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from typing import Any
from urllib.parse import quote

import numpy as np

NONE = "–"  # where there is no number
PERCENT = "\N{NO-BREAK SPACE}%"
_VOID = {"img", "meta", "link"}


class Html(str):
    """Text that is HTML already."""


def element(name: str, /, *content: Any, **attributes: Any) -> Html:
    """An element; attributes that are None are left out, ``class_`` and ``data_x`` are renamed.

    >>> element("p", "a < b", element("em", "c"), class_="note")
    '<p class="note">a &lt; b<em>c</em></p>'
    """
    given = "".join(
        f' {key.strip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Html(f"<{name}{given}>")
    return Html(f"<{name}{given}>{joined(content)}</{name}>")


def joined(parts: Iterable[Any], between: str = "") -> Html:
    """Parts one after the other; None is left out."""
    kept = (part for part in parts if part is not None)
    return Html(between.join(p if isinstance(p, Html) else escape(str(p)) for p in kept))


def link(file: str, text: str | None = None) -> Html:
    """A link to a file beside the page, shown by its name."""
    return element("a", file if text is None else text, href=quote(file))


def resource(name: str) -> Html:
    """A file of this package as it is."""
    return Html(resources.files(__package__).joinpath(name).read_text("utf-8"))


# -- numbers ---------------------------------------------------------------------------------------


def fixed(value: Any, digits: int = 3) -> str:
    """A number with that many decimals, a dash for None and NaN.

    >>> fixed(0.91249), fixed(None), fixed(12345.6, 1)
    ('0.912', '–', '12,345.6')
    """
    if value is None or math.isnan(value):
        return NONE
    rounded = f"{value:,.{digits}f}"
    return rounded.removeprefix("-") if float(rounded.replace(",", "")) == 0 else rounded


def count(value: Any) -> str:
    """A whole number (a weighted count keeps its decimals).

    >>> count(10000), count(2.5)
    ('10,000', '2.5')
    """
    return NONE if value is None or math.isnan(value) else f"{value:,.10g}"


def small(value: Any, digits: int = 0) -> str:
    """A number near 0 in powers of ten.

    >>> small(2.1e-8), small(0.00123, 1), small(0.0)
    ('2e-8', '1.2e-3', '0')
    """
    if value is None or math.isnan(value):
        return NONE
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def probability(value: Any) -> str:
    """A p-value: four decimals, or powers of ten below 0.001.

    >>> probability(0.04321), probability(3.21e-9)
    ('0.0432', '3.2e-9')
    """
    if value is None or math.isnan(value) or value >= 1e-3 or value == 0:
        return fixed(value, 4)
    return small(value, 1)


def percent(part: float, whole: float) -> str:
    r"""A share in words that never round a few to none or most to all.

    >>> percent(1, 3), percent(1, 100_000), percent(99_999, 100_000), percent(0, 5)
    ('33.3\xa0%', 'less than 0.1\xa0%', 'more than 99.9\xa0%', '0\xa0%')
    """
    share = 100 * part / whole if whole else 0.0
    if share in (0, 100):
        return f"{share:.0f}{PERCENT}"
    if share < 0.1:
        return f"less than 0.1{PERCENT}"
    return f"{share:.1f}{PERCENT}" if share <= 99.9 else f"more than 99.9{PERCENT}"


def plain(value: Any) -> str:
    """A setting or a level as text."""
    if value is None:
        return "none"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | float | np.number):
        return f"{value:.10g}"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {plain(part)}" for key, part in value.items()) or "none"
    if isinstance(value, list | tuple | set | np.ndarray):
        return ", ".join(plain(part) for part in value) or "none"
    return str(value)


# -- blocks ----------------------------------------------------------------------------------------


def paragraph(*content: Any, class_: str | None = None) -> Html:
    """A paragraph."""
    return element("p", *content, class_=class_)


def listed(items: Iterable[Any], class_: str | None = None) -> Html:
    """A list with bullets."""
    return element("ul", *(element("li", item) for item in items), class_=class_)


def tiles(given: Iterable[tuple[str, str, str]]) -> Html:
    """Numbers in boxes: what each is, its value, and what it says."""
    boxes = (
        element(
            "div",
            element("dt", name),
            element("dd", value, class_="value"),
            element("dd", says, class_="says"),
        )
        for name, value, says in given
    )
    return element("dl", *boxes, class_="tiles")


def heading(kind: str, species: str, created: str, version: str) -> Html:
    """The head of a page on a species."""
    return element(
        "header",
        element(
            "div",
            paragraph(kind, class_="kind"),
            element("h1", element("em", species)),
            paragraph(f"{created} · maxent {version}", class_="when"),
        ),
        class_="top",
    )


def table(
    caption: str,
    head: Sequence[Any],
    rows: Iterable[Sequence[Any]],
    *,
    right: Iterable[int] = (),
    row_head: int = 0,
    foot: Iterable[Sequence[Any]] = (),
    class_: str | None = None,
) -> Html:
    """A table that scrolls in a box of its own where it is too wide.

    ``right`` are the columns of numbers, ``row_head`` the one that names its row. Without any
    text in ``head`` there is none. With "stacked" in ``class_`` the cells of a row stand below each
    other on a phone, each with the head of its column.
    """
    numbers = set(right)
    stacked = "stacked" in (class_ or "").split()
    labels = [re.sub("<[^>]*>", "", cell) if stacked else None for cell in head]

    def line(cells: Sequence[Any], head_of_row: int | None) -> Html:
        return element(
            "tr",
            *(
                element(
                    "td" if head_of_row not in (None, i) else "th",
                    cell,
                    scope="col" if head_of_row is None else "row" if head_of_row == i else None,
                    class_="n" if i in numbers else None,
                    data_label=labels[i] if head_of_row not in (None, i) else None,
                )
                for i, cell in enumerate(cells)
            ),
        )

    last = [line(row, row_head) for row in foot]
    return element(
        "div",
        element(
            "table",
            element("caption", caption),
            element("thead", line(head, None)) if any(head) else None,
            element("tbody", *(line(row, row_head) for row in rows)),
            element("tfoot", *last) if last else None,
            class_=class_,
        ),
        class_="scroll",
        role="group",
        aria_label=caption,
        tabindex="0",
    )


def bar(
    value: float,
    scale: tuple[float, float],
    kind: str,
    interval: tuple[float, float] | None = None,
    mark: float | None = None,
) -> Html:
    """A horizontal bar from 0 (or the start of the scale) to ``value``.

    ``interval`` is drawn as a whisker and ``mark`` as a line across; the number belongs beside it.
    """
    start, end = scale
    span = (end - start) or 1.0

    def place(a: float, b: float) -> str | None:
        low, high = (100 * min(max((x - start) / span, 0), 1) for x in sorted((a, b)))
        return f"left:{low:.2f}%;width:{high - low:.2f}%"

    pieces = []
    if math.isfinite(value):
        pieces.append(
            element("span", class_=f"fill {kind}", style=place(min(max(0, start), end), value))
        )
    if interval is not None and all(map(math.isfinite, interval)):
        pieces.append(element("span", class_="whisker", style=place(*interval)))
    if mark is not None and math.isfinite(mark):
        pieces.append(element("span", class_="mark", style=place(mark, mark)))
    return element("span", *pieces, class_="bar", aria_hidden="true")


def key(items: Iterable[tuple[str, str]]) -> Html:
    """A legend: a swatch of each colour and what it stands for."""
    return element(
        "ul",
        *(
            element("li", element("span", class_="swatch", style=f"background:{colour}"), text)
            for colour, text in items
        ),
        class_="key",
    )


def document(title: str, body: Html, policy: str) -> bytes:
    """A whole page; ``policy`` says what it may load."""
    head = element(
        "head",
        Html('<meta charset="utf-8">'),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("link", rel="icon", href="data:,"),
        element("title", title),
        element("style", resource("style.css")),
    )
    script = element("script", resource("script.js"))
    page = element("html", head, "\n", element("body", body, "\n", script), lang="en")
    return f"<!DOCTYPE html>\n{page}\n".encode()
