"""TimeSettings: how a fit is told that records and layers have times."""

from __future__ import annotations

from dataclasses import dataclass

from maxent.species.fitting.options import BACKGROUND, DATA, check_options, option
from maxent.species.input.times.spans import Length


@dataclass(frozen=True)
class TimeSettings:
    """Which dates and times are used, and how; without ``date_column`` a fit has none.

    Parameters
    ----------
    date_column : str, default None
        The column of the dates of records, or those of year, month and day with commas between;
        "auto" recognises eventDate and other common names, else year, month and day. None: records
        and layers have no time.
    layer_times : str, default None
        A .csv table of layer, file, start and end (and band) that says which file is a layer at
        which time; None reads times from names (``tmax_2003.tif``) and from the time axes of
        files.
    window : str, default None
        Take the mean over so many years, months or days that end with the time of the record, as
        "5y" or "6m"; None is the nearest time alone.
    background_times : "records" or "uniform", default "records"
        Draw background at the times of the records, as many at each as its share of them, or as
        many at every time of the layers.
    undated : "drop", "mean" or "refuse", default "drop"
        Records without a date are left out, take the mean of all times, or are an error.
    outside_times : "drop", "nearest" or "refuse", default "drop"
        Records before the first or after the last time of the layers are left out, take the nearest
        time, or are an error.

    Examples
    --------
    >>> TimeSettings("year", window="5 y").length
    Length(number=5, unit='y')
    """

    date_column: str | None = option(
        None,
        "Give each record the layers of its own time, by the dates in this column; auto recognises "
        "eventDate, or year, month and day.",
        DATA,
    )
    layer_times: str | None = option(
        None,
        "Read which file is a layer at which time from this .csv table of layer, file, start, end "
        "[default: from names such as tmax_2003.tif, and from the time axes of files].",
        DATA,
    )
    window: str | None = option(
        None,
        "Take the mean of the layers over this long, such as 5y or 6m, up to the time of the "
        "record.",
        DATA,
    )
    background_times: str = option(
        "records",
        "Draw the background in time like the records, or uniform over the times of the layers.",
        BACKGROUND,
        choices=("records", "uniform"),
    )
    undated: str = option(
        "drop",
        "Records without a date: drop them, give them the mean of all times, or refuse.",
        DATA,
        choices=("drop", "mean", "refuse"),
    )
    outside_times: str = option(
        "drop",
        "Records outside the times of the layers: drop them, take the nearest time, or refuse.",
        DATA,
        choices=("drop", "nearest", "refuse"),
    )

    def __post_init__(self) -> None:
        check_options(self)
        if self.window is not None:
            Length.read(self.window)
        if self.date_column is None:
            for name in ("layer_times", "window", "background_times", "undated", "outside_times"):
                if getattr(self, name) != getattr(type(self), name):
                    raise ValueError(
                        f"{name} has no effect without the dates of records (--date-column)"
                    )

    @property
    def length(self) -> Length | None:
        """The window, read."""
        return None if self.window is None else Length.read(self.window)
