"""Labels of sequences in column files: tag train, tag predict and tag evaluate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from maxent.cli._console import check_free_file, console, one_line_errors, recorded_warnings
from maxent.cli._memory import peak_memory
from maxent.cli._screen import show_notes
from maxent.cli._tag_blocks import check_place, on_cluster, placed

app = typer.Typer(
    name="tag",
    help="Label the tokens of CoNLL column files: conditional random fields and their relatives.",
    no_args_is_help=True,
)

_STRENGTH = 1e-3


class Loss(StrEnum):
    """Of a path of labels."""

    crf = "crf"
    hinge = "hinge"
    softmax_margin = "softmax-margin"
    sparsemap = "sparsemap"


Model = Annotated[Path, typer.Argument(help="A file written by tag train.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an earlier file.")]


@app.command()
@one_line_errors
def train(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="TRAIN",
            help="One token per line, blank lines between sequences, columns separated by tabs or "
            "spaces; .gz too.",
        ),
    ],
    model: Annotated[Path, typer.Option("--model", "-m", help="Write the model to this file.")],
    template: Annotated[
        str | None,
        typer.Option(
            "--template",
            "-t",
            help="Make attributes by this template: a file of lines such as w[-1]=%x[-1,0], "
            "chunking (words and tags) or words. By default chunking where there are two columns "
            "beside the labels, else words.",
        ),
    ] = None,
    loss: Annotated[Loss, typer.Option(help="Minimise this loss.")] = Loss.crf,
    l2: Annotated[
        float | None,
        typer.Option(
            help="Penalise by s/2 ||w||^2, with this s, beside the mean loss of a sequence "
            f"[default: {_STRENGTH:g}]. CRFsuite's c2 is s = 2 c2 / sequences.",
        ),
    ] = None,
    l1: Annotated[
        float | None,
        typer.Option(help="Penalise by s ||w||_1, with this s, instead: few weights."),
    ] = None,
    choose: Annotated[
        bool,
        typer.Option(
            "--choose",
            help="Choose the strength of --l2 by three folds of the sequences, for the losses crf "
            "and hinge: the work of about three fits.",
        ),
    ] = False,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Let the template count these columns of the file, such as 1,3, as 0, 1 ... By "
            "default all but the labels.",
        ),
    ] = None,
    label_column: Annotated[
        int,
        typer.Option(help="Read the labels from this column, counted from 0; -1 is the last."),
    ] = -1,
    comments: Annotated[
        bool, typer.Option("--comments", help="Leave out lines that begin with #.")
    ] = False,
    least: Annotated[
        int, typer.Option(help="Leave out attributes that occur less often.", min=1)
    ] = 1,
    hash_bits: Annotated[
        int | None,
        typer.Option(
            help="Number attributes by a hash of so many bits and keep no names: a smaller model; "
            "some attributes share a weight.",
            min=1,
            max=30,
        ),
    ] = None,
    max_iter: Annotated[
        int | None, typer.Option(help="Stop after this many iterations.", min=1)
    ] = None,
    tol: Annotated[float, typer.Option(help="Stop at this duality gap.", min=0.0)] = 1e-3,
    dask: Annotated[
        str | None,
        typer.Option(
            help="Train on the workers of this dask scheduler, tcp://host:8786, which must see the "
            "file.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Train on this many processes of this machine, a dask cluster.", min=1),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help="Hold so much of the file at a time, 2GB with all the rest; blocks of it wait in "
            "a scratch folder beside the model.",
        ),
    ] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Learn to label tokens from a file whose last column is the labels."""
    from maxent import io
    from maxent.tagging import read_conll
    from maxent.tagging.file_blocks import column_blocks, first_sentences
    from maxent.tagging.tagger import Tagger

    in_blocks = any(place is not None for place in (dask, workers, memory))
    if choose:
        _check_choice(loss, l1, l2, in_blocks)
    settings = {"least": least, "tol": tol, "max_iter": max_iter, "verbose": 0 if quiet else 1}
    classifier = _classifier(loss, l1, l2, choose, settings)
    limit = check_place(dask, workers, memory)
    check_free_file(model, [path], overwrite)
    begin = perf_counter()
    sentences = (
        first_sentences(path, comments) if in_blocks else read_conll(path, comments=comments)
    )
    width = len(sentences[0][0])
    label = _column(label_column, width, "--label-column")
    used = _columns(columns, width, label)
    chosen, notes = _fitting_template(path, template, len(used))
    if in_blocks:
        make = partial(
            column_blocks, path, chosen, used, label, width, comments=comments, hash_bits=hash_bits
        )
        with placed(path, make, dask, workers, limit, model) as (table, counts, said):
            if not quiet:
                show_notes([said], console(stderr=True))
            with recorded_warnings() as warned:
                classifier.fit(table)
        notes += _beyond(limit)
    else:
        tokens, labels = _tokens(path, sentences, chosen, used, label, least, hash_bits)
        counts = len(labels), len(tokens.X.indptr) - 1
        with recorded_warnings() as warned:
            classifier.fit(tokens, labels)
    io.save(Tagger(chosen, classifier, used, label, width, comments), model)
    if quiet:
        return
    show_notes([*notes, *warned], console(stderr=True))
    _show(
        {
            "sequences": counts[0],
            "tokens": counts[1],
            **_facts(classifier, hash_bits),
            "seconds": f"{perf_counter() - begin:.1f}",
        }
    )
    console().print(f"wrote {escape(str(model))}", soft_wrap=True)


