"""Spans of time in whole days: read from texts of dates and from names of layers, and in words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta

FIRST_YEAR, LAST_YEAR = 1500, 2999  # of which records and layers are
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_ISO = re.compile(r"(\d{4})(?:[-/.](\d{1,2})(?:[-/.](\d{1,2}))?)?(?:[T ].*)?")
_COMPACT = re.compile(r"(\d{4})(\d{2})(\d{2})?(?:T.*)?")
_REVERSED = re.compile(r"(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})(?:[T ].*)?")
_WORDS = (  # 15 Jul 2003, Jul 15, 2003 and Jul 2003
    re.compile(r"(?:(?P<d>\d{1,2})(?:st|nd|rd|th)?[ .-]+)?(?P<m>[a-z]{3,9})[ .,-]+(?P<y>\d{4})"),
    re.compile(r"(?P<m>[a-z]{3,9})[ .-]+(?P<d>\d{1,2})(?:st|nd|rd|th)?[ ,.-]+(?P<y>\d{4})"),
)
_AT_END = re.compile(
    r"(?P<base>.*?[^\W_])[\W_]+(?:"
    r"(?P<from>\d{4})[-_](?P<to>\d{4})"
    r"|(?P<y>\d{4})(?:[-_.](?P<m>\d{2})(?:[-_.](?P<d>\d{2}))?)?"
    r"|(?P<yy>\d{4})(?P<mm>\d{2})(?P<dd>\d{2})?"
    r")"
)
_WINDOW = re.compile(r"(\d+)\s*(y|m|d|years?|months?|days?)", re.IGNORECASE)
EXAMPLES = "2003, 2003-07, 2003-07-15 or 2003-07-15T12:00Z"


@dataclass(frozen=True, order=True)
class Span:
    """Days from the first to the one after the last, as ``date.toordinal`` counts them.

    >>> Span.of(2003, 7).days, Span.of(2003).label
    (31, '2003')
    """

    start: int
    end: int

    @classmethod
    def of(cls, year: int, month: int = 0, day: int = 0) -> Span:
        """A year, a month of it, or a day; a month or day of 0 is not known."""
        if not FIRST_YEAR <= year <= LAST_YEAR:
            raise ValueError(f"year {year} is not between {FIRST_YEAR} and {LAST_YEAR}")
        if not month:
            return cls(date(year, 1, 1).toordinal(), date(year + 1, 1, 1).toordinal())
        if not day:
            after = date(year + month // 12, month % 12 + 1, 1)
            return cls(date(year, month, 1).toordinal(), after.toordinal())
        first = date(year, month, day).toordinal()
        return cls(first, first + 1)

    @property
    def days(self) -> int:
        """How many."""
        return self.end - self.start

    @property
    def middle(self) -> float:
        """The middle, in days."""
        return (self.start + self.end) / 2

    @property
    def year(self) -> float:
        """The middle as a year with a fraction."""
        whole = date.fromordinal(int(self.middle)).year
        first, after = date(whole, 1, 1).toordinal(), date(whole + 1, 1, 1).toordinal()
        return whole + (self.middle - first) / (after - first)

    def distance(self, day: float) -> float:
        """Days from a point in time, 0 inside."""
        return max(self.start - day, day - self.end, 0.0)

    def to(self, other: Span) -> Span:
        """From the start of the one to the end of the other, whichever come first and last."""
        return Span(min(self.start, other.start), max(self.end, other.end))

    @property
    def ends(self) -> tuple[str, str]:
        """The first and the last year, month or day, whichever is as short as can be said."""
        first, last = date.fromordinal(self.start), date.fromordinal(self.end - 1)
        after = date.fromordinal(self.end)
        digits = 7 if first.day == after.day == 1 else 10
        digits = 4 if digits == 7 and first.month == after.month == 1 else digits
        return first.isoformat()[:digits], last.isoformat()[:digits]

    @property
    def label(self) -> str:
        """Its ends in words.

        >>> Span.of(2003).to(Span.of(2007)).label, Span.of(2003, 7).to(Span.of(2003, 9)).label
        ('2003-2007', '2003-07 to 2003-09')
        """
        first, last = self.ends
        return (" to " if "-" in first else "-").join(dict.fromkeys((first, last)))


def read_date(text: str) -> Span | None:
    """The span of a date in an order that can only mean one thing; None of any other text.

    Times of day and zones are not looked at: the day is that which was written. Two dates with a
    slash between them are the span from the one to the other.

    >>> read_date("2003-12-31T23:30-05:00").label, read_date("July 2003").label
    ('2003-12-31', '2003-07')
    >>> read_date("2003-07-01/15").label, read_date("03/04/2005")
    ('2003-07-01 to 2003-07-15', None)
    """
    text = text.strip()
    try:
        return _one_date(text) or _interval(text)
    except ValueError:  # no such month or day
        return None


def _one_date(text: str) -> Span | None:
    if match := _ISO.fullmatch(text) or _COMPACT.fullmatch(text):
        year, month, day = (int(part or 0) for part in match.groups())
        return Span.of(year, month, day)
    for pattern in _WORDS:
        match = pattern.fullmatch(text.casefold())
        if match and match["m"][:3] in _MONTHS:
            month = _MONTHS.index(match["m"][:3]) + 1
            return Span.of(int(match["y"]), month, int(match["d"] or 0))
    return None


def _interval(text: str) -> Span | None:
    """Two dates; the second may leave out what it has in common with the first."""
    one, slash, other = text.partition("/")
    first = _one_date(one.strip()) if slash else None
    if first is None:
        return None
    one, other = one.strip().split("T")[0], other.strip()
    short = re.fullmatch(r"\d{1,2}(-\d{1,2})?", other)
    if short and "-" in one:
        kept = one.split("-")[: len(one.split("-")) - other.count("-") - 1]
        other = "-".join([*kept, other])
    last = _one_date(other)
    return first.to(last) if last is not None and last.end >= first.end else None


def read_reversed(text: str) -> tuple[int, int, int] | None:
    """The two numbers before the year, and the year, of a date such as 15/07/2003."""
    match = _REVERSED.fullmatch(text.strip())
    if match is None:
        return None
    one, other, year = map(int, match.groups())
    return one, other, year


def named_time(name: str) -> tuple[str, Span] | None:
    """The name of a layer without the time at its end, and that time; None without one.

    >>> base, span = named_time("tmax_2003-07")
    >>> base, span.label
    ('tmax', '2003-07')
    >>> named_time("bio_1970-2000")[1].label, named_time("bio_12"), named_time("ndvi_20030731")[0]
    ('1970-2000', None, 'ndvi')
    """
    match = _AT_END.fullmatch(name)
    if match is None:
        return None
    part = match.groupdict()
    try:
        if part["from"]:
            span = Span.of(int(part["from"])).to(Span.of(int(part["to"])))
            if int(part["to"]) < int(part["from"]):
                return None
        else:
            numbers = (part["y"] or part["yy"], part["m"] or part["mm"], part["d"] or part["dd"])
            span = Span.of(*(int(number or 0) for number in numbers))
    except ValueError:
        return None
    base = part["base"]
    around = named_time(base)  # as in tmax_2003_2003-07, of a file of a year with its months
    if around is not None and around[1].start <= span.start and span.end <= around[1].end:
        base = around[0]
    return base, span


@dataclass(frozen=True)
class Length:
    """A length of time: so many years, months or days.

    >>> Span(Length.read("5y").before(Span.of(2003).end), Span.of(2003).end).label
    '1999-2003'
    """

    number: int
    unit: str

    @classmethod
    def read(cls, text: str) -> Length:
        """From 5y, 18m or 30d."""
        match = _WINDOW.fullmatch(text.strip())
        if match is None or int(match[1]) < 1:
            raise ValueError(f"window must be years, months or days, such as 5y or 6m, got {text}")
        return cls(int(match[1]), match[2][0].lower())

    def before(self, day: int) -> int:
        """The day that lies so far before another."""
        if self.unit == "d":
            return day - self.number
        then = date.fromordinal(day)
        months = then.year * 12 + then.month - 1 - self.number * (12 if self.unit == "y" else 1)
        year, month = divmod(months, 12)
        first = date(year, month + 1, 1)
        after = date(year + (month + 1) // 12, (month + 1) % 12 + 1, 1)
        return min(first + timedelta(days=then.day - 1), after - timedelta(days=1)).toordinal()

    def __str__(self) -> str:
        words = {"y": "year", "m": "month", "d": "day"}[self.unit]
        return f"{self.number} {words}" + ("s" if self.number > 1 else "")
