"""Which columns of a table hold what: by their names, else by what is in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from maxent.species.input.records.text_table import MISSING, is_number

# names of columns in lower case without spaces and marks, the likeliest first; a shapefile cuts
# names to ten characters
SPECIES_NAMES = (
    "species",
    "scientificname",
    "scientific",
    "taxon",
    "taxonname",
    "speciesname",
    "speciesnam",
    "binomial",
    "name",
)
_LONGITUDE = (
    *("decimallongitude", "longitude", "long", "lon", "lng", "ddlong", "ddlon"),
    *("decimallon", "longitud"),
)
_LATITUDE = ("decimallatitude", "latitude", "lat", "ddlat", "decimallat", "latitud")
X_NAMES = (*_LONGITUDE, "x", "xcoord", "easting", "xcoordinate", "coordx", "pointx", "utmx")
Y_NAMES = (*_LATITUDE, "y", "ycoord", "northing", "ycoordinate", "coordy", "pointy", "utmy")
PRESENCE_NAMES = (
    "occurrencestatus",
    "presenceabsence",
    "presabs",
    "prab",
    "presence",
    "occurrence",
    "present",
    "pa",
    "occ",
)
_DATUM = ("geodeticdatum", "datum", "crs")
_UNCERTAINTY = ("coordinateuncertaintyinmeters", "coordinateuncertainty", "coordinate")
_BASIS = ("basisofrecord", "basisofrec")
_FLAGS = ("issue", "issues", "flags")
_LICENCE = ("license", "licence")
_DATASET = ("datasetkey", "datasetid", "datasetname")
# text that is not a name of a species, in tables of records
_OTHER_TEXT = {
    *("basisofrecord", "basisofrec", "geometry", "wkt", "geom", "habitat", "sex", "lifestage"),
    *("country", "countrycode", "continent", "stateprovince", "state", "province", "county"),
    *("municipality", "locality", "location", "site", "siteid", "place", "region", "island"),
    *("date", "eventdate", "time", "year", "month", "day", "dateidentified", "lastinterpreted"),
    *("recordedby", "identifiedby", "collector", "observer", "institutioncode", "collectioncode"),
    *("catalognumber", "datasetname", "datasetkey", "source", "license", "rightsholder", "issue"),
    *("kingdom", "phylum", "class", "order", "family", "genus", "taxonrank", "mediatype"),
    *("id", "key", "url", "link", "remarks", "notes", "comment", "comments", "reference"),
}

COUNT_NAMES = (
    *("individualcount", "count", "counts", "abundance", "individuals", "ncounted"),
    *("numberofindividuals", "nindividuals", "organismquantity", "number", "n"),
)
_MAYBE_COUNTS = {"number", "n"}  # which may as well number the rows
SPECIES_OPTION = "species= (--species-column)"
PRESENCE_OPTION = "presence= (--presence-column)"
NO_COLUMN = "none"  # given as a column: there is none
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}([-/.]\d{1,4})?([T ].*)?")


class Columns(NamedTuple):
    """Positions of the columns in use, None where a table has none.

    ``degrees``: the names say longitude and latitude; ``pooled``: why there is no column of
    species; ``notes``: what was guessed.
    """

    species: int | None
    x: int | None
    y: int | None
    datum: int | None = None
    presence: int | None = None
    uncertainty: int | None = None
    basis: int | None = None
    degrees: bool = False
    pooled: str = ""
    notes: tuple[str, ...] = ()
    flags: int | None = None
    licence: int | None = None
    dataset: int | None = None
    individuals: int | None = None

    def texts(self) -> list[int]:
        """Those that are read as text, each once."""
        used = (self.species, self.datum, self.presence, self.uncertainty, self.basis)
        wanted = (*used, self.flags, self.licence, self.dataset, self.individuals)
        return list(dict.fromkeys(column for column in wanted if column is not None))

    def described(self, header: Sequence[str]) -> str:
        """In words, which columns hold the names and the places."""
        names = self.pooled or f"species from column {header[self.species or 0]!r}"
        if self.x is None or self.y is None:
            return f"{names}, places from the geometry"
        return f"{names}, x from {header[self.x]!r}, y from {header[self.y]!r}"


class Asked(NamedTuple):
    """Names of columns that were given, None for those to be recognised."""

    species: str | None = None
    x: str | None = None
    y: str | None = None
    presence: str | None = None


def bare(name: str) -> str:
    """A name in lower case, letters and digits only."""
    return "".join(c for c in name.casefold() if c.isalnum())


def recognised(header: Sequence[str], names: Sequence[str]) -> int | None:
    """The column with the first of these names (bare: lower case, letters and digits)."""
    given = [bare(name) for name in header]
    return next((given.index(name) for name in names if name in given), None)


def named(header: Sequence[str], name: str, option: str, where: str) -> int:
    """The column of a name that was given."""
    if name in header:
        return list(header).index(name)
    position = recognised(header, [bare(name)])
    if position is None:
        raise ValueError(
            f"{where}: no column {name!r}, as {option} says; the columns are {listed(header)}"
        )
    return position


def listed(names: Sequence[str], limit: int = 20) -> str:
    """Names in quotation marks, the first of them where there are many."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(repr(str(name)) for name in names[:limit]) + more


