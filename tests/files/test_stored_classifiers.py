"""Classifiers saved by version 1 of the format load and predict the same; fields are declared."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import maxent as mx

DATA = Path(__file__).parents[1] / "data" / "version1"
EXPECTED = json.loads((DATA / "classifiers_expected.json").read_text())
TABLE = pd.DataFrame(EXPECTED["table"], columns=EXPECTED["columns"])
ANSWERS = EXPECTED["answers"]
FITTED = sorted(ANSWERS)


def answer(model, name):
    if name.endswith("_"):
        return getattr(model, name)
    table = TABLE if hasattr(model, "feature_names_in_") else TABLE.to_numpy()
    return getattr(model, name)(table)


def check(model, name):
    for what, value in ANSWERS[name].items():
        if what == "predict" and isinstance(value[0], str):
            assert answer(model, what).tolist() == value
        else:
            np.testing.assert_allclose(answer(model, what), value, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", FITTED)
def test_stored_classifiers_predict_the_same(name, tmp_path):
    model = mx.load(DATA / f"{name}.json")
    assert type(model).__name__ == name.split("_")[0]
    check(model, name)
    mx.save(model, tmp_path / "again.json")
    check(mx.load(tmp_path / "again.json"), name)


def test_a_stored_model_without_a_fit_can_be_fitted():
    model = mx.load(DATA / "FenchelYoungClassifier_unfitted.json")
    assert model.entropy == mx.Shannon()
    assert model.cost == [[0.0, 1.0], [2.0, 0.0]]
    model.fit(TABLE, TABLE["red"] > 0)
    assert model.gap_ < 1e-5


def test_the_stored_choice_holds_its_best_estimator():
    model = mx.load(DATA / "FenchelYoungClassifierCV.json")
    best = model.best_estimator_
    assert isinstance(best, mx.FenchelYoungClassifier)
    assert best.alpha == model.best_params_["alpha"]
    assert best.potential == mx.ScaledPotential(mx.Quadratic(1.0), model.best_params_["strength"])
    names = ("coef_", "intercept_", "loss_", "objective_", "gap_", "optimality_", "n_iter_")
    for name in names:
        assert getattr(model, name) is getattr(best, name)
    np.testing.assert_array_equal(model.classes_, best.classes_)
    np.testing.assert_array_equal(model.predict_proba(TABLE), best.predict_proba(TABLE))
    cool, hot = model.predict_proba(TABLE), model.set_params(temperature=2.0).predict_proba(TABLE)
    assert (hot.max(axis=1) < cool.max(axis=1)).all()


@pytest.mark.parametrize("name", FITTED)
def test_unknown_fields_are_refused_by_name(name, tmp_path):
    document = json.loads((DATA / f"{name}.json").read_text())
    document["model"]["state"]["flavour_"] = 1
    (tmp_path / "other.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=r"fields \['flavour_'\] that \w+ does not know"):
        mx.load(tmp_path / "other.json")


def test_what_a_class_does_not_declare_is_not_saved(tmp_path):
    model = mx.load(DATA / "FenchelYoungRegressor.json")
    model.note = "mine"
    mx.save(model, tmp_path / "model.json")
    assert not hasattr(mx.load(tmp_path / "model.json"), "note")


def test_parameters_that_an_older_file_lacks_have_their_defaults(tmp_path):
    document = json.loads((DATA / "FenchelYoungRegressor.json").read_text())
    del document["model"]["state"]["verbose"]
    (tmp_path / "older.json").write_text(json.dumps(document))
    assert mx.load(tmp_path / "older.json").verbose == 0
