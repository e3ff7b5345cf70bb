"""maxent tag: train, predict and evaluate on column files."""

import gzip
import json
import os
import re
import signal
import threading

import numpy as np
import pytest
from typer.testing import CliRunner

import maxent as mx
from maxent import cli
from maxent.tagging import load_tagger, read_conll

SENTENCES = [
    "The DT B-NP\ncat NN I-NP\nsleeps VBZ B-VP\n. . O",
    "A DT B-NP\ndog NN I-NP\nbarks VBZ B-VP\n. . O",
    "He PRP B-NP\nhas VBZ B-VP\nseen VBN I-VP\nthe DT B-NP\ndog NN I-NP\n. . O",
    "Dogs NNS B-NP\nbark VBP B-VP",
]


@pytest.fixture
def run():
    def invoke(*arguments, code=0):
        result = CliRunner().invoke(cli.main, ["tag", *map(str, arguments)])
        assert result.exit_code == code, result.output
        return result

    return invoke


@pytest.fixture
def train(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("\n\n".join(SENTENCES) + "\n\n\n")
    return path


@pytest.fixture
def model(run, train, tmp_path):
    path = tmp_path / "model.json"
    run("train", train, "--model", path, "--quiet")
    return path


def test_the_round_trip(run, train, tmp_path):
    model, out = tmp_path / "m.json", tmp_path / "out.txt"
    result = run("train", train, "-m", model)
    assert "the template is chunking" in result.stderr
    for name, value in (("sequences", 4), ("tokens", 16), ("labels", 5)):
        assert re.search(rf"{name}\s+{value}\b", result.stdout)
    assert float(re.search(r"duality gap\s+(\S+)", result.stdout)[1]) <= 1e-3
    assert f"wrote {model}" in result.stdout
    result = run("predict", model, train)
    assert read_conll_text(result.stdout, tmp_path) == [
        [(*token, token[2]) for token in tokens] for tokens in read_conll(train)
    ]
    assert "labels" not in result.stderr  # nothing was guessed
    run("predict", model, train, "--out", out)
    assert out.read_text() == result.stdout
    result = run("evaluate", model, train)
    assert "as conlleval counts them" in result.stdout
    assert re.search(r"all phrases\D+100.00\D+100.00\D+100.00\D+9\D+9\D+9", result.stdout)
    assert "accuracy of tokens 100.00" in result.stdout


def read_conll_text(text, folder):
    path = folder / "text.txt"
    path.write_text(text)
    return read_conll(path)


def test_quiet_commands_print_nothing_but_answers(run, train, tmp_path):
    result = run("train", train, "-m", tmp_path / "m.json", "-q")
    assert result.output == ""
    assert run("predict", tmp_path / "m.json", train, "-o", tmp_path / "o", "-q").output == ""


def test_a_file_without_labels(run, model, tmp_path):
    path = tmp_path / "new.txt"
    path.write_text("The DT\ndog NN\nsleeps VBZ\n")
    result = run("predict", model, path)
    assert "one column less than in training: taken to have no labels" in result.stderr
    assert result.stdout == "The DT B-NP\ndog NN I-NP\nsleeps VBZ B-VP\n\n"
    result = run("evaluate", model, path, code=1)
    assert "no labels to compare with" in result.stderr
    path.write_text("The\n")
    result = run("predict", model, path, code=1)
    assert "has 1 columns; the model was trained on 3" in result.stderr


def test_probabilities_and_best_paths(run, model, train, tmp_path):
    result = run("predict", model, train, "--proba")
    tagger = load_tagger(model)
    sentences, _ = tagger.read(train)
    p = tagger.classifier.predict_proba(tagger.tokens(sentences))
    shown = [float(line.split()[-1]) for line in result.stdout.splitlines() if line]
    np.testing.assert_allclose(shown, np.concatenate(p).max(axis=1), atol=1e-6)
    lines = run("predict", model, train, "--best", 2).stdout.splitlines()
    first, second = [float(line.split()[-1]) for line in lines if line.startswith("#")][:2]
    assert first > second
    assert lines[0].startswith("# 1 of 2, score")
    assert lines[1] == "The DT B-NP B-NP"
    assert sum(line.startswith("#") for line in lines) == 8
    result = run("predict", model, train, "--best", 2, "--proba", code=2)
    assert "not both" in result.stderr


@pytest.mark.parametrize("loss", ["crf", "hinge", "softmax-margin", "sparsemap"])
def test_losses(run, train, tmp_path, loss):
    model = tmp_path / f"{loss}.json"
    run("train", train, "-m", model, "--loss", loss, "--l2", 0.01, "-q")
    assert "100.00" in run("evaluate", model, train).stdout
    if loss in ("hinge", "sparsemap"):
        result = run("predict", model, train, "--proba", code=2)
        assert f"trained with {loss}" in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize(("loss", "constant"), [("crf", "c2"), ("hinge", "C")])
def test_a_strength_chosen_by_folds(run, train, tmp_path, loss, constant):
    model = tmp_path / "chosen.json"
    result = run("train", train, "-m", model, "--loss", loss, "--choose")
    (value,) = load_tagger(model).classifier.best_params_.values()
    assert re.search(rf"chosen\s+{constant} = {value:g}, \d+\.\d\d% of held-out", result.stdout)
    assert run("predict", model, train).stdout.startswith("The DT B-NP B-NP")
    code = 2 if loss == "hinge" else 0
    result = run("predict", model, train, "--proba", code=code)
    assert not code or "trained with hinge" in " ".join(result.stderr.replace("│", " ").split())


def test_an_l1_penalty_leaves_few_weights(run, train, tmp_path):
    few, many = tmp_path / "few.json", tmp_path / "many.json"
    run("train", train, "-m", few, "--l1", 0.05, "-q")
    run("train", train, "-m", many, "--l2", 0.05, "-q")
    used = [np.count_nonzero(load_tagger(p).classifier.weights_) for p in (few, many)]
    assert used[0] < used[1] / 3


def test_templates_columns_and_hashes(run, train, tmp_path):
    model, template = tmp_path / "m.json", tmp_path / "template.txt"
    template.write_text("tag=%x[0,0]\nconstant\n")
    run("train", train, "-m", model, "-t", template, "--columns", "1", "--hash-bits", 10, "-q")
    tagger = load_tagger(model)
    assert tagger.template.lines == ("tag=%x[0,0]", "constant")
    assert tagger.columns == (1,)
    assert tagger.classifier.n_features_in_ == 1024
    assert '"names": []' in model.read_text()
    new = tmp_path / "new.txt"
    new.write_text("x DT\ny VBZ\n")
    assert run("predict", model, new, "-q").stdout == "x DT B-NP\ny VBZ B-VP\n\n"
    result = run("train", train, "-m", model, "--overwrite", "--template", "words", "--least", 2)
    assert "template is" not in result.stderr
    assert all(n.count("Dogs") == 0 for n in load_tagger(model).classifier.attributes_.names)


def test_labels_in_any_column_and_comments(run, tmp_path):
    path, model = tmp_path / "train.tsv", tmp_path / "m.json"
    path.write_text("# one\nD\tthe\t1\nN\tcat\t2\n\n# two\nD\ta\t1\nN\tNew York\t2\n")
    run("train", path, "-m", model, "--label-column", 0, "--comments", "-t", "words", "-q")
    result = run("evaluate", model, path)
    assert "no B-, I- and O tags: plain accuracy" in result.stdout
    assert re.search(r"accuracy\s+1.0000", result.stdout)
    new = tmp_path / "new.tsv"
    new.write_text("# three\nthe\t1\nNew York\t2\n")
    assert run("predict", model, new, "-q").stdout == "the\t1\tD\nNew York\t2\tN\n\n"


def test_a_label_that_training_did_not_have(run, model, tmp_path):
    path = tmp_path / "test.txt"
    path.write_text("The DT B-NP\ncat NN I-NP\nwell UH B-INTJ\n")
    result = run("evaluate", model, path)
    assert "training did not have B-INTJ: 1 tokens, counted as wrong" in result.stderr
    assert re.search(r"INTJ\D+0.00\D+0.00\D+0.00\D+0\D+0\D+1", result.stdout)
    assert "accuracy of tokens 66.67" in result.stdout


def test_constant_features_and_compressed_files(run, tmp_path):
    path, template = tmp_path / "train.txt.gz", tmp_path / "t.txt"
    path.write_bytes(gzip.compress(b"a X\nb Y\na X\n\nb Y\na X\n"))
    template.write_text("constant\n")
    run("train", path, "-m", tmp_path / "m.json", "-t", template, "-q")
    assert "accuracy" in run("evaluate", tmp_path / "m.json", path).stdout


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has no tokens"),
        ("\n\n \n", "has no tokens"),
        ("a B\nb\n", "bad.txt, line 2: 1 columns where the lines before have 2"),
        ("a B\n\nb B\n", "all labels are 'B'"),
    ],
)
def test_files_that_cannot_be_learned_from(run, tmp_path, content, message):
    path = tmp_path / "bad.txt"
    path.write_text(content)
    result = run("train", path, "-m", tmp_path / "m.json", code=1)
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) <= 2
    assert not (tmp_path / "m.json").exists()


