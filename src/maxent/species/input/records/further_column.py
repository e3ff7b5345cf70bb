"""One further column of a file of records, by the rows that records know."""

from __future__ import annotations

from pathlib import Path

from maxent.species.input.records.occurrences import is_vector, read_vector
from maxent.species.input.records.text_table import Table, texts


def read_column(path: str, name: str) -> dict[int, str]:
    """The text of a column in each row of a file, "" where there is none.

    Rows are those of ``Occurrences.row``. Names of columns are compared without regard to case.
    """
    if is_vector(Path(path)):
        frame, _ = read_vector(Path(path))
        header = [str(column) for column in frame.columns]
        values = texts(frame.iloc[:, _position(header, name, path)])
        return dict(enumerate(value.strip() for value in values))
    table = Table.open(Path(path))
    place = _position(table.header, name, path)
    return {
        row: value.strip()
        for rows, (column,) in table.batches([place])
        for row, value in zip(rows, column, strict=True)
    }


def _position(header: list[str], name: str, path: str) -> int:
    folded = [column.strip().lower() for column in header]
    if name.strip().lower() not in folded:
        raise ValueError(f"{path}: no column {name!r}; it has {', '.join(header)}")
    return folded.index(name.strip().lower())
