"""Names from data never become formulas, markup, mathematics or the names of our own files."""

import csv
import warnings

import pytest
from rich.markup import escape
from rich.table import Table

from maxent._support.progress import Progress
from maxent.cli._console import complain, console
from maxent.cli.command import info
from maxent.evaluation import calibration
from maxent.features.kernels.scores import fill_guide
from maxent.species.batch.slugs import slugs
from maxent.species.judging.scoring import write_scores
from maxent.species.report.index import write_index
from maxent.species.report.tables.text import csv_bytes


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_no_cell_of_a_table_begins_like_a_formula(start, tmp_path):
    name = f'{start}HYPERLINK("http://example.org")'
    table = csv_bytes([name, "x"], [[name, "-1.5"], [-1.5, "-1e5"]]).decode()
    header, first, second = csv.reader(table.splitlines(keepends=True), strict=True)
    assert header == [f"'{name}", "x"]
    assert first == [f"'{name}", "-1.5"]
    assert second == ["-1.5", "-1e5"]
    write_scores({"species": name, "auc": -0.5}, tmp_path / "scores.csv")
    with open(tmp_path / "scores.csv", newline="") as file:
        assert list(csv.DictReader(file)) == [{"species": f"'{name}", "auc": "-0.5"}]


def test_the_index_says_what_it_may_load(tmp_path):
    page = write_index([{"species": "Acer", "status": "ok"}], tmp_path).read_text()
    assert 'http-equiv="Content-Security-Policy"' in page
    assert "default-src &#x27;none&#x27;; img-src &#x27;self&#x27; file: data:" in page


def test_a_species_is_not_written_over_the_files_of_all():
    chosen = slugs(["index.html", "Index.HTML", "maxentResults.csv", "tuning.json", "Acer"])
    assert set(chosen.values()).isdisjoint({"index.html", "maxentResults.csv", "tuning.json"})
    assert chosen["Acer"] == "Acer"


def test_dollars_in_a_name_are_no_mathematics(tmp_path):
    told = calibration([0.9, 0.4], [0.1, 0.6])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_scores({"species": r"A $\frac{$ b", "calibration": told}, tmp_path / "scores.csv")
    assert (tmp_path / "scores_calibration.png").read_bytes().startswith(b"\x89PNG")


def test_a_terminal_gets_no_control_characters_of_a_name(capsys, monkeypatch):
    name = "Acer \x1b]0;owned\x07 \x9b2J"
    table = Table()
    table.add_column("species")
    table.add_row(escape(name))
    console().print(table)
    console().print(escape(name))
    complain(name)
    progress = Progress("fit")
    progress.begin = progress.last = -1000.0
    progress.update(name)
    told = capsys.readouterr()
    for text in (told.out, told.err):
        assert r"\x1b]0;owned\x07 \x9b2J" in text
        assert not any(c in text for c in "\x1b\x07\x9b")


def test_progress_without_a_standard_error(monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    progress = Progress("fit")
    progress.begin = progress.last = -1000.0
    progress.update("half")
    progress.close()


def test_info_shows_where_the_kernels_are(capsys, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    info()
    shown = "".join(capsys.readouterr().out.split())
    assert "".join(str(fill_guide.stats.cache_path).split()) in shown
