"""Chain models of sequences in blocks: estimator, weights and certificate of a fit in memory."""

import gzip
import re
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from typer.testing import CliRunner

import maxent as mx
from maxent import cli
from maxent.cli import _tag_blocks
from maxent.learn.structured.chain import SeparableWarning
from maxent.rows.blocks import FileBlocks, MemoryBlocks, SequenceBlock
from maxent.rows.blocks.table import BlockTable
from maxent.tagging import load_tagger, read_conll
from maxent.tagging.conll import conll_spans, read_conll_span
from tools import needs

dask, db = needs("dask"), needs("dask.bag")

CUTS = (0, 3, 3, 17, 25, 30)  # the second block is empty
KINDS = ("A", "BB", "C")


def corpus(seed=0, size=30):
    """Names that occur in some blocks alone, and labels that are noisy."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for i in range(size):
        words = rng.integers(0, 12, rng.integers(1, 7))
        X.append([[f"w={a}", f"p={a % 3}", f"near={(a + i) // 4}"] for a in words])
        y.append([KINDS[(a + int(rng.random() < 0.3)) % 3] for a in words])
    return X, y


X, Y = corpus()


def blocks(X=X, y=Y, cuts=CUTS, weight=None):
    return [
        SequenceBlock(i, X[a:b], y[a:b], None if weight is None else weight[a:b])
        for i, (a, b) in enumerate(pairwise(cuts))
    ]


def table(*args, **kwargs):
    return BlockTable(MemoryBlocks(blocks(*args, **kwargs)))


def same(mine, theirs, atol=1e-8):
    """The same estimator in every respect."""
    np.testing.assert_array_equal(mine.classes_, theirs.classes_)
    assert mine.classes_.dtype == theirs.classes_.dtype
    if theirs.attributes_ is None:
        assert mine.attributes_ is None
    else:
        assert mine.attributes_.names == theirs.attributes_.names
    assert mine.n_features_in_ == theirs.n_features_in_
    for name in ("start_", "state_"):
        np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name))
    np.testing.assert_allclose(mine.weights_, theirs.weights_, atol=atol, rtol=0)
    assert mine.objective_ == pytest.approx(theirs.objective_, abs=1e-10)
    assert mine.loss_ == pytest.approx(theirs.loss_, abs=max(1e-9, 1e-3 * atol))


MODELS = {
    "L2CRF": mx.L2CRF(0.5, tol=1e-13),
    "L1CRF": mx.L1CRF(0.5, tol=1e-12),
    "OWL-QN": mx.L1CRF(0.5, tol=1e-12, solver="owlqn"),
    "softmax-margin": mx.ChainClassifier("softmax-margin", 0.05, tol=1e-13),
    "sparsemap": mx.ChainClassifier("sparsemap", 0.05, tol=1e-13),
    "sparsemap, l1": mx.ChainClassifier("sparsemap", mx.Box(0.2), tol=1e-9),
    "smoothed max": mx.ChainClassifier(mx.Tsallis(1.5), 0.05, tol=1e-12),
    "input": mx.ChainClassifier("crf", 0.05, transitions="input", tol=1e-13),
    "all pairs": mx.L2CRF(0.5, tol=1e-13, all_pairs=True),
    "ball": mx.ChainClassifier("crf", mx.Ball(0.05), tol=1e-11),
    "frequent": mx.L2CRF(0.5, tol=1e-13, least=12),
    "M3N": mx.M3N(0.05, tol=1e-11),
    "variational": mx.LaplaceMEDN(1.0, method="variational", rounds=1, tol=1e-10),
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_blocks_give_the_model_of_a_fit_in_memory(model):
    mine, theirs = clone(model).fit(table()), clone(model).fit(X, Y)
    # in memory the gap of an l1 random field is tighter, and OWL-QN ends some steps sooner
    same(mine, theirs, 1e-5 if getattr(model, "solver", "") == "owlqn" else 1e-8)
    assert mine.gap_ <= model.tol
    if not isinstance(model, mx.M3N | mx.LaplaceMEDN):  # those have another solver in memory
        assert mine.gap_ == pytest.approx(theirs.gap_, rel=0.05, abs=2e-12)
    probe = [*X[:5], [["unseen"]]]
    for a, b in zip(mine.predict(probe), theirs.predict(probe), strict=True):
        np.testing.assert_array_equal(a, b)


def test_rare_names_are_left_out_of_all_blocks():
    few, all_ = mx.L2CRF(least=12).fit(table()), mx.L2CRF().fit(table())
    assert 0 < few.n_features_in_ < all_.n_features_in_
    with pytest.raises(ValueError, match="no attribute occurs 1000 times: lower least"):
        mx.L2CRF(least=1000).fit(table())


def test_l1_hinges_are_certified_by_planes_of_sums():
    """An optimum may have several weights: objectives agree to the gaps."""
    rng = np.random.default_rng(3)
    few = [rng.normal(size=(len(x), 2)) for x in X[:12]]
    for settings in ({}, {"transitions": "input"}):
        mine = mx.L1M3N(0.1, tol=1e-9, **settings).fit(table(few, Y, (0, 4, 12)))
        theirs = mx.L1M3N(0.1, tol=1e-9, **settings).fit(few, Y[:12])
        assert max(mine.gap_, theirs.gap_) <= 1e-9
        assert abs(mine.objective_ - theirs.objective_) <= 2e-9


def test_a_gap_in_blocks_bounds_the_distance_to_the_optimum():
    for rough, fine in (
        (mx.L1CRF(0.5, solver="fista", max_iter=12), mx.L1CRF(0.5, tol=1e-10)),
        (mx.M3N(max_iter=12), mx.M3N(tol=1e-9)),
    ):
        with pytest.warns(mx.ConvergenceWarning):
            rough.fit(table())
        assert 0 < rough.objective_ - fine.fit(X, Y).objective_ <= rough.gap_ + 1e-9


@pytest.mark.parametrize("kind", ["dense", "sparse", "mixed"])
def test_matrices(kind):
    rng = np.random.default_rng(1)
    dense = [rng.normal(size=(len(x), 3)) * (rng.random((len(x), 3)) < 0.6) for x in X]
    as_sparse = [sparse.csr_array(x) for x in dense]
    given = {"dense": dense, "sparse": as_sparse, "mixed": [*as_sparse[:17], *dense[17:]]}[kind]
    mine = mx.L2CRF(tol=1e-12).fit(table(given))
    same(mine, mx.L2CRF(tol=1e-12).fit(dense if kind == "dense" else as_sparse, Y))


def test_weights_of_sequences_wherever_they_are():
    weight = np.random.default_rng(2).integers(0, 3, 30).astype(float)
    weight[:3] = 0  # a whole block
    theirs = mx.L2CRF(tol=1e-13).fit(X, Y, weight)
    same(mx.L2CRF(tol=1e-13).fit(table(weight=weight)), theirs)
    same(mx.L2CRF(tol=1e-13).fit(table(), sample_weight=weight), theirs)
    with pytest.raises(ValueError, match="one entry per row, shape \\(30,\\), got \\(29,\\)"):
        mx.L2CRF().fit(table(), sample_weight=weight[:-1])
    with pytest.raises(ValueError, match="all sample weights are zero"):
        mx.L2CRF().fit(table(), sample_weight=np.zeros(30))


def test_weights_of_zero_leave_no_trace():
    """Names, labels and pairs of sequences of weight 0 are not those of the model."""
    weight = np.ones(30)
    weight[[1, 4, 20]] = 0
    labels = [["D"] * len(y) if i == 20 else y for i, y in enumerate(Y)]
    theirs = mx.L2CRF(least=2, tol=1e-13).fit(X, labels, weight)
    assert theirs.classes_.tolist() == list(KINDS)
    same(mx.L2CRF(least=2, tol=1e-13).fit(table(y=labels, weight=weight)), theirs)
    same(mx.L2CRF(least=2, tol=1e-13).fit(table(y=labels), sample_weight=weight), theirs)
    with pytest.raises(ValueError, match="all sample weights are zero"):
        mx.L2CRF().fit(table(weight=np.zeros(30)))


def test_labels_that_only_some_blocks_have():
    """Numbers in one block and texts in another are refused, as in memory."""
    labels = [[f"{label}{i // 10}" for label in y] for i, y in enumerate(Y)]
    same(mx.L2CRF(tol=1e-12).fit(table(y=labels)), mx.L2CRF(tol=1e-12).fit(X, labels))
    mixed = [[len(label) for label in y] if i < 3 else y for i, y in enumerate(Y)]
    for data in ((table(y=mixed),), (X, mixed)):
        with pytest.raises(ValueError, match="y has texts and numbers for labels"):
            mx.L2CRF().fit(*data)


def test_blocks_in_files(tmp_path):
    files = BlockTable(FileBlocks(iter(blocks()), tmp_path))
    same(mx.L2CRF(tol=1e-12).fit(files), mx.L2CRF(tol=1e-12).fit(X, Y))
    same(mx.M3N(0.05, tol=1e-11).fit(files), mx.M3N(0.05, tol=1e-11).fit(X, Y))


def test_separable_data_without_a_penalty_are_told_of():
    tidy = [[KINDS[int(token[0][2:]) % 3] for token in x] for x in X]
    with pytest.warns(SeparableWarning) as caught:
        mx.CRF(max_iter=2000).fit(table(y=tidy))
    assert caught[0].filename == __file__
    noisy = mx.CRF(tol=1e-3).fit(table())  # nothing to tell
    assert noisy.gap_ == pytest.approx(noisy.loss_)


# -- bad input -------------------------------------------------------------------------------------


def changed(number, **parts):
    """The table with another block."""
    made = blocks()
    for name, value in parts.items():
        setattr(made[number], name, value)
    return BlockTable(MemoryBlocks(made))


def test_what_is_wrong_with_a_block_names_it():
    short = [y[:-1] if i == 2 else y for i, y in enumerate(Y[3:17])]
    with pytest.raises(ValueError, match=r"block 2: sequence 2 has \d positions in X, but labels"):
        mx.L2CRF().fit(changed(2, y=short))
    with pytest.raises(ValueError, match="block 2: X has 14 sequences, y has 13"):
        mx.L2CRF().fit(changed(2, y=Y[3:16]))
    hidden = [[None, *Y[25][1:]], *Y[26:]]
    with pytest.raises(ValueError, match="block 4: sequence 0 has hidden labels"):
        mx.L2CRF().fit(changed(4, y=hidden))
    holed = [[{"size": np.nan}], *X[18:25]]
    with pytest.raises(ValueError, match="block 3: token 0 of sequence 0 has size=nan"):
        mx.L2CRF().fit(changed(3, X=holed, y=[["A"], *Y[18:25]]))
    with pytest.raises(TypeError, match="block 0: token 0 of sequence 1 must be a list of names"):
        mx.L2CRF().fit(changed(0, X=[X[0], [3], X[2]], y=[Y[0], ["A"], Y[2]]))
    with pytest.raises(ValueError, match="block 3: sequence 1 is empty"):
        mx.L2CRF().fit(changed(3, X=[X[17], [], *X[19:25]]))
    with pytest.raises(ValueError, match="block 0: sample_weight must be finite"):
        mx.L2CRF().fit(changed(0, sample_weight=[1, np.nan, 1]))
    with pytest.raises(ValueError, match=r"block 0: element 0 is list, expected a pair|expected"):
        mx.L2CRF().fit(changed(0, y=None))


def test_nan_in_a_matrix_names_its_block():
    given = [np.ones((len(x), 2)) for x in X]
    given[20][0, 1] = np.nan
    with pytest.raises(ValueError, match="block 3: sequence 3 contains NaN or infinity"):
        mx.L2CRF().fit(table(given))


def test_blocks_must_fit_one_another():
    matrices = [np.ones((len(x), 2)) for x in X]
    with pytest.raises(
        ValueError, match="block 2 has lists of tokens, block 0 has matrices of 2 columns"
    ):
        mx.L2CRF().fit(table([*matrices[:3], *X[3:]]))
    with pytest.raises(ValueError, match="block 4 has matrices of 3 columns, block 0 has"):
        mx.L2CRF().fit(table([*matrices[:25], *(np.ones((len(x), 3)) for x in X[25:])]))
    with pytest.raises(ValueError, match="all labels are 'A'"):
        mx.L2CRF().fit(table(y=[["A"] * len(y) for y in Y]))
    with pytest.raises(ValueError, match="X has no sequences"):
        mx.L2CRF().fit(table([], [], (0, 0, 0)))


def test_what_needs_all_sequences_at_once_is_refused_before_reading():
    untouched = BlockTable(MemoryBlocks([object()]))
    for model, said in (
        (mx.ChainClassifier("hinge", slack="squared"), "slack='squared' needs all sequences"),
        (mx.ChainClassifier("hinge", mx.Ball(0.1)), "solved by cutting planes, under Quadratic"),
        (mx.LaplaceMEDN(), "the losses crf, softmax-margin and sparsemap take any potential"),
        (mx.ChainClassifier("hing"), "loss must be one of"),
    ):
        with pytest.raises(ValueError, match=said):
            model.fit(untouched)
    with pytest.raises(ValueError, match="leave out y"):
        mx.L2CRF().fit(table(), Y)
    for solver in ("block-frank-wolfe", "subgradient", "smoothing", "exponentiated-gradient"):
        with pytest.raises(TypeError, match="cannot solve this problem"):
            mx.M3N(solver=solver).fit(table())
    fitted = mx.L2CRF().fit(table())
    with pytest.raises(TypeError, match="predict takes sequences, or a dask bag"):
        fitted.predict(table())
    with pytest.raises(TypeError, match="score takes sequences in memory"):
        fitted.score(table(), Y)


# -- dask ------------------------------------------------------------------------------------------


def pairs_of(number):
    yield from zip(X[number * 5 : number * 5 + 5], Y[number * 5 : number * 5 + 5], strict=True)


def bag():
    """Six partitions that are iterators, as those of files are."""
    return db.from_delayed([dask.delayed(pairs_of)(number) for number in range(6)])


def test_bags_without_a_cluster():
    theirs = mx.L2CRF(tol=1e-12).fit(X, Y)
    with dask.config.set(scheduler="synchronous"):
        same(mx.L2CRF(tol=1e-12).fit(bag()), theirs)
        same(mx.L2CRF(tol=1e-12).fit(bag().pluck(0), bag().pluck(1)), theirs)
        source = bag()
        same(mx.L2CRF(tol=1e-12).fit(source.pluck(0), source.pluck(1)), theirs)
        some = bag().filter(lambda pair: "w=3" in pair[0][0])  # with empty partitions
        mine = mx.L2CRF(tol=1e-12).fit(some)
        same(mine, mx.L2CRF(tol=1e-12).fit(*zip(*some.compute(), strict=True)))
        with pytest.raises(ValueError, match="X has no sequences"):
            mx.L2CRF().fit(bag().filter(lambda pair: False))
    with pytest.raises(ValueError, match="y has 3 partitions and X has 6"):
        mx.L2CRF().fit(bag().pluck(0), bag().pluck(1).repartition(3))
    with pytest.raises(TypeError, match="X is a dask bag and y is list"):
        mx.L2CRF().fit(bag().pluck(0), Y)


def test_answers_for_a_bag_are_a_bag():
    model = mx.L2CRF().fit(X, Y)
    sequences = bag().pluck(0).filter(lambda sequence: len(sequence) > 5)
    kept = [x for x in X if len(x) > 5]
    for method, args in (("predict", ()), ("predict_proba", ()), ("predict_kbest", (2,))):
        answer = getattr(model, method)(sequences, *args)
        assert isinstance(answer, db.Bag)
        assert answer.npartitions == 6
        found = answer.compute(scheduler="synchronous")
        expected = getattr(model, method)(kept, *args)
        assert str(found) == str(expected)


def test_a_cluster_fits_the_same_models(client):
    mine, theirs = mx.L2CRF(tol=1e-12).fit(bag()), mx.L2CRF(tol=1e-12).fit(X, Y)
    same(mine, theirs)
    answer = mine.predict(bag().pluck(0)).compute()
    assert [a.tolist() for a in answer] == [a.tolist() for a in theirs.predict(X)]


def test_a_cluster_names_the_block(client):
    wrong = bag().map(lambda pair: (pair[0], pair[1][:-1]) if pair[0] == X[12] else pair)
    with pytest.raises(ValueError, match="block 2: sequence 2 has"):
        mx.L2CRF().fit(wrong)


# -- the command -----------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path):
    """A column file of 60 sentences, plain and packed."""
    rng = np.random.default_rng(4)
    text = "\n".join(
        "".join(f"word{a} T{a % 4} L{(a + int(rng.random() < 0.2)) % 3}\n" for a in words)
        for words in (rng.integers(0, 30, rng.integers(1, 9)) for _ in range(60))
    )
    plain, packed = tmp_path / "train.txt", tmp_path / "train.txt.gz"
    plain.write_text(f"\n\n{text}")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    return plain, packed


def tag(*arguments, code=0):
    result = CliRunner().invoke(cli.main, ["tag", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


train = partial(tag, "train")


def same_files(mine, theirs):
    one, other = load_tagger(mine), load_tagger(theirs)
    same(one.classifier, other.classifier)
    for name in ("columns", "label_column", "n_columns", "comments"):
        assert getattr(one, name) == getattr(other, name)
    assert one.template.lines == other.template.lines


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(_tag_blocks, "_PER_BYTE", 2**18)


def test_train_out_of_core_writes_the_same_model(files, tmp_path, small_blocks):
    theirs, mine = tmp_path / "theirs.json", tmp_path / "mine.json"
    for number, options in enumerate(
        (["--tol", 1e-10], ["--max-iter", 9, "--l1", 0.01], ["--least", 4, "--hash-bits", 12])
    ):
        plain = train(files[0], "-m", theirs, "--overwrite", *options)
        result = train(files[number % 2], "-m", mine, "--overwrite", "--memory", "900MB", *options)
        assert int(re.search(r"(\d+) blocks of the file", result.stderr)[1]) >= 4
        same_files(mine, theirs)
        for row in ("sequences", "tokens", "labels", "attributes", "weights", "objective"):
            assert (
                re.search(rf"{row} .*", result.stdout)[0]
                == re.search(rf"{row} .*", plain.stdout)[0]
            )
        assert {p.name for p in tmp_path.iterdir()} == {
            *("train.txt", "train.txt.gz", "theirs.json", "mine.json")
        }


def test_the_scratch_folder_goes_however_training_ends(files, tmp_path, small_blocks, monkeypatch):
    before = set(tmp_path.iterdir())
    lines = files[0].read_text().replace("word7 T3", "word7  T3 T4", 1).splitlines()
    number = next(i for i, line in enumerate(lines, 1) if "T4" in line)
    files[0].write_text("\n".join(lines))
    result = train(files[0], "-m", tmp_path / "m.json", "--memory", "1GB", code=1)
    assert f"train.txt, line {number}: 4 columns where the lines before have 3" in result.stderr
    assert set(tmp_path.iterdir()) == before
    for stop, code in ((KeyboardInterrupt, 130), (OSError("disk full"), 1)):
        monkeypatch.setattr(mx.ChainClassifier, "_learn", _raises(stop))
        train(files[1], "-m", tmp_path / "m.json", "--memory", "1GB", code=code)
        assert set(tmp_path.iterdir()) == before


def _raises(error):
    def learn(self, problem):
        raise error

    return learn


def test_train_says_what_it_cannot_use(files, tmp_path):
    model = tmp_path / "m.json"
    for options, said in (
        (["--memory", "2GB", "--workers", 2], "give --workers or --memory, not both"),
        (["--dask", "tcp://x:1", "--workers", 2], "give --dask or --workers, not both"),
        (["--memory", "much"], "a number and a unit"),
        (["--memory", "20MB"], "the program itself takes 350MB"),
    ):
        result = train(files[0], "-m", model, *options, code=2)
        assert said in " ".join(result.stderr.replace("│", " ").split())
    assert not model.exists()
    (tmp_path / "empty.txt").write_text("\n\n")
    result = train(tmp_path / "empty.txt", "-m", model, "--memory", "1GB", code=1)
    assert "empty.txt has no tokens" in result.stderr


def test_the_command_on_a_cluster(files, tmp_path, dask_cluster):
    place = dask_cluster.scheduler_address
    theirs, mine = tmp_path / "theirs.json", tmp_path / "mine.json"
    train(files[0], "-m", theirs)
    result = train(files[1], "-m", mine, "--dask", place)
    assert re.search(r"blocks of the file on 2 workers", result.stderr)
    same_files(mine, theirs)
    for options in ([], ["--proba"], ["--best", "2"]):
        plain = tag("predict", theirs, files[0], *options)
        spread = tag("predict", theirs, files[0], *options, "--dask", place)
        assert spread.stdout == plain.stdout
    assert tag("predict", theirs, files[0], "--dask", place, "--workers", 2, code=2)


def test_spans_are_the_file(files):
    for path in files:
        for size in (1, 100, 10**6):
            spans = conll_spans(path, size)
            read = [s for span in spans for s in read_conll_span(path, span, 3)]
            assert read == read_conll(path)
            assert sum(span.sequences for span in spans) == len(read)
            assert sum(span.tokens for span in spans) == sum(map(len, read))
            assert len(spans) == 1 or size < 10**6
