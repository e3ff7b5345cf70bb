"""The commands on the pages run: a test for each page, all in one folder."""

import shlex
from functools import partial

import pytest
from test_docs import DOCS, PAGES, ROOT, commands, name
from typer.testing import CliRunner

from maxent import cli, datasets
from tools import few_refits

FIRST = DOCS / "species.md"  # the other pages go on with what it fits


def lines(page):
    """The maxent commands of a page, in words."""
    found = (tuple(shlex.split(line, comments=True)) for line in commands(page))
    return [words for words in found if words[:1] == ("maxent",)]


@pytest.fixture(scope="module")
def a_small_place(tmp_path_factory, sketches):
    """A folder with the files that the guides speak of; demonstrations are as small."""
    place = tmp_path_factory.mktemp("place")
    small = partial(datasets.virtual_landscape, height=40, width=50, n_occurrences=60, n_group=300)
    with pytest.MonkeyPatch.context() as patch:
        few_refits(patch)
        patch.setattr("maxent.demo.species.virtual_landscape", small)
        island = small(seed=1)
        datasets.write_landscape(island, place)
        datasets.virtual_visits(island, 200, 60).write(place)
        records = (place / "occurrences.csv").read_text()
        (place / "new-records.csv").write_text(records)
        several = records.splitlines()
        several[30:] = [line.replace(line.split(",")[0], "another", 1) for line in several[30:]]
        (place / "species.csv").write_text("\n".join(several))
        for file in ("train.txt", "test.txt"):
            (place / file).write_text("The DT B-NP\ncat NN I-NP\nsleeps VBZ B-VP\n. . O\n")
        (place / "new.txt").write_text("The DT\ncat NN\n")
        rows = (
            ("1", "The", "the", "DET"),
            ("2", "cat", "cat", "NOUN"),
            ("3", "sits", "sit", "VERB"),
        )
        for file in ("train.conllu", "dev.conllu", "new.conllu"):
            lines_of = ["\t".join((*row, "_", f"Of={row[0]}", *"____")) for row in rows]
            (place / file).write_text("\n".join(["# text = The cat sat", *lines_of, "", ""]))
        # the server of the app would stay until somebody stops it
        patch.setattr("maxent.app.serving.serve", lambda folders, **how: how["tell"]("a link"))
        patch.chdir(place)
        yield place


@pytest.fixture(scope="module")
def run_once(a_small_place):
    """Runs a command that no page has had yet; those of the first page come first."""
    done = set()

    def run(words):
        if words not in done:
            done.add(words)
            result = CliRunner().invoke(cli.main, words[1:])
            assert result.exit_code == 0, f"{shlex.join(words)}\n{result.output}"

    for words in lines(FIRST):
        run(words)
    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in [*PAGES, ROOT / "README.md"] if lines(page)], ids=name
)
def test_commands_on_pages(page, run_once):
    for words in lines(page):
        run_once(words)
