"""``{plot}`` on MyST pages: matplotlib's directive, whose answer is reStructuredText to be read."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils import new_document
from matplotlib.sphinxext.plot_directive import PlotDirective
from myst_parser.mocking import MockRSTParser, MockStateMachine


class Plot(PlotDirective):
    """The plot directive for both kinds of pages.

    It hands its figures back as lines of reStructuredText for docutils to read next. MyST has no
    such queue, so that there the lines are read at once.
    """

    def run(self) -> list[nodes.Node]:
        """Messages of the directive, and on a MyST page its figures."""
        if "alt" not in self.options:
            raise self.error("a plot needs words for those who cannot see it: give :alt:")
        if self.state.document.settings.env.app.tags.has("quick"):
            return []  # the tests run what it draws
        if not isinstance(self.state_machine, MockStateMachine):
            return super().run()
        answer: list[str] = []
        self.state_machine.insert_input = lambda lines, source: answer.extend(lines)
        messages = super().run()
        part = new_document(self.state.document["source"], self.state.document.settings)
        part.reporter = self.state.document.reporter
        MockRSTParser().parse("\n" * self.lineno + "\n".join(answer), part)
        return [*messages, *part.children]


def setup(app: Any) -> dict[str, bool]:
    """Take the place of matplotlib's own, which must be loaded before."""
    app.add_directive("plot", Plot, override=True)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
