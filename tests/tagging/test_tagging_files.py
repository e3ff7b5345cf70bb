"""Column files, templates, and phrases as conlleval counts them."""

import gzip

import pytest

from maxent import io
from maxent.tagging import (
    TEMPLATES,
    Template,
    are_phrase_tags,
    phrase_scores,
    phrases,
    read_conll,
)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a b\nc d\n\ne f", [[("a", "b"), ("c", "d")], [("e", "f")]]),
        ("a  b\r\n\r\nc d\r\n", [[("a", "b")], [("c", "d")]]),
        ("New York\tB\n", [[("New York", "B")]]),
        ("\ufeffa b\n", [[("a", "b")]]),
        ("a\u00a0b x\n", [[("a\u00a0b", "x")]]),  # no white space but the blank separates
        ("# x\n", [[("#", "x")]]),
        ("\u00a0\tx\n\u2028\ty\n", [[("\u00a0", "x"), ("\u2028", "y")]]),  # words, not blank lines
    ],
)
def test_columns_of_lines(tmp_path, content, expected):
    path = tmp_path / "some.txt"
    path.write_bytes(content.encode())
    assert read_conll(path) == expected
    path = tmp_path / "some.txt.gz"
    path.write_bytes(gzip.compress(content.encode()))
    assert read_conll(path) == expected


def test_comments_and_separators(tmp_path):
    path = tmp_path / "some.conllu"
    path.write_text("# text = a b\n1\ta\n2\tb\n\n# sent 2\n1\tc\n")
    assert read_conll(path, comments=True) == [[("1", "a"), ("2", "b")], [("1", "c")]]
    path.write_text("a,b c\n")
    assert read_conll(path, separator=",") == [[("a", "b c")]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a b\n\na\n", r"some\.txt, line 3: 1 columns where the lines before have 2: 'a'"),
        (b"a\tb\nc\t\n", r"some\.txt, line 2: column 1 is empty"),
        (b"a b\n\xff\xfe c\n", r"some\.txt, line 2: not UTF-8"),
        (b"\n \n", r"some\.txt has no tokens"),
        (b"", r"some\.txt has no tokens"),
    ],
)
def test_malformed_files_name_the_line(tmp_path, content, message):
    path = tmp_path / "some.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_conll(path)


def test_a_file_that_is_no_gzip(tmp_path):
    path = tmp_path / "some.gz"
    for content in (b"a b\n", gzip.compress(b"a b\n" * 50)[:-9]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="no gzip file, or cut short"):
            read_conll(path)


SENTENCE = [("He", "PRP"), ("reckons", "VBZ"), ("so", "RB")]


def test_lines_that_look_past_an_end_are_left_out():
    template = Template(["w-2=%x[-2,0]", "p=%x[0,1]|%x[1,1]", "bias", "first: F", "last: L"])
    assert [list(token) for token in next(template.tokens([SENTENCE]))] == [
        ["p=PRP|VBZ", "bias", "F"],
        ["p=VBZ|RB", "bias"],
        ["w-2=He", "bias", "L"],
    ]
    assert next(template.tokens([SENTENCE[:1]])) == [["bias", "F", "L"]]


def test_sequences_do_not_see_their_neighbours():
    template = TEMPLATES["chunking"]
    together = [list(map(list, tokens)) for tokens in template.tokens([SENTENCE] * 600)]
    alone = [list(map(list, next(template.tokens([SENTENCE]))))] * 600
    assert together == alone
    assert alone[0][0] == [
        *("w[0]=He", "w[1]=reckons", "w[2]=so", "w[0]|w[1]=He|reckons", "pos[0]=PRP"),
        *("pos[1]=VBZ", "pos[2]=RB", "pos[0]|pos[1]=PRP|VBZ", "pos[1]|pos[2]=VBZ|RB"),
        *("pos[0]|pos[1]|pos[2]=PRP|VBZ|RB", "__BOS__"),
    ]


