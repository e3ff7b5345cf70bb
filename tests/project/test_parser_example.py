"""The parser of the examples reads treebanks; that it learns is asserted where examples run."""

import gzip
import runpy
from pathlib import Path

import pytest

from tools import needs

torch = needs("torch")

PARSER = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "examples" / "parser.py"))
CONLLU = """# text = don't go
1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tdo\tdo\tAUX\t_\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\t_\t_\t3\tadvmod\t_\t_
3\tgo\tgo\tVERB\t_\t_\t0\troot\t_\t_
3.1\tgone\t_\tVERB\t_\t_\t_\t_\t_\t_

1\tGo\tgo\tVERB\t_\t_\t0\troot\t_\t_

"""


def test_treebanks_are_read(tmp_path) -> None:
    (tmp_path / "xx-train.conllu.gz").write_bytes(gzip.compress(CONLLU.encode()))
    (tmp_path / "xx-dev.conllu").write_text(CONLLU)
    train = PARSER["read_part"](tmp_path, "xx", "train")
    assert train == PARSER["read_part"](tmp_path, "xx", "dev")
    assert train[0] == (["do", "n't", "go"], ["AUX", "PART", "VERB"], [3, 3, 0])
    assert train[1].heads == [0]
    with pytest.raises(SystemExit, match="has 0 files"):
        PARSER["read_part"](tmp_path, "yy", "train")


def test_trees_without_crossings_share_most_heads() -> None:
    sentences = PARSER["tiny_treebank"]()
    vocabulary = PARSER["Vocabulary"](sentences, 1)
    (batch,) = vocabulary.batches(sentences, 1000, "cpu")
    heads = PARSER["without_crossings"](batch).heads
    same = (heads == batch.heads)[:, 1:].all(dim=1).tolist()
    assert same == [True, True, True, True, False]  # the last one is not projective
    assert int((heads[4] != batch.heads[4]).sum()) == 1


@pytest.mark.slow
def test_a_projective_parser_learns() -> None:
    tiny = PARSER["tiny_treebank"]()[:4]
    parts = {"train": tiny, "dev": tiny, "test": tiny}
    small = {"lr": 1e-2, "least": 1, "hidden": 20, "dropout": 0.0, "projective": True}
    found = PARSER["train"]("crf", parts, 25, 100, **small)
    assert found["test"] > 0.9
    assert "test, other trees" in found


def test_batches_are_padded() -> None:
    sentences = PARSER["tiny_treebank"]()
    vocabulary = PARSER["Vocabulary"](sentences, 1)
    (batch,) = vocabulary.batches(sentences, 1000, "cpu")
    assert batch.lengths.tolist() == [4, 6, 6, 8, 9]
    assert batch.heads.shape == batch.words.shape == (5, 9)
    assert batch.heads[0].tolist() == [0, 2, 3, 0, 0, 0, 0, 0, 0]
    assert (batch.words[:, 0] == 2).all()
