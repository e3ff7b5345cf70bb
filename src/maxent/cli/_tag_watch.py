"""What goes on while a tagger learns: its score on a development set, and when it has settled."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

from rich.markup import escape

from maxent.cli._console import console

PERIOD = 10  # iterations that --delta looks back, as CRFsuite does
_OFTEN = 10  # iterations after each of which the score is shown, then after every tenth


class Settled:
    """Whether the objective has changed by less than a share of it over the last iterations."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._last: deque[float] = deque(maxlen=PERIOD)

    def after(self, objective: float) -> bool:
        """Take in the objective of an iteration."""
        full = len(self._last) == PERIOD
        change = abs(self._last[0] - objective) if full else float("inf")
        self._last.append(objective)
        return change < self._share * abs(objective)


class Development:
    """Sentences that are not learned from, and what a model scores on them."""

    def __init__(self, template: Any, sentences: Any, labels: Sequence[Sequence[str]]) -> None:
        self._made: Any = None
        self._template, self._sentences, self._labels = template, sentences, labels

    def unseen(self, model: Any) -> list[str]:
        """A note about labels that the model does not know."""
        return unseen_labels(self._labels, model.classes_.tolist())

    def score(self, model: Any) -> tuple[str, float]:
        """The name of the score, F1 of phrases or accuracy of tokens, and its value."""
        from maxent.tagging.conll import are_phrase_tags, phrase_scores

        if self._made is None:
            self._made = model.attributes_.transform(self._template.tokens(self._sentences))
        predicted = [tags.tolist() for tags in model.predict(self._made)]
        given = {label for tags in self._labels for label in tags}
        if are_phrase_tags(given | set(model.classes_.tolist())):
            return "F1", phrase_scores(self._labels, predicted).f1
        right = sum(a == b for x, y in zip(self._labels, predicted, strict=True)
                    for a, b in zip(x, y, strict=True))  # fmt: skip
        return "accuracy", right / sum(map(len, self._labels))


def unseen_labels(labels: Sequence[Sequence[str]], known: Sequence[str]) -> list[str]:
    """A note about labels that training did not have."""
    given = Counter(label for tags in labels for label in tags)
    unseen = sorted(given.keys() - set(known))
    if not unseen:
        return []
    count = sum(given[label] for label in unseen)
    return [f"training did not have {', '.join(unseen)}: {count} tokens, counted as wrong"]


class Watch:
    """A callback of ``fit``: shows the score now and then, and stops a fit that has settled."""

    def __init__(self, development: Development | None, delta: float | None) -> None:
        self._development = development
        self._settled = None if delta is None else Settled(delta)
        self._delta = delta
        self.stopped = False

    def __call__(self, iteration: int, model: Any) -> bool:
        often = iteration <= _OFTEN or iteration % _OFTEN == 0
        if self._development is not None and often:
            name, value = self._development.score(model)
            text = (
                f"iteration {iteration}: objective {model.objective_:.6g}, duality gap "
                f"{model.gap_:.1e}, {name} {value:.4f} on --dev"
            )
            console(stderr=True).print(escape(text), soft_wrap=True)
        self.stopped = self._settled is not None and self._settled.after(model.objective_)
        return self.stopped

    def told(self) -> str:
        """Why the fit was stopped."""
        return (
            f"stopped by --delta: {PERIOD} iterations have changed the objective by less than "
            f"{self._delta:g} of it"
        )