def test_malformed_lines_are_named_by_all_commands(run, model, tmp_path):
    path = tmp_path / "bad.txt"
    path.write_text("The DT B-NP\n\ncat NN\n")
    for command in ("predict", "evaluate"):
        assert "bad.txt, line 3: 2 columns" in run(command, model, path, code=1).stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--l1", 1, "--l2", 1), "not both"),
        (("--l2", 0), "--l2 must be a finite number > 0"),
        (("--choose", "--l2", 1), "leave --l1 and --l2 out"),
        (("--choose", "--loss", "sparsemap"), "for the losses crf and hinge, got sparsemap"),
        (("--choose", "--memory", "2GB"), "--choose needs all sequences in memory"),
        (("--columns", "0,2"), "column 2, which holds the labels"),
        (("--columns", "x"), "numbers such as 0,1"),
        (("--columns", "7"), "the file has 3 columns"),
        (("--columns", "0", "-t", "chunking"), "uses 2 columns"),
        (("--label-column", 3), "the file has 3 columns"),
        (("--label-column", "UPOS"), "names in CoNLL-U alone; got 'UPOS'"),
        (("--c2", 1, "--l2", 1), "give --l2 or --c2, not both"),
        (("--c1", 1, "--C", 1), "give --c1 or --C, not both"),
        (("--C", 0), "--C must be a finite number > 0"),
        (("--c2", "inf"), "--c2 must be a finite number > 0, got inf"),
        (("--dev", "absent.txt", "--quiet"), "--dev shows a score, and --quiet shows none"),
        (("--choose", "--c1", 1), "leave --c1 out"),
        (("-t", "absent"), "no such file, and no template"),
        (("--hash-bits", 40), "30"),
    ],
)
def test_wrong_usage(run, train, tmp_path, options, message):
    result = run("train", train, "-m", tmp_path / "m.json", *options, code=2)
    assert message in " ".join(result.stderr.replace("│", " ").split())