def _classifier(
    loss: Loss, l1: float | None, l2: float | None, choose: bool, settings: dict[str, Any]
) -> Any:
    """The model to train; ``choose`` leaves its constant to folds."""
    from maxent.core.potentials import Box, Quadratic
    from maxent.learn.structured.chain import ChainClassifier
    from maxent.learn.structured.chain_cv import L2CRFCV, M3NCV

    if l1 is not None and l2 is not None:
        raise typer.BadParameter("give --l1 or --l2, not both")
    strength = next((s for s in (l1, l2) if s is not None), _STRENGTH)
    if not strength > 0:
        raise typer.BadParameter(f"--l{1 if l1 is not None else 2} must be > 0, got {strength}")
    if choose:
        return (L2CRFCV if loss is Loss.crf else M3NCV)(**settings)
    penalty = Box(strength) if l1 is not None else Quadratic(strength)
    return ChainClassifier(loss.value, penalty, **settings)


def _fitting_template(path: Path, given: str | None, columns: int) -> tuple[Any, list[str]]:
    """The template, and a note where it was guessed."""
    chosen, guessed = _template(given, columns)
    if chosen.n_columns > columns:
        raise typer.BadParameter(
            f"the template uses {chosen.n_columns} columns, counted from 0, and {path} has "
            f"{columns} beside the labels"
        )
    return chosen, [] if guessed is None else [guessed]


def _beyond(limit: float | None) -> list[str]:
    """A note where more memory was used than allowed."""
    if limit is None or peak_memory() <= limit:
        return []
    return [
        f"the peak was {peak_memory() / 1e6:.0f} MB, more than --memory: names and weights "
        "do not fit; --least and --hash-bits make fewer"
    ]


def _facts(classifier: Any, hash_bits: int | None) -> dict[str, Any]:
    """What is shown of a trained model."""
    weights, names = classifier.weights_, classifier.attributes_
    assert names is not None
    return {
        "labels": len(classifier.classes_),
        "attributes": f"2^{hash_bits} hashed" if hash_bits is not None else str(len(names)),
        "weights": f"{weights.size}, {int((weights != 0).sum())} of them not 0",
        **(_choice(classifier) if hasattr(classifier, "best_params_") else {}),
        "objective": f"{classifier.objective_:.6g}",
        "duality gap": f"{classifier.gap_:.1e}",
        "iterations": classifier.n_iter_,
    }


def _check_choice(loss: Loss, l1: float | None, l2: float | None, in_blocks: bool) -> None:
    """Refuse what ``--choose`` cannot go with."""
    if l1 is not None or l2 is not None:
        raise typer.BadParameter("--choose finds the strength: leave --l1 and --l2 out")
    if loss not in (Loss.crf, Loss.hinge):
        raise typer.BadParameter(f"--choose is for the losses crf and hinge, got {loss.value}")
    if in_blocks:
        raise typer.BadParameter(
            "--choose needs all sequences in memory: choose with a part of the file, and give the "
            "strength as --l2"
        )


