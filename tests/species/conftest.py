"""Set-ups that the tests of species share."""

import pytest


@pytest.fixture
def run():
    """The command, with its arguments as one would type them."""
    from typer.testing import CliRunner

    from maxent import cli

    return lambda *args: CliRunner().invoke(cli.main, [str(a) for a in args])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with the records and layers of a small landscape that was made up."""
    from maxent.datasets.landscape import virtual_landscape, write_landscape

    folder = tmp_path_factory.mktemp("landscape")
    write_landscape(virtual_landscape(height=30, width=40, n_occurrences=60, seed=3), folder)
    return folder
