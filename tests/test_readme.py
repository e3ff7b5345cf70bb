"""The tables of README and guides are what their script makes of the tracked results."""

import sys
from pathlib import Path

from conftest import needs

ROOT = Path(__file__).parent.parent


def test_the_comparison_table_is_generated_from_the_results(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    from benchmarks.readme import GUIDES, README, updated, updated_guide

    text = README.read_text()
    assert updated(text) == text
    for page in GUIDES:
        text = (ROOT / page).read_text()
        assert updated_guide(page, text) == text, page


def test_the_snippets_of_the_readme_run():
    needs("torch")
    blocks = (ROOT / "README.md").read_text().split("```python\n")[1:]
    code = "\n".join(block.split("```")[0] for block in blocks)
    namespace = {}
    exec(compile(code, "README.md", "exec"), namespace)
    assert namespace["solution"].gap <= 1e-8