def chosen_columns(
    header: Sequence[str],
    where: str,
    asked: Asked,
    peek: Callable[[int], list[str]],
    *,
    geometry: bool = False,
) -> Columns:
    """The columns of a table of records.

    ``peek`` gives the first entries of a column as texts; with a ``geometry`` places need none.
    """
    east = north = None
    if not geometry:
        east, north = (
            recognised(header, known) if name is None else named(header, name, option, where)
            for name, option, known in (
                (asked.x, "x= (--x)", X_NAMES),
                (asked.y, "y= (--y)", Y_NAMES),
            )
        )
    given = _given(header, asked.species, SPECIES_OPTION, where)
    name = given if given is not None else recognised(header, SPECIES_NAMES)
    nothing = name is None and east is None and north is None and asked.species is None
    if nothing and not geometry and len(header) == 3 and _numbers(peek, 1) and _numbers(peek, 2):
        return Columns(0, 1, 2)
    if not geometry and (east is None or north is None):
        lacking = [f"{o} (--{o})" for o, column in (("x", east), ("y", north)) if column is None]
        raise ValueError(
            f"{where}: no column recognised for {' and '.join(lacking)}; the columns are "
            f"{listed(header)}. Name those of longitude and latitude with x= and y= (--x, --y)"
        )
    presence, notes = presence_column(header, where, asked, name, peek)
    if asked.species == NO_COLUMN and given is None:
        name, pooled = None, "all of one species, named after the file"
    else:
        name = None if name == presence else name
        pooled = ""
        if name is None:
            taken = {east, north, presence, recognised(header, _DATUM)}
            name, said, pooled = _guessed_species(header, where, taken, peek)
            notes += said
    return Columns(
        name,
        east,
        north,
        recognised(header, _DATUM),
        presence,
        recognised(header, _UNCERTAINTY),
        recognised(header, _BASIS),
        east is not None
        and north is not None
        and bare(header[east]) in _LONGITUDE
        and bare(header[north]) in _LATITUDE,
        pooled,
        notes,
        recognised(header, _FLAGS),
        recognised(header, _LICENCE),
        recognised(header, _DATASET),
        _count_column(header) if presence is None and asked.presence is None else None,
    )


def _count_column(header: Sequence[str]) -> int | None:
    """The column of individuals, where no other says presence and absence."""
    return recognised(header, [name for name in COUNT_NAMES if name not in _MAYBE_COUNTS])


def _given(header: Sequence[str], name: str | None, option: str, where: str) -> int | None:
    """The column asked for, if any was."""
    if name is None or (name == NO_COLUMN and name not in header):
        return None
    return named(header, name, option, where)


def _numbers(peek: Callable[[int], list[str]], column: int) -> bool:
    return is_number(peek(column)[0].replace(",", ".", 1))


def presence_column(
    header: Sequence[str],
    where: str,
    asked: Asked,
    species: int | None,
    peek: Callable[[int], list[str]],
) -> tuple[int | None, tuple[str, ...]]:
    """The column of presence and absence, which may go by the name of species."""
    if asked.presence is not None:
        return _given(header, asked.presence, PRESENCE_OPTION, where), ()
    bares = [bare(name) for name in header]
    for name in PRESENCE_NAMES:
        if name in bares and is_status(peek(bares.index(name))):
            return bares.index(name), ()
    if species is not None and asked.species is None and set(peek(species)) == {"0", "1"}:
        return species, (
            f"{where}: column {header[species]!r} holds 0 and 1: taken as absence and presence, "
            f"not as names (name the column of names with {SPECIES_OPTION})",
        )
    return None, ()


PRESENT = {"present", "presence", "true", "yes", "1", "1.0"}
ABSENT = {"absent", "absence", "false", "no", "0", "0.0"}


def is_status(values: Sequence[str]) -> bool:
    """Whether all entries say presence or absence."""
    known = {value.strip().casefold() for value in values} - MISSING
    return bool(known) and known <= PRESENT | ABSENT


def _guessed_species(
    header: Sequence[str], where: str, taken: set[int | None], peek: Callable[[int], list[str]]
) -> tuple[int | None, tuple[str, ...], str]:
    """The first column of text that may hold names; what to say of it, or of there being none."""
    free = [j for j in range(len(header)) if j not in taken and bare(header[j]) not in _OTHER_TEXT]
    texts = [j for j in free if _are_names(peek(j))]
    if not texts:
        return (
            None,
            (),
            "all of one species, named after the file, as no column of species was found among "
            f"{listed(header)} (name it with {SPECIES_OPTION})",
        )
    first, others = texts[0], [header[j] for j in texts[1:]]
    example = next(v.strip() for v in peek(first) if v.strip().casefold() not in MISSING)
    also = f"; other columns of text are {listed(others, 5)}" if others else ""
    return (
        first,
        (
            f"{where}: no column has a usual name for species; taken is {header[first]!r}, the "
            f"first column of text (such as {example!r}){also}. Name another one with "
            f"{SPECIES_OPTION}, or {NO_COLUMN!r} where all records are of one species",
        ),
        "",
    )


def _are_names(values: Sequence[str]) -> bool:
    """Whether entries may be names of species: text, no dates, and some of them repeated."""
    known = [v.strip() for v in values if v.strip().casefold() not in MISSING]
    if not known or all(is_number(v) for v in known) or all(_DATE.fullmatch(v) for v in known):
        return False
    return len(known) < 3 or len(set(known)) < len(known)