def _choice(classifier: Any) -> dict[str, str]:
    """What folds chose, and the share of held-out labels it got right."""
    ((name, value),) = classifier.best_params_.items()
    told = f"{name} = {value:g}, {classifier.best_score_:.2%} of held-out labels right"
    return {"chosen": told}


def _tokens(
    path: Path,
    sentences: Sequence[Any],
    template: Any,
    used: tuple[int, ...],
    label: int,
    least: int,
    hash_bits: int | None,
) -> tuple[Any, list[list[str]]]:
    """The attributes and the labels of all tokens."""
    from maxent.tagging import Attributes
    from maxent.tagging.tagger import pick

    labels = [[token[label] for token in tokens] for tokens in sentences]
    kinds = {tag for tags in labels for tag in tags}
    if len(kinds) < 2:
        raise ValueError(f"{path}: all labels are {min(kinds)!r}; is --label-column right?")
    tokens = Attributes(hash_bits=hash_bits).fit(template.tokens(pick(sentences, used)), least)
    if not tokens.X.nnz:
        raise ValueError(f"no attribute occurs {least} times: lower --least")
    return tokens, labels


@app.command()
@one_line_errors
def predict(
    model: Model,
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Columns as in training.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write to this file instead of the screen.")
    ] = None,
    proba: Annotated[
        bool,
        typer.Option("--proba", help="Also print the probability of each label that is given."),
    ] = False,
    best: Annotated[
        int | None,
        typer.Option(help="Print this many best paths of each sequence, with their scores.", min=1),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(help="Tag on the workers of this dask scheduler, tcp://host:8786."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Tag on this many processes of this machine, a dask cluster.", min=1),
    ] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Add a column of predicted labels to a file, with its own labels or without."""
    from maxent import io
    from maxent.tagging.tagger import load_tagger

    if proba and best is not None:
        raise typer.BadParameter("give --proba or --best, not both")
    check_place(dask, workers, None)
    if out is None and overwrite:
        raise typer.BadParameter("--overwrite has no effect without --out")
    if out is not None:
        check_free_file(out, [model, path], overwrite)
    tagger = load_tagger(model)
    if proba and tagger.classifier.loss not in ("crf", "softmax-margin"):
        raise typer.BadParameter(
            f"--proba is for models of the losses crf and softmax-margin, this one was trained "
            f"with {tagger.classifier.loss}"
        )
    sentences, labels = tagger.read(path)
    tag = partial(_tagged, tagger, proba, best, _gap(sentences))
    text = "".join(on_cluster(tag, sentences, dask, workers) or [tag(sentences)])
    if out is None:
        typer.echo(text, nl=False)
    else:
        io.write_atomically(out, text.encode())
    if not quiet:
        if labels is None:
            note = f"{path} has one column less than in training: taken to have no labels"
            show_notes([note], console(stderr=True))
        if out is not None:
            console().print(f"wrote {escape(str(out))}", soft_wrap=True)


@app.command()
@one_line_errors
def evaluate(
    model: Model,
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Columns as in training.")],
    quiet: Quiet = False,
) -> None:
    """Compare predicted labels with those of a file: phrases as conlleval counts them."""
    from maxent.tagging.conll import are_phrase_tags, phrase_scores
    from maxent.tagging.tagger import load_tagger

    tagger = load_tagger(model)
    sentences, labels = tagger.read(path)
    if labels is None:
        raise ValueError(
            f"{path} has one column less than the file of training, so it has no labels to compare "
            "with; `maxent tag predict` needs none"
        )
    predicted = [tags.tolist() for tags in tagger.classifier.predict(tagger.tokens(sentences))]
    known = set(tagger.classifier.classes_.tolist())
    given = Counter(label for tags in labels for label in tags)
    unseen = sorted(given.keys() - known)
    if unseen and not quiet:
        count = sum(given[label] for label in unseen)
        note = f"training did not have {', '.join(unseen)}: {count} tokens, counted as wrong"
        show_notes([note], console(stderr=True))
    if are_phrase_tags(given.keys() | known):
        scores = phrase_scores(labels, predicted)
        _show_phrases(scores)
    else:
        right = sum(a == b for x, y in zip(labels, predicted, strict=True)
                    for a, b in zip(x, y, strict=True))  # fmt: skip
        console().print("labels are no B-, I- and O tags: plain accuracy of tokens")
        _show({"tokens": given.total(), "right": right, "accuracy": f"{right / given.total():.4f}"})


def add_to(main: typer.Typer) -> None:
    """Register the commands."""
    main.add_typer(app)


# -- what was typed --------------------------------------------------------------------------------


def _column(number: int, width: int, flag: str) -> int:
    if not -width <= number < width:
        raise typer.BadParameter(f"{flag} is {number}, but the file has {width} columns")
    return number % width


def _columns(text: str | None, width: int, label: int) -> tuple[int, ...]:
    if text is None:
        return tuple(c for c in range(width) if c != label)
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"--columns are numbers such as 0,1, got {text!r}") from None
    used = tuple(_column(number, width, "--columns") for number in numbers)
    if label in used:
        raise typer.BadParameter(f"--columns has column {label}, which holds the labels")
    return used


def _template(text: str | None, columns: int) -> tuple[Any, str | None]:
    """The template, and what was guessed."""
    from maxent.tagging import TEMPLATES, Template

    if text is None:
        name = "chunking" if columns == 2 else "words"
        if not columns:
            raise typer.BadParameter("the file has one column, which holds the labels")
        said = f"{columns} column{'s' if columns > 1 else ''} beside the labels"
        return TEMPLATES[name], f"{said}: the template is {name} (--template chooses another)"
    if text in TEMPLATES and not Path(text).exists():
        return TEMPLATES[text], None
    if not Path(text).is_file():
        raise typer.BadParameter(
            f"--template {text}: no such file, and no template of that name "
            f"({', '.join(TEMPLATES)})"
        )
    return Template.read(text), None


# -- what is shown ---------------------------------------------------------------------------------


def _gap(sentences: Sequence[Any]) -> str:
    """What columns are separated by: a tab where one of them has a space in it."""
    spaced = any(" " in column for tokens in sentences for token in tokens for column in token)
    return "\t" if spaced else " "


def _tagged(tagger: Any, proba: bool, best: int | None, gap: str, sentences: Sequence[Any]) -> str:
    """Sentences with their new columns."""
    return "".join(f"{line}\n" for line in _lines(tagger, sentences, proba, best, gap))


def _lines(
    tagger: Any, sentences: Sequence[Any], proba: bool, best: int | None, gap: str
) -> Iterator[str]:
    tokens = tagger.tokens(sentences)
    classifier = tagger.classifier
    if best is not None:
        for sentence, paths in zip(sentences, classifier.predict_kbest(tokens, best), strict=True):
            for rank, (score, tags) in enumerate(paths, start=1):
                yield f"# {rank} of {len(paths)}, score {score:.6f}"
                yield from _joined(gap, sentence, [(tag,) for tag in tags.tolist()])
        return
    predicted = [tags.tolist() for tags in classifier.predict(tokens)]
    chances: Sequence[Any] = classifier.predict_proba(tokens) if proba else [None] * len(predicted)
    order = {label: i for i, label in enumerate(classifier.classes_.tolist())}
    for sentence, tags, chance in zip(sentences, predicted, chances, strict=True):
        if chance is None:
            extra: list[tuple[str, ...]] = [(tag,) for tag in tags]
        else:
            extra = [(tag, f"{chance[t, order[tag]]:.6f}") for t, tag in enumerate(tags)]
        yield from _joined(gap, sentence, extra)


def _joined(gap: str, sentence: Any, extra: Sequence[tuple[str, ...]]) -> Iterator[str]:
    for token, more in zip(sentence, extra, strict=True):
        yield gap.join((*token, *more))
    yield ""


def _show(values: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None)
    for name, value in values.items():
        table.add_row(name, escape(str(value)))
    console().print(table)


def _show_phrases(scores: Any) -> None:
    table = Table()
    for name in ("type", "precision", "recall", "F1", "right", "predicted", "given"):
        table.add_column(name, justify="left" if name == "type" else "right")
    for kind, one in (*scores.types.items(), ("all phrases", scores)):
        table.add_row(
            escape(kind),
            *(f"{100 * value:.2f}" for value in (one.precision, one.recall, one.f1)),
            *map(str, (one.correct, one.predicted, one.given)),
        )
    console().print("phrases as conlleval counts them")
    console().print(table)
    console().print(f"accuracy of tokens {100 * scores.accuracy:.2f}")
