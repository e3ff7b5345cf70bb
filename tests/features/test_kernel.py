"""Features of kernels against the exact kernel matrix, and against the sketch they come from."""

import numpy as np
import pandas as pd
import pytest

from maxent.features import Kernel, Schema, bind, fit_operators, kernel


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)) * [1.0, 20.0, 0.1] + [0, 100, -4]
    frame = pd.DataFrame(x, columns=["temp", "rain", "slope"])
    return frame.assign(
        soil=rng.choice(["clay", "loam", "sand"], n),
        x=500 * rng.uniform(size=n),
        y=200 * rng.uniform(size=n),
    )


def sketch(X, at, weight, jitter=1e-6, smallest=1e-5):
    """The features of shared/design/sketches/joint_species.py, in float64."""

    def matern(d):
        d = d * np.sqrt(3)
        return (1 + d) * np.exp(-d)

    def distance2(a, b):
        return np.maximum((a * a).sum(1)[:, None] + (b * b).sum(1)[None] - 2 * a @ b.T, 0)

    values = X[["temp", "rain", "slope"]].to_numpy()
    Z = (values - values.mean(0)) / values.std(0)
    d = Z.shape[1]
    xy = X[["x", "y"]].to_numpy()
    q = (xy - xy.mean(0)) / np.ptp(xy, axis=0).max()
    hot = (X["soil"].to_numpy()[:, None] == np.unique(X["soil"])).astype(float)
    same = hot @ hot[at].T
    K = weight["lin"] * (Z @ Z[at].T) / d
    add = sum(matern(np.abs(Z[:, j][:, None] - Z[at, j][None])) for j in range(d))
    K += weight["add"] * (add + same) / (d + 1)
    K += weight["full"] * matern(np.sqrt((distance2(Z, Z[at]) + 2 * (1 - same)) / d) / 1.6)
    K += weight["space"] * matern(np.sqrt(distance2(q, q[at])) / 0.2)
    Kz = (K[at] + K[at].T) / 2
    w, V = np.linalg.eigh(Kz + jitter * np.trace(Kz) / len(at) * np.eye(len(at)))
    keep = w > smallest * w[-1]
    return K, K @ (V[:, keep] / np.sqrt(w[keep]))


@pytest.mark.parametrize("space", [0.0, 0.3])
def test_features_are_those_of_the_sketch(space):
    X = table()
    schema = Schema.from_table(X)
    cells = schema.read(X)
    asked = Kernel(spatial=space, landmarks=60, coordinates=("x", "y"))
    (phi,) = asked.fit(cells, schema, np.arange(len(X)))
    at = np.random.default_rng(0).choice(len(X), 60, replace=False)
    _, F = sketch(X, at, {"lin": 0.3, "add": 0.6, "full": 0.3, "space": space})
    found = phi.matrix(cells)
    assert found.dtype == np.float32
    assert found.shape == F.shape
    F = F[:, ::-1]  # largest eigenvalue first; eigenvectors have no sign
    F = F * np.sign((F * found).sum(axis=0))
    np.testing.assert_allclose(found @ found.T, F @ F.T, atol=2e-6)
    np.testing.assert_allclose(found[:, :20], F[:, :20], atol=1e-5)


def made(X, presences=None, **settings):
    """The operator, the schema and the cells."""
    schema = Schema.from_table(X)
    cells = schema.read(X)
    (phi,) = fit_operators([Kernel(**settings)], X, presences)
    return phi, schema, cells


def exact(phi, cells):
    """The matrix of the kernel itself between all cells."""
    ready = phi._ready(cells)
    return phi._similar(ready, ready)