def test_files_are_not_replaced_unasked(run, model, train):
    before = model.read_bytes()
    assert "--overwrite" in run("train", train, "-m", model, code=1).stderr
    kept = model.parent / "kept.txt"
    kept.write_text("mine")
    assert "--overwrite" in run("predict", model, train, "-o", kept, code=1).stderr
    assert kept.read_text() == "mine"
    assert model.read_bytes() == before
    result = run("train", train, "-m", train, "--overwrite", code=1)
    assert "would be written over" in result.stderr
    result = run("predict", model, train, "--overwrite", code=2)
    assert "no effect without --out" in result.stderr


def test_models_of_other_kinds(run, model, train, tmp_path):
    other = tmp_path / "other.json"
    mx.save(mx.Box(0.1), other)
    for command in ("predict", "evaluate"):
        result = run(command, other, train, code=1)
        assert "holds a Box, which is no tagging model" in result.stderr
    result = run("predict", tmp_path / "absent.json", train, code=1)
    assert "no such model" in result.stderr
    result = CliRunner().invoke(cli.main, ["project", str(model), str(train), "-o", "x.tif"])
    assert result.exit_code == 1
    assert "holds a Tagger; expected the model.json of `maxent fit`" in result.stderr
    assert type(mx.load(model)).__name__ == "Tagger"