def test_changes_of_columns_and_literal_percents():
    lines = [
        "%x[0,0:lower]",
        "a%=%x[0,0:prefix2]",
        "b%=%x[0,0:suffix3]%s%x[0,1]",
        "s=%x[ 0 , 0 : shape ]",
        "%x[0,1]%x[0,1]%%x[0,1]",
    ]
    token = next(Template(lines).tokens([[("McDonald's-1987", "N")]]))[0]
    assert token == ["mcdonald's-1987", "a%=Mc", "b%=987%sN", "s=XxXxx'x-00", "NN%N"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "no line with an attribute"),
        (["# only", "", "B", "first: X"], "no line with an attribute"),
        (["w=%x[0]"], r"line 1: 'w=%x\[0\]' has a macro that is not of the form"),
        (["a", "w=%x[0,0:upside]"], "line 2: 'upside' is no change"),
        (["w=%x[0,0:suffix0]"], "no change"),
        (["w=%x[500,0]"], "more than 100 tokens away"),
        (["a", "first: %x[0,0]"], "needs a name without %x"),
        (["U0:%x[0,0]", "B1:%x[0,0]"], "line 2: .* asks for transitions"),
    ],
)
def test_malformed_templates_name_the_line(lines, message):
    with pytest.raises(ValueError, match=message):
        Template(lines)


def test_a_template_needs_its_columns():
    template = Template(["w=%x[0,2]"])
    assert template.n_columns == 3
    with pytest.raises(ValueError, match="uses column 2, but tokens of sequence 1 have 2 columns"):
        list(template.tokens([[("a", "b", "c")], SENTENCE]))


def test_templates_are_stored_and_read(tmp_path):
    path = tmp_path / "template.txt"
    path.write_text("# words\nU00:%x[-1,0]\n\nU01:%x[0,0]\nB\n")
    template = Template.read(path)
    io.save(template, tmp_path / "model.json")
    again = io.load(tmp_path / "model.json")
    assert list(again.tokens([SENTENCE])) == list(template.tokens([SENTENCE]))
    assert next(again.tokens([SENTENCE]))[1] == ("U00:He", "U01:reckons")
    path.write_text("bad %x\n")
    with pytest.raises(ValueError, match=r"template\.txt, line 1"):
        Template.read(path)


# by hand, from the rules that the evaluation script of the CoNLL shared tasks applies
@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O O", []),
        ("B-A I-A", [(0, 2, "A")]),
        ("I-A I-A", [(0, 2, "A")]),
        ("B-A B-A", [(0, 1, "A"), (1, 2, "A")]),
        ("I-A B-A I-A", [(0, 1, "A"), (1, 3, "A")]),
        ("B-A I-B", [(0, 1, "A"), (1, 2, "B")]),
        ("B-A O I-A", [(0, 1, "A"), (2, 3, "A")]),
        ("O I-A-B I-A-B", [(1, 3, "A-B")]),
        ("S-A B-A E-A I-A", [(0, 1, "A"), (1, 3, "A"), (3, 4, "A")]),
        ("U-A B-A I-A L-A", [(0, 1, "A"), (1, 4, "A")]),
        ("", []),
    ],
)
def test_phrases_by_the_rules_of_conlleval(tags, expected):
    assert list(phrases(tags.split())) == expected


def test_scores_counted_by_hand():
    given = ["B-A I-A O B-B", "B-A B-A I-A", "O O"]
    predicted = ["B-A I-A O B-A", "B-A I-A I-A", "B-C O"]
    scores = phrase_scores([g.split() for g in given], [p.split() for p in predicted])
    assert (scores.correct, scores.predicted, scores.given) == (1, 4, 4)
    assert (scores.precision, scores.recall, scores.f1) == (0.25, 0.25, 0.25)
    assert scores.accuracy == pytest.approx(6 / 9)
    assert scores.types["A"] == (1 / 3, 1 / 3, pytest.approx(1 / 3), 1, 3, 3)
    assert scores.types["B"] == (0, 0, 0, 0, 0, 1)
    assert scores.types["C"] == (0, 0, 0, 0, 1, 0)
    nothing = phrase_scores([["O"]], [["O"]])
    assert (nothing.f1, nothing.accuracy, nothing.types) == (0, 1, {})


def test_labels_that_are_no_phrase_tags():
    assert are_phrase_tags({"O", "B-NP", "I-NP"})
    assert are_phrase_tags({"S-X"})
    assert not are_phrase_tags({"O"})
    assert not are_phrase_tags({"O", "NN"})
    assert not are_phrase_tags({"B-"})
    with pytest.raises(ValueError, match="tag 1 is 'NN'"):
        list(phrases(["O", "NN"]))