@pytest.mark.parametrize("kept", ["float64", "float32", "nothing"])
def test_scores_moments_and_columns_are_those_of_the_matrix(kept, monkeypatch):
    """Whether features are kept or computed again in every pass, in one block or in many."""
    X = table(1100)
    phi, _, cells = made(X, landmarks=40, spatial=0.2)
    F = exact_features(phi, cells)
    size = 8 * F.size
    monkeypatch.setattr(kernel, "_KEPT", {"float64": size, "float32": size // 2}.get(kept, 0))
    atol = 2e-6 if kept == "float32" else 1e-11
    rng = np.random.default_rng(1)
    features = bind([phi], cells)
    w, p = rng.normal(size=F.shape[1]), rng.dirichlet(np.ones(len(F)))
    few = np.where(np.arange(len(F)) % 7 == 2, p, 0.0)
    for _ in range(3):  # the first pass keeps nothing
        np.testing.assert_allclose(features.scores(w), F @ w, atol=10 * atol)
        np.testing.assert_allclose(features.moments(p), p @ F, atol=atol)
        np.testing.assert_allclose(features.squares(p), p @ F**2, atol=atol)
        np.testing.assert_allclose(features.moments(few), few @ F, atol=atol)
        np.testing.assert_allclose(features.squares(few), few @ F**2, atol=atol)
        np.testing.assert_allclose(features.columns(5, 700), F[5:700], atol=atol)
    assert abs(features.scores(w) @ p - w @ features.moments(p)) < 1e-12
    low, high = features.ranges()
    np.testing.assert_allclose(low, F.min(axis=0), atol=1e-12)
    np.testing.assert_allclose(high, F.max(axis=0), atol=1e-12)
    some = np.array([0, 3, 17])
    part = features.restrict(some)
    np.testing.assert_allclose(part.moments(p), p @ F[:, some], atol=atol)
    np.testing.assert_allclose(part.scores(w[some]), F[:, some] @ w[some], atol=10 * atol)
    gram = F.T @ (p[:, None] * F) - np.outer(p @ F, p @ F)
    np.testing.assert_allclose(features.gram(p, p), gram, atol=10 * atol)


def exact_features(phi, cells):
    """The matrix of all features in float64, in one piece."""
    return phi._similar(phi._ready(cells), phi._landmarks()) @ phi.projection


@pytest.mark.parametrize("family", list(kernel.FAMILIES))
@pytest.mark.parametrize("choose", ["seed", "cholesky"])
def test_the_residual_is_that_of_the_exact_kernel(family, choose):
    """k(x, x) less the squared norm of the features: never negative, and a bound on functions."""
    X = table(250)
    phi, _, cells = made(X, landmarks=50, family=family, choose=choose, spatial=0.2)
    K, F = exact(phi, cells), exact_features(phi, cells)
    assert np.linalg.eigvalsh(K).min() > -1e-10
    left = np.diag(K) - (F**2).sum(axis=1)
    np.testing.assert_allclose(phi.residuals(cells), left, atol=1e-12)
    assert left.min() > -1e-12
    np.testing.assert_allclose(phi.residual_mean, left.mean(), atol=1e-12)
    np.testing.assert_allclose(phi.residual_max, left.max(), atol=1e-12)
    # what is left is a kernel: |K - FF'| <= sqrt(r(x) r(y))
    assert np.linalg.eigvalsh(K - F @ F.T).min() > -1e-10
    a = np.random.default_rng(0).normal(size=len(K))  # f = K a of norm B; the nearest is F w
    B = np.sqrt(a @ K @ a)
    gap = np.abs(K @ a - F @ (F.T @ a))
    assert (gap <= B * np.sqrt(np.maximum(left, 0)) + 1e-9).all()


def test_pivots_are_those_of_cholesky():
    """Each landmark is the cell with the largest residual of those before it."""
    X = table(120)
    phi, _, cells = made(X, landmarks=8, choose="cholesky")
    K, left, chosen = exact(phi, cells), None, []
    left = np.diag(K).copy()
    for _ in range(8):
        chosen.append(int(left.argmax()))
        part = K[np.ix_(chosen, chosen)]
        left = np.diag(K) - np.einsum("ij,ij->i", K[:, chosen] @ np.linalg.inv(part), K[:, chosen])
    np.testing.assert_array_equal(phi.values, cells.values[:, chosen])
    by_seed = made(X, landmarks=8)[0]
    assert phi.residual_max < by_seed.residual_max


def test_all_places_are_landmarks_where_there_are_fewer():
    """The right limit: then nothing is lost but the jitter."""
    X = table(40)
    for choose in ("seed", "cholesky"):
        phi, _, cells = made(X, choose=choose)
        assert phi.n_landmarks == 40
        F = exact_features(phi, cells)
        np.testing.assert_allclose(F @ F.T, exact(phi, cells), atol=1e-4)
        assert 0 <= phi.residual_max < 1e-4


def test_equal_places_share_their_landmark():
    """Ten copies of twenty places span no more than twenty."""
    X = pd.concat([table(20)] * 10, ignore_index=True)
    once = made(table(20))[0]
    for choose in ("seed", "cholesky"):
        phi = made(X, choose=choose)[0]
        assert phi.n_features <= once.n_features
        assert phi.residual_max < 1e-4


def test_a_level_that_no_landmark_has_is_like_no_other():
    X = table(60)
    phi, schema, cells = made(X[["soil", "temp"]], landmarks=30)
    new = X[["soil", "temp"]].assign(soil="peat")
    with pytest.warns(UserWarning, match=r"soil: levels 'peat' were not there at the fit"):
        lost = schema.read(new)
    found, known = phi.matrix(lost), phi.matrix(cells)
    assert np.isfinite(found).all()
    assert ((found**2).sum(axis=1) < (known**2).sum(axis=1)).all()
    same = phi._similar(phi._ready(lost), phi._ready(lost))
    u = phi._ready(lost).values[0]
    gap = np.abs(u[:, None] - u)
    matern = kernel.FAMILIES["matern32"].function
    apart = np.sqrt(gap**2 + 2)
    expected = 0.3 * np.outer(u, u) + 0.3 * matern(gap) + 0.3 * matern(apart / 1.6)
    np.testing.assert_allclose(same, expected, atol=1e-12)


def test_constant_columns_are_left_out():
    X = table(80)
    one = made(X.assign(flat=7.0, only="a"), landmarks=30)[0]
    other = made(X, landmarks=30)[0]
    np.testing.assert_allclose(one.projection, other.projection)
    assert not one.uses_columns(["flat", "only"]).any()
    assert one.uses_columns(list(X.columns)).all()
    flat = pd.DataFrame({"a": np.ones(9), "b": ["u"] * 9})
    assert fit_operators([Kernel()], flat) == []
    assert fit_operators([Kernel()], X.iloc[:1]) == []  # a single place


def test_coordinates_are_found_or_named():
    X = table(80)
    found = made(X, spatial=0.3, landmarks=20)[0]
    np.testing.assert_array_equal(found.place, [3, 4])
    moved = X.rename(columns={"x": "Longitude", "y": "Latitude"})
    np.testing.assert_array_equal(made(moved, spatial=0.3, landmarks=20)[0].place, [3, 4])
    moved = X.rename(columns={"x": "easting_m", "y": "northing_m"})
    named = made(moved, spatial=0.3, landmarks=20, coordinates=("easting_m", "northing_m"))[0]
    np.testing.assert_allclose(named.projection, found.projection)
    with pytest.raises(ValueError, match=r"needs the columns of the coordinates.*easting_m"):
        made(moved, spatial=0.3)
    with pytest.raises(ValueError, match="the coordinates a, b are no continuous columns"):
        made(X, coordinates=("a", "b"))
    # without a spatial term and without names they are predictors as any others
    assert made(X, landmarks=20)[0].place.size == 0
    assert made(X, landmarks=20)[0].linear.all()


def test_missing_coordinates_are_named():
    X = table(30)
    X.loc[3, "x"] = np.nan
    with pytest.raises(ValueError, match=r"Input X contains NaN: 1 rows, in x\. Drop them"):
        made(X, spatial=0.3)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"linear": -1}, "linear must be a variance"),
        ({"joint": np.nan}, "joint must be a variance"),
        ({"linear": 0, "additive": 0, "joint": 0}, "a kernel needs a term"),
        ({"scale": 0}, "scale must be finite and > 0"),
        ({"family": "cubic"}, "family must be one of matern12, matern32, matern52, gaussian"),
        ({"choose": "best"}, 'choose must be "seed" or "cholesky"'),
        ({"landmarks": 0}, "landmarks must be an integer >= 1"),
        ({"coordinates": "xy"}, "names of two columns"),
    ],
)
def test_wrong_settings(wrong, told):
    with pytest.raises(ValueError, match=told):
        Kernel(**wrong)