def test_a_damaged_model(run, model, train):
    text = model.read_text()
    model.write_text(text[: len(text) // 2])
    assert "not JSON, or cut short" in run("predict", model, train, code=1).stderr
    model.write_text(text.replace('"label_column": 2', '"label_column": 9'))
    assert "not match its digest" in run("predict", model, train, code=1).stderr
    document = json.loads(model.read_text())
    del document["digest"]
    model.write_text(json.dumps(document))
    assert "not those of the template" in run("predict", model, train, code=1).stderr


def test_a_full_disk_leaves_no_model(run, train, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    result = run("train", train, "-m", tmp_path / "m.json", "-q", code=1)
    assert "No space left on device" in result.stderr
    assert list(tmp_path.iterdir()) == [train]


def test_an_interrupt_leaves_no_model(run, train, tmp_path, monkeypatch):
    from maxent.core.solvers import Solver

    def interrupt(*_):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Solver, "_record", interrupt)
    result = run("train", train, "-m", tmp_path / "m.json", "-q", code=130)
    assert "interrupted" in result.stderr
    assert not (tmp_path / "m.json").exists()


# -- CoNLL-U ---------------------------------------------------------------------------------------

REST = "\t_\t_\t_"


def word(number, form, upos="_", feats="_", misc="_"):
    return f"{number}\t{form}\t{form.lower()}\t{upos}\t_\t{feats}{REST}\t{misc}"


CONLLU = (
    "\n".join(
        [
            "# sent_id = 1",
            word("1", "Der", "DET", "Case=Nom"),
            word("2", "Hund", "NOUN", "Case=Nom|Number=Sing", "SpaceAfter=No"),
            word("3", ".", "PUNCT"),
            "",
            "# sent_id = 2",
            word("1-2", "Im"),
            word("1", "In", "ADP"),
            word("2", "dem", "DET", "Case=Dat"),
            word("2.1", "alten", "ADJ"),
            word("3", "Haus", "NOUN", "Case=Dat|Number=Sing"),
            word("4", "schlief", "VERB"),
            word("5", ".", "PUNCT"),
            "",
            "# a comment alone",
            "",
        ]
    )
    + "\n"
)


@pytest.fixture
def treebank(tmp_path):
    path = tmp_path / "some.conllu"
    path.write_text(CONLLU)
    return path


@pytest.fixture
def upos(run, treebank, tmp_path):
    path = tmp_path / "upos.json"
    run("train", treebank, "-m", path, "--quiet")
    return path


def without(text, column):
    """The text with _ in a column of its words, by the plain rule that their IDs are integers."""
    rows = [line.split("\t") for line in text.split("\n")]
    for row in rows:
        if row[0].isdigit():
            row[column] = "_"
    return "\n".join("\t".join(row) for row in rows)


def test_conllu_is_recognised_and_its_words_alone_are_read(run, treebank, tmp_path):
    result = run("train", treebank, "-m", tmp_path / "m.json", "--c2", 0.1)
    for note in ("is read as CoNLL-U", "the labels are UPOS", "the template is words, of FORM"):
        assert note in result.stderr
    for name, value in (("sequences", 2), ("tokens", 8), ("labels", 5)):  # no range, no ADJ
        assert re.search(rf"{name}\s+{value}\b", result.stdout)
    tagger = load_tagger(tmp_path / "m.json")
    assert (tagger.form, tagger.columns, tagger.label_column) == ("conllu", (1,), 3)
    assert set(tagger.classifier.classes_) == {"DET", "NOUN", "PUNCT", "ADP", "VERB"}
    assert tagger.classifier.potential.strength == 2 * 0.1 / 2
    result = run("evaluate", tmp_path / "m.json", treebank)
    assert re.search(r"tokens\s+8\b", result.stdout)


def test_predictions_fill_the_column_and_keep_all_else(run, upos, treebank, tmp_path):
    new, out = tmp_path / "new.txt", tmp_path / "out.conllu"
    new.write_text(without(CONLLU, 3))
    result = run("predict", upos, new)
    assert result.stdout == CONLLU  # ranges, empty nodes, comments and tabs
    assert "replaced" not in result.stderr
    result = run("predict", upos, treebank, "-o", out)
    assert out.read_text() == CONLLU
    assert f"UPOS of {treebank} is replaced by predictions" in result.stderr.replace("\n", "")
    assert "_ for all words" in run("evaluate", upos, new, code=1).stderr
    text = run("predict", upos, treebank, "--proba", "-q").stdout
    shown = [line.rsplit("\t", 1)[1] for line in text.splitlines() if line[:1].isdigit()]
    assert re.fullmatch(r"SpaceAfter=No\|Probability=0\.\d{6}", shown[1])
    assert [shown[3], shown[6]] == ["_", "_"]  # a range and an empty node
    lines = run("predict", upos, treebank, "--best", 2, "-q").stdout.splitlines()
    assert lines[:2] == ["# sent_id = 1", "# path = 1 of 2"]
    assert lines[2].startswith("# score = ")
    assert lines.count("# sent_id = 2") == 2
    assert lines[-2:] == ["# a comment alone", ""]


def test_columns_by_name_and_features_as_attributes(run, treebank, tmp_path):
    model, template = tmp_path / "m.json", tmp_path / "template.txt"
    run("train", treebank, "-m", model, "--columns", "FORM,feats", "-q")
    names = load_tagger(model).classifier.attributes_.names
    assert {"FEATS[0]=Case=Nom", "FEATS[-1]=Number=Sing", "w[0]=Hund"} <= set(names)
    assert not any("|Number" in name for name in names)
    template.write_text("lemma=%x[0,LEMMA]\n%x[0,UPOS]|%x[1,UPOS]\n")
    run("train", treebank, "-m", model, "-t", template, "--label-column", "FEATS", "--overwrite")
    tagger = load_tagger(model)
    assert (tagger.columns, tagger.label_column) == ((2, 3), 5)
    assert "_" in tagger.classifier.classes_  # no features at all
    assert tagger.classifier.attributes_.names[:2] == ["lemma=der", "DET|NOUN"]
    for options, message in (
        (("-t", template), "the template uses the column of the labels"),
        (("--columns", "FORM", "-t", template), "names the column LEMMA"),
        (("--label-column", "POS"), "takes a number, or one of ID, FORM"),
        (("--label-column", "XPOS"), "all labels are '_'"),
        (("--label-column", "FORM"), "the labels are FORM: give other --columns"),
        (("--label-column", "ID"), "it numbers the words, and is no label"),
    ):
        result = CliRunner().invoke(
            cli.main, ["tag", "train", str(treebank), "-m", str(model), "--overwrite"]
            + [str(option) for option in options]
        )  # fmt: skip
        assert result.exit_code in (1, 2)
        assert message in " ".join(result.stderr.replace("│", " ").split())


def test_numbers_of_a_template_are_told(run, treebank, tmp_path):
    model, template = tmp_path / "m.json", tmp_path / "template.txt"
    template.write_text("w=%x[0,0]\n")
    result = run("train", treebank, "-m", model, "-t", template)
    assert "column 0 of the template is FORM" in result.stderr
    assert load_tagger(model).columns == (1,)
    template.write_text("w=%x[0,0]\nlemma=%x[0,LEMMA]\n")
    result = run("train", treebank, "-m", model, "-t", template, "--overwrite", code=2)
    assert "calls columns by numbers and by names" in " ".join(result.stderr.split())


def test_probabilities_do_not_take_the_place_of_labels(run, treebank, tmp_path):
    model = tmp_path / "m.json"
    run("train", treebank, "-m", model, "--label-column", "MISC", "-q")
    result = run("predict", model, treebank, "--proba", code=2)
    assert "writes to MISC, where this model has its labels" in result.stderr.replace("│", " ")


def test_words_without_a_label_are_refused(run, treebank, tmp_path):
    treebank.write_text(CONLLU.replace("dem\tdem\tDET", "dem\tdem\t_"))
    for place in ([], ["--memory", "2GB"]):
        result = run("train", treebank, "-m", tmp_path / "m.json", *place, code=1)
        assert "1 words have no UPOS (_), the first is 'dem'" in result.stderr


def test_the_format_can_be_told(run, treebank, tmp_path):
    model = tmp_path / "m.json"
    result = run("train", treebank, "-m", model, "--format", "columns", code=1)
    assert "line 1 begins with #: if that is a comment, `tag train --comments`" in result.stderr
    bare = tmp_path / "bare.txt"
    bare.write_text(without(CONLLU, 0).replace("# ", "#"))
    run("train", bare, "-m", model, "--format", "conllu", code=1)
    options = ("--format", "columns", "--comments", "--columns", 1, "--label-column", 3)
    run("train", treebank, "-m", model, *options, "-q")
    assert load_tagger(model).form == "columns"
    assert "_" in load_tagger(model).classifier.classes_  # the range, as before


def test_conllu_in_blocks_gives_the_same_model(run, treebank, tmp_path):
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    treebank.write_text(CONLLU * 3)
    options = ("--tol", 1e-9, "--c1", 0.01, "--c2", 0.3)
    plain = run("train", treebank, "-m", one, *options)
    result = run("train", treebank, "-m", other, "--memory", "2GB", *options)
    for name in ("sequences", "tokens", "labels", "objective"):
        row = re.compile(rf"{name} .*")
        assert row.search(plain.stdout)[0] == row.search(result.stdout)[0]
    assert load_tagger(other).form == "conllu"
    penalty = load_tagger(other).classifier.potential
    assert (penalty.beta, penalty.strength) == pytest.approx((0.01 / 6, 2 * 0.3 / 6))


# -- constants, development sets and stopping ------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--c1", 2), mx.Box(0.5)),
        (("--c2", 2), mx.Quadratic(1.0)),
        (("--C", 2, "--loss", "hinge"), mx.Quadratic(1 / 8)),
    ],
)
def test_constants_of_the_literature(run, train, tmp_path, options, expected):
    run("train", train, "-m", tmp_path / "m.json", *options, "-q")
    assert load_tagger(tmp_path / "m.json").classifier.potential == expected


