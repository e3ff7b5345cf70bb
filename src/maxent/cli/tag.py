"""Labels of sequences in column files and CoNLL-U: tag train, tag predict and tag evaluate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.markup import escape
from rich.table import Table

from maxent.cli._answers import Commands, answer, asked, noted
from maxent.cli._console import check_free_file, console, one_line_errors, recorded_warnings
from maxent.cli._memory import peak_memory
from maxent.cli._screen import show_notes
from maxent.cli._tag_blocks import check_place, on_cluster, placed
from maxent.cli._tag_input import Format, Layout, layout_of, told_form
from maxent.cli._tag_watch import PERIOD, Development, Watch, unseen_labels

if TYPE_CHECKING:
    from maxent.tagging.conllu import ConlluSentence

app = typer.Typer(
    name="tag",
    cls=Commands,
    help="Label the tokens of CoNLL files: conditional random fields and their relatives.",
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
            "spaces, or CoNLL-U; .gz too.",
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
            "beside the labels, else words. In CoNLL-U macros may name columns, %x[0,LEMMA].",
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
    c1: Annotated[
        float | None,
        typer.Option("--c1", help="CRFsuite's c1, beside a sum of losses: --l1 is c1 / sequences."),
    ] = None,
    c2: Annotated[
        float | None,
        typer.Option(
            "--c2",
            help="CRFsuite's c2, beside a sum of losses: --l2 is 2 c2 / sequences. With --c1 too.",
        ),
    ] = None,
    c: Annotated[
        float | None,
        typer.Option("--C", help="C of support vector machines: --l2 is 1 / (C times sequences)."),
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
            help="Let the template count these columns of the file, such as 1,3 or FORM,FEATS, as "
            "0, 1 ... By default all but the labels; in CoNLL-U those that the template names, or "
            "FORM.",
        ),
    ] = None,
    label_column: Annotated[
        str | None,
        typer.Option(
            help="Read the labels from this column, counted from 0; -1 is the last. In CoNLL-U by "
            "name, such as XPOS [default: the last; UPOS in CoNLL-U]"
        ),
    ] = None,
    file_format: Annotated[
        Format,
        typer.Option(
            "--format",
            help="What the file is; auto recognises CoNLL-U and says so. Its words are read, and "
            "multiword ranges, empty nodes and comments left aside.",
        ),
    ] = Format.auto,
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
    delta: Annotated[
        float | None,
        typer.Option(
            help=f"Stop as well when the objective has changed by less than this share of it over "
            f"{PERIOD} iterations, as CRFsuite does at 1e-5.",
            min=0.0,
        ),
    ] = None,
    dev: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Show the score on the labels of this file, which is not learned from, while "
            "training.",
        ),
    ] = None,
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
    """Learn to label tokens from a file with a column of labels, or from CoNLL-U."""
    from maxent import io
    from maxent.tagging.file_blocks import column_blocks, first_sentences
    from maxent.tagging.tagger import Tagger, read_sentences

    in_blocks = any(place is not None for place in (dask, workers, memory))
    strength = Strength(l1, l2, c1, c2, c)
    strength.check()
    if choose:
        _check_choice(loss, strength, in_blocks)
    settings = {"least": least, "tol": tol, "max_iter": max_iter, "verbose": 0 if quiet else 1}
    limit = check_place(dask, workers, memory)
    if dev is not None and quiet and not asked():
        raise typer.BadParameter(
            "--dev shows a score, and --quiet shows none: leave one of them out"
        )
    check_free_file(model, [path] if dev is None else [path, dev], overwrite)
    begin = perf_counter()
    form, notes = told_form(path, file_format)
    if not quiet:
        show_notes(notes, console(stderr=True))
    read = first_sentences if in_blocks else read_sentences
    sentences = read(path, comments, form)
    layout, notes = layout_of(
        path, form, len(sentences[0][0]), comments, label_column, columns, template
    )
    if not quiet:
        show_notes(notes, console(stderr=True))
    development = None if dev is None else _development(dev, layout)
    shown = None if quiet else development
    watch = None if shown is None and delta is None else Watch(shown, delta)
    if in_blocks:
        make = partial(
            column_blocks,
            path,
            layout.template,
            layout.columns,
            layout.label,
            layout.width,
            comments=comments,
            hash_bits=hash_bits,
            form=form,
        )
        with placed(path, make, dask, workers, limit, model) as (table, counts, said):
            if not quiet:
                show_notes([said], console(stderr=True))
            classifier = _classifier(loss, strength, counts[0], choose, settings)
            with recorded_warnings() as warned:
                classifier.fit(table, callback=watch)
    else:
        tokens, labels = _tokens(path, sentences, layout, least, hash_bits)
        counts = len(labels), len(tokens.X.indptr) - 1
        classifier = _classifier(loss, strength, counts[0], choose, settings)
        with recorded_warnings() as warned:
            classifier.fit(tokens, labels, callback=watch)
    tagger = Tagger(
        layout.template, classifier, layout.columns, layout.label, layout.width, comments, form
    )
    io.save(tagger, model)
    settled = [watch.told()] if watch is not None and watch.stopped else []
    unseen = [] if development is None else development.unseen(classifier)
    notes = [*_beyond(limit), *warned, *settled, *unseen]
    seconds = perf_counter() - begin
    noted(notes)
    on_dev = None if development is None else development.score(classifier)
    answer({**_numbers(classifier, counts, seconds), **_dev_numbers(on_dev)}, [model])
    if quiet:
        return
    show_notes(notes, console(stderr=True))
    _show(
        {
            "sequences": counts[0],
            "tokens": counts[1],
            **_facts(classifier, hash_bits),
            **({} if on_dev is None else {f"{on_dev[0]} on --dev": f"{on_dev[1]:.4f}"}),
            "seconds": f"{seconds:.1f}",
        }
    )
    console().print(f"wrote {escape(str(model))}", soft_wrap=True)


class Strength(NamedTuple):
    """The constants of the penalty, as they were typed."""

    l1: float | None
    l2: float | None
    c1: float | None
    c2: float | None
    C: float | None

    def given(self) -> list[str]:
        """The flags that were given."""
        return [f"--{name}" for name, value in self._asdict().items() if value is not None]

    def check(self) -> None:
        """At most one constant, or --c1 and --c2, and all above 0."""
        flags = self.given()
        if len(flags) > 1 and flags != ["--c1", "--c2"]:
            raise typer.BadParameter(f"give {' or '.join(flags)}, not both")
        for flag in flags:
            value = getattr(self, flag.removeprefix("--"))
            if not 0 < value < float("inf"):
                raise typer.BadParameter(f"{flag} must be a finite number > 0, got {value}")

    def penalty(self, sequences: int) -> Any:
        """The potential beside the mean loss of so many sequences."""
        from maxent.core.potentials import Box, ElasticNet, Quadratic

        if self.C is not None:
            return Quadratic(1 / (sequences * self.C))
        l1 = self.l1 if self.c1 is None else self.c1 / sequences
        l2 = self.l2 if self.c2 is None else 2 * self.c2 / sequences
        if l1 is None:
            return Quadratic(_STRENGTH if l2 is None else l2)
        return Box(l1) if l2 is None else ElasticNet(l1, l2)


def _classifier(
    loss: Loss, strength: Strength, sequences: int, choose: bool, settings: dict[str, Any]
) -> Any:
    """The model to train; ``choose`` leaves its constant to folds."""
    from maxent.learn.structured.chain import ChainClassifier
    from maxent.learn.structured.chain_cv import L2CRFCV, M3NCV

    if choose:
        return (L2CRFCV if loss is Loss.crf else M3NCV)(**settings)
    return ChainClassifier(loss.value, strength.penalty(sequences), **settings)


def _development(path: Path, layout: Layout) -> Development:
    """The sentences of a development set, of the same layout as the training file."""
    from maxent.tagging.conll import CONLLU
    from maxent.tagging.tagger import check_annotated, pick, read_sentences

    sentences = read_sentences(path, layout.comments, layout.form)
    width = len(sentences[0][0])
    if width != layout.width:
        raise ValueError(f"{path} has {width} columns, the training file {layout.width}")
    if layout.form == CONLLU:
        check_annotated(path, sentences, layout.label)
    labels = [[token[layout.label] for token in tokens] for tokens in sentences]
    return Development(layout.template, pick(sentences, layout.columns), labels)


def _dev_numbers(score: tuple[str, float] | None) -> dict[str, Any]:
    """The score on a development set for programs."""
    return {} if score is None else {"dev": {"score": score[0].lower(), "value": score[1]}}


def _beyond(limit: float | None) -> list[str]:
    """A note where more memory was used than allowed."""
    if limit is None or peak_memory() <= limit:
        return []
    return [
        f"the peak was {peak_memory() / 1e6:.0f} MB, more than --memory: names and weights "
        "do not fit; --least and --hash-bits make fewer"
    ]


def _numbers(classifier: Any, counts: tuple[int, int], seconds: float) -> dict[str, Any]:
    """The same for programs."""
    weights = classifier.weights_
    chosen = {
        "best_params": getattr(classifier, "best_params_", None),
        "best_score": getattr(classifier, "best_score_", None),
    }
    return {
        "sequences": counts[0],
        "tokens": counts[1],
        "labels": list(classifier.classes_),
        "weights": int(weights.size),
        "not_zero": int((weights != 0).sum()),
        "objective": float(classifier.objective_),
        "gap": float(classifier.gap_),
        "n_iter": int(classifier.n_iter_),
        "seconds": seconds,
        **(chosen if chosen["best_params"] is not None else {}),
    }


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


def _check_choice(loss: Loss, strength: Strength, in_blocks: bool) -> None:
    """Refuse what ``--choose`` cannot go with."""
    flags = strength.given()
    if flags:
        names = "--l1 and --l2" if flags[0] in ("--l1", "--l2") else " and ".join(flags)
        raise typer.BadParameter(f"--choose finds the strength: leave {names} out")
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
    path: Path, sentences: Sequence[Any], layout: Layout, least: int, hash_bits: int | None
) -> tuple[Any, list[list[str]]]:
    """The attributes and the labels of all tokens."""
    from maxent.tagging import Attributes
    from maxent.tagging.conll import CONLLU
    from maxent.tagging.tagger import check_annotated, pick

    labels = [[token[layout.label] for token in tokens] for tokens in sentences]
    kinds = {tag for tags in labels for tag in tags}
    if len(kinds) < 2:
        raise ValueError(f"{path}: all labels are {min(kinds)!r}; is --label-column right?")
    if layout.form == CONLLU:
        check_annotated(path, sentences, layout.label)
    named = layout.template.tokens(pick(sentences, layout.columns))
    tokens = Attributes(hash_bits=hash_bits).fit(named, least)
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
    """Add a column of predicted labels to a file, or fill that of CoNLL-U, labelled or not."""
    from maxent import io
    from maxent.tagging.conll import CONLLU
    from maxent.tagging.conllu import FIELDS
    from maxent.tagging.tagger import load_tagger
    from maxent.tagging.textfile import ends_in_crlf, packed

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
    if tagger.form == CONLLU:
        named = FIELDS[tagger.label_column]
        if proba and named == "MISC":
            raise typer.BadParameter("--proba writes to MISC, where this model has its labels")
        sentences: Sequence[Any] = tagger.read_whole(path)
        filled = any(label != "_" for one in sentences for label in one.column(named))
        notes = [f"{named} of {path} is replaced by predictions"] if filled else []
        tag = partial(_tagged_conllu, tagger, proba, best)
    else:
        sentences, labels = tagger.read(path)
        said = f"{path} has one column less than in training: taken to have no labels"
        notes = [said] if labels is None else []
        if not path.is_file():
            notes.append(f"{path} is no plain file: a space between columns, or tabs around one")
        tag = partial(_tagged, tagger, proba, best, _gap(path, sentences))
    text = "".join(on_cluster(tag, sentences, dask, workers) or [tag(sentences)])
    if ends_in_crlf(path):
        text = text.replace("\n", "\r\n")
    if out is None:
        answer({"sequences": len(sentences), "text": text})
        if not asked():
            typer.echo(text, nl=False)
    else:
        io.write_atomically(out, packed(text.encode(), out))
        answer({"sequences": len(sentences)}, [out])
    noted(notes)
    if not quiet:
        show_notes(notes, console(stderr=True))
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
    from maxent.tagging.conll import CONLLU, are_phrase_tags, phrase_scores
    from maxent.tagging.tagger import load_tagger

    tagger = load_tagger(model)
    sentences, labels = tagger.read(path)
    if labels is None:
        lacks = (
            "_ for all words in the column of the labels"
            if tagger.form == CONLLU
            else "one column less than the file of training"
        )
        raise ValueError(
            f"{path} has {lacks}, so it has no labels to compare with; `maxent tag predict` needs "
            "none"
        )
    predicted = [tags.tolist() for tags in tagger.classifier.predict(tagger.tokens(sentences))]
    known = tagger.classifier.classes_.tolist()
    given = Counter(label for tags in labels for label in tags)
    notes = unseen_labels(labels, known)
    noted(notes)
    if not quiet:
        show_notes(notes, console(stderr=True))
    if are_phrase_tags(given.keys() | set(known)):
        scores = phrase_scores(labels, predicted)
        answer({"kind": "phrases", **_of_phrases(scores)})
        _show_phrases(scores)
    else:
        right = sum(a == b for x, y in zip(labels, predicted, strict=True)
                    for a, b in zip(x, y, strict=True))  # fmt: skip
        total = given.total()
        answer({"kind": "tokens", "tokens": total, "right": right, "accuracy": right / total})
        console().print("labels are no B-, I- and O tags: plain accuracy of tokens")
        _show({"tokens": total, "right": right, "accuracy": f"{right / total:.4f}"})


def add_to(main: typer.Typer) -> None:
    """Register the commands."""
    main.add_typer(app)


# -- what is shown ---------------------------------------------------------------------------------


def _gap(path: Path, sentences: Sequence[Any]) -> str:
    """What columns are separated by: a tab where it is so, or one of them has a space in it."""
    from maxent.tagging.conll import has_tabs

    spaced = any(" " in column for tokens in sentences for token in tokens for column in token)
    return "\t" if spaced or (path.is_file() and has_tabs(path)) else " "


def _tagged(tagger: Any, proba: bool, best: int | None, gap: str, sentences: Sequence[Any]) -> str:
    """Sentences with their new columns."""
    return "".join(f"{line}\n" for line in _lines(tagger, sentences, proba, best, gap))


def _lines(
    tagger: Any, sentences: Sequence[Any], proba: bool, best: int | None, gap: str
) -> Iterator[str]:
    answers = _answers(tagger, sentences, proba, best)
    for sentence, paths in zip(sentences, answers, strict=True):
        for rank, path in enumerate(paths, start=1):
            if path.score is not None:
                yield f"# {rank} of {len(paths)}, score {path.score:.6f}"
            yield from _joined(gap, sentence, path.columns())


def _tagged_conllu(
    tagger: Any, proba: bool, best: int | None, sentences: Sequence[ConlluSentence]
) -> str:
    """Sentences with the column of the labels filled; probabilities go to MISC."""
    from maxent.tagging.conllu import FIELDS, with_entry

    name = FIELDS[tagger.label_column]
    some = [sentence for sentence in sentences if sentence.places]
    answers = iter(_answers(tagger, [s.words for s in some], proba, best) if some else [])
    texts = []
    for sentence in sentences:
        paths = next(answers) if sentence.places else []
        texts += [] if paths else [str(sentence)]
        for rank, path in enumerate(paths, start=1):
            said = sentence.with_column(name, path.tags)
            if path.chances is not None:
                shown = [f"{chance:.6f}" for chance in path.chances]
                misc = map(partial(with_entry, "Probability"), said.column("MISC"), shown)
                said = said.with_column("MISC", list(misc))
            if path.score is not None:
                said = said.with_comment(f"# path = {rank} of {len(paths)}")
                said = said.with_comment(f"# score = {path.score:.6f}")
            texts.append(str(said))
    return "".join(texts)


class _Path(NamedTuple):
    """The labels of a sentence, with the probability of each or the score of all if asked for."""

    tags: list[str]
    chances: list[float] | None = None
    score: float | None = None

    def columns(self) -> list[tuple[str, ...]]:
        if self.chances is None:
            return [(tag,) for tag in self.tags]
        return [(tag, f"{p:.6f}") for tag, p in zip(self.tags, self.chances, strict=True)]


def _answers(
    tagger: Any, sentences: Sequence[Any], proba: bool, best: int | None
) -> Iterator[list[_Path]]:
    """The paths of each sentence: one, or the best."""
    tokens = tagger.tokens(sentences)
    classifier = tagger.classifier
    if best is not None:
        for paths in classifier.predict_kbest(tokens, best):
            yield [_Path(tags.tolist(), score=score) for score, tags in paths]
        return
    predicted = [tags.tolist() for tags in classifier.predict(tokens)]
    if not proba:
        yield from ([_Path(tags)] for tags in predicted)
        return
    order = {label: i for i, label in enumerate(classifier.classes_.tolist())}
    for tags, chance in zip(predicted, classifier.predict_proba(tokens), strict=True):
        yield [_Path(tags, [float(chance[t, order[tag]]) for t, tag in enumerate(tags)])]


def _joined(gap: str, sentence: Any, extra: Sequence[tuple[str, ...]]) -> Iterator[str]:
    for token, more in zip(sentence, extra, strict=True):
        yield gap.join((*token, *more))
    yield ""


def _show(values: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None)
    for name, value in values.items():
        table.add_row(name, escape(str(value)))
    console().print(table)


def _of_phrases(scores: Any) -> dict[str, Any]:
    """Phrase scores as numbers, by type and of all."""

    def counts(one: Any) -> dict[str, Any]:
        names = ("precision", "recall", "f1", "correct", "predicted", "given")
        return {name: getattr(one, name) for name in names}

    types = {kind: counts(one) for kind, one in scores.types.items()}
    return {**counts(scores), "accuracy": scores.accuracy, "types": types}


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