def test_threads_change_nothing(monkeypatch):
    X = table(3000)
    found = []
    for threads in ("1", "2"):
        monkeypatch.setenv("MAXENT_NUM_THREADS", threads)
        phi, _, cells = made(X, landmarks=40)
        features = bind([phi], cells)
        w = np.linspace(-1, 1, phi.n_features)
        features.scores(w)
        found.append((features.scores(w), features.moments(np.full(3000, 1 / 3000))))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("family", list(kernel.FAMILIES))
def test_compiled_and_written_out_agree(family, monkeypatch):
    """Exponentials of single cells and those of all pairs, compiled or not, also far away."""
    X = table(200).drop(columns="soil")
    phi, schema, cells = made(X, landmarks=30, family=family, joint=0.2)
    K = phi._similar(phi._ready(cells), phi._landmarks())
    u, v = phi._ready(cells).values, phi._landmarks().values
    g = kernel.FAMILIES[family].function
    gap = u[:, :, None] - v[:, None, :]
    plain = 0.3 / 5 * np.einsum("vi,vj->ij", u, v) + 0.6 / 5 * g(np.abs(gap)).sum(axis=0)
    plain += 0.2 * g(np.sqrt((gap**2).mean(axis=0)) / 1.6)
    np.testing.assert_allclose(K, plain, atol=1e-12)
    monkeypatch.setattr(kernel, "_FAR", 0.0)
    np.testing.assert_allclose(phi._similar(phi._ready(cells), phi._landmarks()), K, atol=1e-13)
    monkeypatch.undo()
    far = schema.read(X + 1e6)
    assert np.isfinite(phi.matrix(far)).all()


def test_the_twin_has_the_same_bits():
    from maxent._support.compiling.kernels import _twins
    from maxent.features.kernels.similar import add_terms

    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(3, 40)), rng.normal(size=(3, 11))
    weights = np.array([0.2, 0.0, 0.7])
    found = []
    for run in (add_terms, _twins[add_terms], getattr(add_terms, "py_func", add_terms)):
        K, apart = np.ones((40, 11)), np.zeros((40, 11))
        up, others_up = np.exp(1.7 * one), np.exp(1.7 * other)
        run(
            one,
            up,
            1 / up,
            other,
            others_up,
            1 / others_up,
            weights,
            weights[::-1].copy(),
            1.7,
            1.0,
            1 / 3,
            K,
            apart,
        )
        found.append((K, apart))
    for K, apart in found[1:]:
        np.testing.assert_array_equal(K, found[0][0])
        np.testing.assert_array_equal(apart, found[0][1])