def test_a_development_set_is_scored_while_training(run, train, tmp_path):
    result = run("train", train, "-m", tmp_path / "m.json", "--dev", train)
    shown = re.findall(
        r"iteration (\d+): objective \S+, duality gap \S+, F1 (\S+) on", result.stderr
    )
    assert [number for number, _ in shown][:3] == ["1", "2", "3"]
    assert float(shown[-1][1]) == 1
    assert re.search(r"F1 on --dev\s+1.0000", result.stdout)
    plain = tmp_path / "plain.json"
    run("train", train, "-m", plain, "-q")
    weights = [load_tagger(p).classifier.weights_ for p in (plain, tmp_path / "m.json")]
    np.testing.assert_array_equal(*weights)  # nothing is learned from it


def test_a_development_set_with_labels_of_its_own(run, train, tmp_path):
    dev = tmp_path / "dev.txt"
    dev.write_text("The DT B-NP\ncat NN I-XP\n")
    result = run("train", train, "-m", tmp_path / "m.json", "--dev", dev)
    assert "training did not have I-XP: 1 tokens, counted as wrong" in result.stderr


def test_a_development_set_is_scored_for_programs(train, tmp_path):
    arguments = ["tag", "train", str(train), "-m", str(tmp_path / "m.json"), "--dev", str(train)]
    result = CliRunner().invoke(cli.main, ["--json", *arguments, "--quiet"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["result"]["dev"] == {"score": "f1", "value": 1.0}


def test_a_fit_stops_when_its_objective_has_settled(run, train, tmp_path):
    model = tmp_path / "m.json"
    options = ("-m", model, "--overwrite", "--l2", 1e-4, "--tol", 0, "--delta")
    result = run("train", train, *options, 0.5)
    assert "stopped by --delta: 10 iterations have changed the objective by less" in result.stderr
    rough = load_tagger(model).classifier
    run("train", train, *options, 1e-5)
    fine = load_tagger(model).classifier
    assert 10 < rough.n_iter_ < fine.n_iter_ < 200
    assert fine.objective_ < rough.objective_


def test_tabs_stay_tabs(run, tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("the\tD\ncat\tN\n\n")
    run("train", path, "-m", tmp_path / "m.json", "-q")
    assert run("predict", tmp_path / "m.json", path).stdout == "the\tD\tD\ncat\tN\tN\n\n"


def test_ends_of_lines_and_packing_stay(run, model, upos, treebank, train, tmp_path):
    for tagger, file, text in ((model, train, train.read_text()), (upos, treebank, CONLLU)):
        windows, out = tmp_path / "windows.txt", tmp_path / "out.txt.gz"
        windows.write_bytes(text.replace("\n", "\r\n").encode())
        run("predict", tagger, windows, "-o", out, "--overwrite")
        plain = run("predict", tagger, file).stdout
        assert gzip.decompress(out.read_bytes()).decode() == plain.replace("\n", "\r\n")


def test_columns_of_a_pipe_are_a_guess(run, model, train, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(train.read_bytes()))
    writer.start()
    result = run("predict", model, pipe)
    writer.join()
    assert "is no plain file: a space between columns, or tabs around one" in result.stderr


def test_a_pipe_is_read_once(run, train, treebank, tmp_path):
    for number, (file, form) in enumerate(((train, "columns"), (treebank, "conllu"))):
        pipe, model = tmp_path / f"pipe{number}", tmp_path / f"{number}.json"
        os.mkfifo(pipe)
        writer = threading.Thread(target=lambda: pipe.write_bytes(file.read_bytes()))  # noqa: B023
        writer.start()
        options = () if form == "columns" else ("--format", form)
        result = run("train", pipe, "-m", model, *options)
        writer.join()
        assert ("no plain file: read as columns" in result.stderr) == (form == "columns")
        assert load_tagger(model).form == form
