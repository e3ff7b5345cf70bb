"""CoNLL-U: what is a word and what is not, the labels of words alone, all else as it was."""

import gzip

import pytest

from maxent.tagging import (
    Template,
    features,
    is_conllu,
    read_conll,
    read_conllu,
    write_conllu,
)
from maxent.tagging.conll import CONLLU, conll_spans, read_conll_span
from maxent.tagging.conllu import with_entry

REST = "\t_\t_\t_\t_"
# two sentences: a range, two empty nodes, a comment that stands alone, a form with a space
TEXT = (
    f"# sent_id = 1\n# text = vámonos al mar\n1-2\tvámonos\t_\t_\t_\t_{REST}\n"
    f"1\tvamos\tir\tVERB\t_\tMood=Imp|Number=Plur{REST}\n2\tnos\tnosotros\tPRON\t_\tNumber=Plur{REST}\n"
    f"2.1\tya\tya\tADV\t_\t_{REST}\n3-4\tal\t_\t_\t_\t_{REST}\n3\ta\ta\tADP\t_\t_{REST}\n"
    f"4\tel\tel\tDET\t_\tNumber=Sing{REST}\n5\tmar\tmar\tNOUN\t_\tNumber=Sing\t_\t_\t_\tSpaceAfter=No\n\n"
    "# the end of a document\n\n"
    f"# sent_id = 2\n0.1\tyo\tyo\tPRON\t_\t_{REST}\n1\t10 000\t10000\tNUM\t_\t_{REST}\n\n"
)
WORDS = [["vamos", "nos", "a", "el", "mar"], ["10 000"]]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "some.conllu"
    path.write_text(TEXT)
    return path


def words_by_hand(text):
    """The rule of the format's own description: an integer ID is a word, nothing else is."""
    blocks = [block.splitlines() for block in text.split("\n\n")]
    rows = [[tuple(line.split("\t")) for line in block] for block in blocks]
    return [words for r in rows if (words := [row for row in r if row[0].isdigit()])]


def test_words_are_what_the_format_calls_so(path):
    sentences = read_conllu(path)
    assert [s.column("FORM") for s in sentences if s.places] == WORDS
    assert [s.words for s in sentences if s.places] == words_by_hand(TEXT)
    assert sentences[0].comments == ["# sent_id = 1", "# text = vámonos al mar"]
    assert sentences[1].comments == ["# the end of a document"]


@pytest.mark.parametrize("name", ["copy.conllu", "copy.conllu.gz"])
def test_what_is_read_is_written(path, name):
    copy = path.parent / name
    write_conllu(read_conllu(path), copy)
    data = copy.read_bytes()
    assert (gzip.decompress(data) if name.endswith("gz") else data).decode() == TEXT
    assert read_conllu(copy) == read_conllu(path)


def test_one_column_is_filled_and_nothing_else(path):
    sentence = read_conllu(path)[0]
    filled = sentence.with_column("XPOS", list("ABCDE"))
    assert filled.column("XPOS") == list("ABCDE")
    changed = [
        i for i, (a, b) in enumerate(zip(sentence.lines, filled.lines, strict=True)) if a != b
    ]
    assert changed == list(sentence.places) == [3, 4, 7, 8, 9]
    assert filled.with_column("XPOS", ["_"] * 5) == sentence
    for column, values, message in (
        ("XPOS", ["A"], "1 values for the 5 words"),
        ("POS", list("ABCDE"), "no column 'POS': its columns are ID, FORM"),
        ("XPOS", ["A\tB", *"BCDE"], "cannot stand in a column"),
    ):
        with pytest.raises(ValueError, match=message):
            sentence.with_column(column, values)


def test_a_comment_more(path):
    sentence = read_conllu(path)[0].with_comment("# score = 1")
    assert sentence.lines[2:4] == ("# score = 1", f"1-2\tvámonos\t_\t_\t_\t_{REST}")
    assert sentence.column("FORM") == WORDS[0]


