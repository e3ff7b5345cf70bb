"""Segments of sequences: limits shared with chains, lengths that chains cannot see, errors."""

import numpy as np
import pytest

import maxent as mx
from maxent import SegmentClassifier
from maxent.learn.structured.segmenter import labels_of, segments_of


def _runs(rng, n=25):
    """Segments of label a have 1 position, of label b have 4, and features say little."""
    X, y = [], []
    for _ in range(n):
        labels = []
        for i in range(rng.integers(3, 6)):
            labels += ["a"] if i % 2 else ["b"] * 4
        y.append(np.array(labels))
        X.append(rng.normal(size=(len(labels), 2)) + 0.4 * (y[-1] == "a")[:, None])
    return X, y


def test_lengths_tell_what_features_do_not():
    rng = np.random.default_rng(0)
    X, y = _runs(rng)
    fresh, truth = _runs(rng)
    model = SegmentClassifier(potential=1e-2, tol=1e-5).fit(X, y)
    chain = mx.ChainClassifier(potential=1e-2).fit(X, y)
    assert model.gap_ <= 1e-5
    assert model.longest_ == 4
    assert model.score(fresh, truth) > chain.score(fresh, truth) + 0.05
    lengths = {
        (label, end - start) for row in model.predict_segments(fresh) for start, end, label in row
    }
    assert lengths <= {("a", 1), ("b", 4)}
    p = model.predict_proba(fresh)
    assert [x.shape for x in p] == [(len(row), 2) for row in truth]
    np.testing.assert_allclose(np.concatenate(p).sum(axis=1), 1, atol=1e-12)


def test_segments_of_one_position_are_a_conditional_random_field():
    """With lengths of 1 and no features of first positions, the model is a chain."""
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(n, 3)) for n in (4, 6, 5, 7)]
    y = [np.array([0, 1] * 4)[: len(x)] for x in X]
    model = SegmentClassifier(parts=("inside",), potential=0.1, tol=1e-8).fit(X, y)
    # the lengths' own weights are as many constants as labels, which features lack
    ones = [np.column_stack([x, np.ones(len(x))]) for x in X]
    chain = mx.ChainClassifier(potential=0.1, tol=1e-8).fit(ones, y)
    assert model.objective_ == pytest.approx(chain.objective_, abs=1e-6)
    for p, q in zip(model.predict_proba(X), chain.predict_proba(ones), strict=True):
        np.testing.assert_allclose(p, q, atol=1e-3)


def test_weights_for_pairs_that_occur_have_the_same_optimum_when_all_do():
    words = [[["w=a"], ["w=b"], ["w=c"]], [["w=b"], ["w=a"]], [["w=a"], ["w=a"], ["w=b"]]]
    y = [["B-X", "I-X", "O"], ["B-X", "O"], ["O", "B-X", "I-X"]]
    few = SegmentClassifier(potential=0.1, tol=1e-8).fit(words, y)
    every = SegmentClassifier(potential=0.1, tol=1e-8, all_pairs=True).fit(words, y)
    assert every.kept_ is None
    assert few.weights_.size < every.weights_.size
    assert few.objective_ >= every.objective_ - 1e-8
    assert set(few.classes_.tolist()) == {"O", "X"}
    assert few.durations_.shape == (2, 2)
    assert few.transitions_.shape == (2, 2)
    assert few.predict(words)[0].tolist() in (["B-X", "I-X", "O"], ["B-X", "O", "O"])


def test_a_saved_model_predicts_the_same(tmp_path):
    X, y = _runs(np.random.default_rng(2), 8)
    model = SegmentClassifier(potential=0.1).fit(X, y)
    mx.save(model, tmp_path / "model.npz")
    again = mx.load(tmp_path / "model.npz")
    for a, b in zip(model.predict(X), again.predict(X), strict=True):
        np.testing.assert_array_equal(a, b)


def test_tags_and_segments_lead_to_each_other():
    tags = np.array(["O", "B-NP", "I-NP", "B-NP", "O", "O", "B-VP"])
    assert labels_of(segments_of(tags, True), True).tolist() == tags.tolist()
    runs = np.array([1, 1, 2, 1])
    assert labels_of(segments_of(runs, False), False).tolist() == runs.tolist()


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"longest": 0}, "longest must be"),
        ({"least": 1.5}, "least must be"),
        ({"parts": ()}, "parts are some of"),
        ({"parts": ("inside", "middle")}, "parts are some of"),
        ({"longest": 3}, "segment of 4 positions, and longest is 3"),
    ],
)
def test_bad_settings_are_refused(settings, match):
    X, y = _runs(np.random.default_rng(3), 4)
    with pytest.raises(ValueError, match=match):
        SegmentClassifier(**settings).fit(X, y)


def test_bad_labels_are_refused():
    X = [np.ones((3, 1)), np.ones((2, 1))]
    with pytest.raises(ValueError, match="at least two different ones"):
        SegmentClassifier().fit(X, [[1, 1, 1], [1, 1]])
    with pytest.raises(ValueError, match="a label is None"):
        SegmentClassifier().fit(X, [["a", None, "b"], ["a", "b"]])
    with pytest.raises(ValueError, match="labels of shape"):
        SegmentClassifier().fit(X, [["a", "b"], ["a", "b"]])
    with pytest.raises(ValueError, match="the type O"):
        SegmentClassifier().fit(X, [["B-O", "I-O", "O"], ["B-X", "O"]])
    with pytest.raises(ValueError, match="texts and numbers"):
        SegmentClassifier().fit(X, [["a", "b", "b"], [1, 2]])
    with pytest.raises(ValueError, match="texts and numbers"):
        SegmentClassifier().fit(X, [["a", 1, "b"], ["a", "b"]])


def test_sequences_without_positions():
    X, y = _runs(np.random.default_rng(4), 6)
    model = SegmentClassifier(potential=0.1).fit(X, y)
    some = [X[0], X[1][:0], X[2]]
    for name in ("predict", "predict_segments", "predict_proba"):
        found, alone = getattr(model, name)(some), getattr(model, name)([X[0], X[2]])
        assert len(found[1]) == 0
        for a, b in zip((found[0], found[2]), alone, strict=True):
            np.testing.assert_array_equal(a, b)
    assert model.predict_proba(some)[1].shape == (0, len(model.classes_))
    assert model.score(some, [y[0], [], y[2]]) == model.score([X[0], X[2]], [y[0], y[2]])
    with pytest.raises(ValueError, match="no label to score"):
        model.score([X[0][:0]], [[]])


def test_phrases_of_another_scheme_are_scored_as_what_they_are():
    X = [np.eye(3), np.eye(3)[:2]]
    model = SegmentClassifier(potential=1e-3).fit(X, [["B-A", "I-A", "O"], ["B-A", "I-A"]])
    assert model.predict(X)[0].tolist() == ["B-A", "I-A", "O"]
    assert model.score(X, [["I-A", "I-A", "O"], ["B-A", "E-A"]]) == 1.0
