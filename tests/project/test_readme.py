"""README, benchmark page and guides show what the tracked results say; the citation is current."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

import maxent
from tools import needs

ROOT = Path(__file__).parents[2]


@pytest.fixture
def benchmarks(monkeypatch):
    """The script that writes the tables."""
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    from benchmarks import readme

    return readme


def rows_of(text, name):
    """The lines of a generated table, without its head."""
    table = text.split(f"<!-- {name}: start -->")[1].split(f"<!-- {name}: end -->")[0]
    return [line for line in table.splitlines() if line.startswith("|")][2:]


def test_tables_are_generated_from_the_results(benchmarks):
    text = benchmarks.README.read_text()
    assert benchmarks.updated(text) == text
    assert benchmarks.PAGE in benchmarks.GUIDES
    for page in benchmarks.GUIDES:
        text = (ROOT / page).read_text()
        assert benchmarks.updated_guide(page, text) == text, page


def test_the_readme_is_short_and_has_a_picture(benchmarks):
    text = benchmarks.README.read_text()
    assert len(text.splitlines()) <= 130
    assert len(rows_of(text, "benchmarks")) == 3
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert len(pictures) == 1
    assert (ROOT / pictures[0]).exists()


def test_files_that_the_readme_links_to_are_there(benchmarks):
    links = re.findall(r"\]\(([^)#]+)\)", benchmarks.README.read_text())
    assert "CONTRIBUTING.md" in links
    for link in links:
        assert (ROOT / link).exists(), link


def test_the_first_screen_installs_and_shows_a_result(benchmarks):
    screen = "\n".join(benchmarks.README.read_text().splitlines()[:32])
    installs, shows = screen.index('pip install "maxent[app]"'), screen.index("](docs/_static/")
    assert installs < shows < screen.index("make demo ") < screen.index("make test ")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert all(f"`{extra}`" in screen for extra in extras)


def test_the_readme_counts_every_comparison(benchmarks):
    """Losses cannot be left out: each part is in one line, and the script finds the worst."""
    parts = [part for parts in benchmarks.LINES.values() for part in parts]
    assert sorted(parts) == sorted(benchmarks.PARTS)
    rows = rows_of(benchmarks.README.read_text(), "benchmarks")
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == list(benchmarks.LINES)
    for row, parts in zip(rows, benchmarks.LINES.values(), strict=True):
        here = [one for part in parts for one in benchmarks._of_part(part)[0]]
        assert f" ({len(here)}) | {benchmarks.times(min(one.ratio for one in here))} beside " in row
    assert re.search(r"\| 0\.\d+ x beside", "\n".join(rows)), "no line in which a peer is faster?"


def test_the_table_of_the_page_shows_the_worst_of_each_part(benchmarks):
    rows = rows_of((ROOT / benchmarks.PAGE).read_text(), "summary")
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == list(benchmarks.PARTS)
    for row, part in zip(rows, benchmarks.PARTS, strict=True):
        here, targets = benchmarks._of_part(part)
        if here:
            worst = min(one.ratio for one in here)
            assert f"| {benchmarks.times(worst)} beside " in row
        assert f"| {sum(t.met for t in targets)} of {len(targets)} |" in row
    text = "\n".join(rows)
    assert re.search(r"\| 0\.\d+ x beside", text), "no part in which a peer is faster?"


def test_the_benchmark_page_has_every_result(benchmarks):
    text = (ROOT / benchmarks.PAGE).read_text()
    elsewhere = {"faults", "faults_app"}  # on the page about reliability
    for file in sorted((ROOT / "benchmarks" / "results").glob("*.csv")):
        shown = f"<!-- {file.stem}: start -->" in text or f"results/{file.name}" in text
        assert shown or file.stem in elsewhere, file.name
    suites = {suite for suites in benchmarks.PARTS.values() for suite in suites}
    for suite in suites:
        for row in benchmarks._rows(suite):
            if row.get("met") == "no":
                assert row.get("problem", row.get("shape", "")) in benchmarks._missed()


def test_the_benchmark_page_draws_every_figure_with_words(benchmarks):
    needs("matplotlib")
    from benchmarks import plots

    text = (ROOT / benchmarks.PAGE).read_text()
    blocks = text.split("```{plot}\n")[1:]
    drawn = [re.search(r"plots\.(\w+)\(\)", block)[1] for block in blocks]
    assert sorted(drawn) == sorted(figure.__name__ for figure in plots.FIGURES)
    for block in blocks:
        assert block.startswith(":alt: ")
        assert block.split("```", 1)[1].strip().startswith("**How to read this.**")


def test_figures_of_the_benchmark_page_are_drawn(benchmarks):
    needs("matplotlib").use("Agg")
    import matplotlib.pyplot as plt
    from benchmarks import plots

    for figure in plots.FIGURES:
        figure()
        axes = plt.gcf().axes
        assert axes, figure.__name__
        assert all(one.get_xlabel() for one in axes), figure.__name__
        plt.close("all")


def test_a_comparison_is_read_from_every_kind_of_result(benchmarks):
    from benchmarks.comparisons import comparisons

    (one,) = (
        c
        for c in comparisons("gpu_head")
        if c.problem == "entmax 1.5 of 8192 x 2048 x 256000, spread 2.2" and "QuACK" in c.peer
    )
    rows = [row for row in benchmarks._rows("gpu_head") if row["classes"] == "256000"]
    ms = {row["what"]: float(row["ms"]) for row in rows if row["ms"]}
    assert one.ratio == ms["QuACK cross-entropy"] / ms["maxent head, entmax 1.5"]
    shapes = {c.problem: c.peer for c in comparisons("gpu_head_shapes")}
    assert "cross-entropy of 2048 x 768 x 32003 in float32, flat scores" in shapes
    assert one.recorded == (len({row["run"] for row in rows if row["ms"]}) > 1)
    recorded = [c for c in comparisons("gpu") if c.recorded]
    assert {c.family for c in recorded} == {"entmax", "AdaSplash"}
    host = {c.problem: c for c in comparisons("gpu_host")}
    assert host["entmax15, forward and backward on 128 x 128 float32"].peer == "torch softmax"
    assert all(c.ours > 0 for c in comparisons("gpu_chains"))
    # what did not converge is no comparison, and our own variants are no peers
    assert all("lbfgs" not in c.peer for c in comparisons("training") if "sparse" in c.problem)
    assert all(not c.peer.startswith("maxent (") for c in comparisons("training"))


def test_the_snippets_of_the_readme_run():
    needs("torch")
    blocks = (ROOT / "README.md").read_text().split("```python\n")[1:]
    code = "\n".join(block.split("```")[0] for block in blocks)
    namespace = {}
    exec(compile(code, "README.md", "exec"), namespace)
    assert namespace["solution"].gap <= 1e-8
    assert (namespace["model"].predict_proba(namespace["X"]) == 0).any()


def test_the_citation_is_current():
    text = (ROOT / "CITATION.cff").read_text()
    assert text.startswith("cff-version: 1.2.0\n")
    assert re.search(r"^version: (.+)$", text, re.MULTILINE)[1] == maxent.__version__
    assert "license: BSD-3-Clause\n" in text
    papers = (ROOT / "docs" / "references.md").read_text().split("## The five papers")[1]
    papers = papers.split("\n## ")[0]
    names = re.findall(r"^        family-names: (.+)$", text, re.MULTILINE)
    assert text.count("\n  - type: ") == papers.count("### ") == 5
    assert all(name in papers for name in names)
    yaml = needs("yaml")
    cited = yaml.safe_load(text)
    assert cited["authors"] == [{"name": "The maxent developers"}]
    flat = " ".join(papers.split()).lower()
    assert all(" ".join(one["title"].split()).lower() in flat for one in cited["references"])


def test_limits_are_shown_and_are_no_peers(benchmarks):
    from benchmarks.comparisons import comparisons

    limits = [
        row
        for suites in benchmarks.PARTS.values()
        for suite in suites
        for row in benchmarks._rows(suite)
        if row.get("status") == "limit"
    ]
    assert {row["suite"] for row in limits} == {
        *("training", "structured_chains", "structured_transport", "tagging")
    }
    assert all(0 < float(row["ratio"]) < 1 for row in limits)
    assert len(rows_of((ROOT / benchmarks.PAGE).read_text(), "limits")) == len(limits)
    for suite in {row["suite"] for row in limits}:
        assert not any(one.peer.startswith("limit") for one in comparisons(suite))


def test_a_part_of_a_suite_replaces_its_own_rows(benchmarks, monkeypatch, tmp_path):
    from benchmarks import report
    from benchmarks.comparisons import read

    monkeypatch.setattr(report, "RESULTS", tmp_path)
    monkeypatch.setattr("benchmarks.comparisons.RESULTS", tmp_path)
    first = [report.Row("s", name, "maxent", seconds=1.0) for name in ("a", "b", "c")]
    report.write("s", [*first, report.Row("s", "b", "peer")])
    report.write("s", [report.Row("s", name, "maxent", seconds=2.0) for name in "db"], keep=True)
    found = [(row["problem"], row["method"], row["seconds"]) for row in read("s")]
    assert found == [
        *(("a", "maxent", "1"), ("b", "maxent", "2"), ("c", "maxent", "1"), ("d", "maxent", "2"))
    ]


def test_the_products_of_a_fit_are_counted(benchmarks):
    import numpy as np
    from benchmarks.limits import products_counted

    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 120))
    y = (X[:, 0] + rng.normal(size=2000) > 0).astype(float)[:, None]
    with products_counted() as work:
        features = maxent.SampleMap(X, 1)
        problem = maxent.Problem(
            maxent.FermiDirac(), features, maxent.Quadratic(0.1), observed=y
        )  # a pass for the target
        assert (work.bytes, work.multiplications) == (X.nbytes, X.size)
        n_iter = problem.solve(maxent.NewtonCG(tol=1e-6)).n_iter
    # the start, and at each step scores, a gradient and a product in float32 at least
    assert work.bytes >= X.nbytes * (2 + 2.5 * n_iter)
    assert work.bytes % (X.nbytes // 2) == 0