def test_features_are_attributes():
    assert features("Case=Nom|Number[psor]=Sing") == {"Case": "Nom", "Number[psor]": "Sing"}
    assert features("_") == {}
    assert with_entry("P", "_", "1") == "P=1"
    assert with_entry("P", "A=x|P=2", "1") == "A=x|P=1"
    template = Template(["w=%x[0,FORM]", "b=%x[-1,FEATS:each]"], columns=["FORM", "FEATS"])
    assert template.lines == ("w=%x[0,0]", "b=%x[-1,1:each]")
    tokens = [("a", "X=1|Y=2"), ("b", "_"), ("c", "Z=3")]
    made = [[list(token) for token in one] for one in template.tokens([tokens, tokens[:1]])]
    assert made == [[["w=a"], ["w=b", "b=X=1", "b=Y=2"], ["w=c"]], [["w=a"]]]
    alone = Template(["%x[0,0:each]"])
    assert list(alone.tokens([[("X=1|Y=2",), ("_",)]])) == [[["X=1", "Y=2"], []]]
    for lines, columns, message in (
        (["%x[0,LEMMA]"], ["FORM"], "names the column LEMMA, and the columns are FORM"),
        (["%x[0,LEMMA]"], [], "give its number"),
        (["%x[0,0:each]|%x[1,0]"], [], "more than one macro"),
    ):
        with pytest.raises(ValueError, match=message):
            Template(lines, columns=columns)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\n3\ta", "\n4\ta", r"line 8: the ID is 4, expected 3"),
        ("3-4\tal", "2-3\tal", r"line 7: the range 2-3 is out of place"),
        ("3-4\tal", "3-9\tal", r"line 11: the sentence ends with word 5, and a range goes on to"),
        ("1-2\t", "1-3\t", r"line 7: the range 3-4 is out of place"),
        (
            "2.1\tya",
            "1.1\tya",
            r"line 6: the empty node 1.1 is out of place: the word before it is 2",
        ),
        ("2\tnos", "two\tnos", r"line 5: the ID is 'two', expected a word"),
        ("2\tnos", "2\t", r"line 5: FORM is empty, expected _"),
        ("\tya\tADV", " ya ADV", r"line 6: 8 columns, and CoNLL-U has 10, separated by tabs"),
    ],
)
def test_malformed_files_name_the_line(path, old, new, message):
    assert old in TEXT
    path.write_text(TEXT.replace(old, new, 1))
    with pytest.raises(ValueError, match=rf"some\.conllu, {message}"):
        read_conllu(path)
    path.write_text("# nothing\n\n")
    with pytest.raises(ValueError, match="has no words"):
        read_conllu(path)


def test_what_is_recognised(tmp_path):
    path = tmp_path / "some.txt"
    for content, expected in (
        (TEXT, True),
        ("\ufeff" + TEXT, True),
        (TEXT.replace("\n", "\r\n"), True),
        ("\t".join("abcdefghij") + "\n", False),
        ("1 a b c d e f g h i\n", False),
        ("He\tPRP\tB-NP\n", False),
        ("", False),
    ):
        path.write_bytes(content.encode())
        assert is_conllu(path) is expected
        if expected:
            assert [s.column("FORM") for s in read_conllu(path) if s.places] == WORDS


def test_spans_are_the_words_of_the_file(path):
    for size in (1, 150, 10**6):
        spans = conll_spans(path, size, form=CONLLU)
        assert sum(span.tokens for span in spans) == 6
        assert sum(span.sequences for span in spans) == 2
        read = [s for span in spans for s in read_conll_span(path, span, 10, form=CONLLU)]
        assert read == words_by_hand(TEXT)


def test_comments_that_are_read_as_tokens_are_told(path):
    with pytest.raises(ValueError, match=r"line 1 begins with #.*comments=True"):
        read_conll(path)


def test_white_space_that_is_a_word(tmp_path):
    path = tmp_path / "some.conllu"
    path.write_text(TEXT.replace("\tnos\t", "\t\u3000\t"))
    read = read_conllu(path)
    assert [s.column("FORM") for s in read if s.places] == [
        ["vamos", "\u3000", *WORDS[0][2:]],
        WORDS[1],
    ]
    write_conllu(read, tmp_path / "copy.conllu")
    assert (tmp_path / "copy.conllu").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("value", [1, None, "", "a\tb"])
def test_what_cannot_stand_in_a_column(path, value):
    sentence = read_conllu(path)[0]
    with pytest.raises(ValueError, match="cannot stand in a column: give a text"):
        sentence.with_column("UPOS", [value] * len(sentence.places))
