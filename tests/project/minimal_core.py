"""The core where numpy, scipy and numba are all there is: run as a script by test_minimal.py."""

import importlib
import importlib.abc
import pkgutil
import sys
import tempfile
from pathlib import Path

ALLOWED = {"maxent", "numpy", "scipy", "numba", "llvmlite"}
# need other packages
MORE = (
    "maxent.app",
    "maxent.cli",
    "maxent.learn",
    "maxent.rows",
    "maxent.species",
    "maxent.torch",
)


class Refusal(importlib.abc.MetaPathFinder):
    """Other packages are not installed, as far as ``import`` can tell."""

    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in ALLOWED and top not in sys.stdlib_module_names and not top.startswith("_"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def import_everything(package):
    """Every module that does not belong to a room which needs more."""
    for module in pkgutil.walk_packages(package.__path__, "maxent.", onerror=lambda name: None):
        if not module.name.startswith(MORE) and not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def solve_densities(mx, np):
    """Several entropies with several potentials, by the solver that fits."""
    rng = np.random.default_rng(0)
    X, observed = rng.random((50, 4)), rng.dirichlet(np.ones(50))
    prior = mx.Relative(mx.Shannon(), rng.random(50))
    entropies = [mx.Shannon(), mx.Tsallis(1.5), mx.NormEntropy(2.0), prior]
    potentials = [mx.Box(0.01), mx.ElasticNet(0.01, 0.1), mx.Quadratic(0.1), mx.LaplacePrior(100.0)]
    for entropy in entropies:
        for potential in potentials:
            solution = mx.Problem(entropy, X, potential, observed=observed).solve()
            assert solution.gap <= 1e-8, (entropy, potential)


def solve_by_every_solver(mx, np):
    """One optimum for all; and hinges, which have a solver of their own."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 5)), np.eye(3)[rng.integers(3, size=60)]
    features = mx.SampleMap(X, n_outputs=3)
    problem = mx.Problem(mx.Tsallis(1.5), features, mx.Quadratic(0.1), observed=y)
    best = problem.solve().objective
    for solver in ("fista", "lbfgs", "newton-cg", "prox-newton", "dual-coordinate"):
        solution = problem.solve(solver)
        assert abs(solution.objective - best) < 1e-7, solver
    hinge = mx.Shifted(mx.Zero(), 1 - y)
    assert mx.Problem(hinge, features, mx.Quadratic(0.1), observed=y).solve().gap <= 1e-6


def solve_chains(mx, np):
    """The structured domain: a CRF and SparseMAP."""
    rng = np.random.default_rng(2)
    chain = mx.Chain(2)
    paths = [rng.integers(2, size=n) for n in (3, 5, 4)]
    inputs = [np.eye(2)[path] + 0.1 * rng.normal(size=(len(path), 2)) for path in paths]
    observed = chain.encode(paths)
    for entropy in (mx.Shannon(domain=chain), mx.SquaredNorm(domain=chain)):
        features = mx.ChainMap(inputs, n_states=2, tied=isinstance(entropy, mx.Shannon))
        problem = mx.Problem(entropy, features, mx.Quadratic(0.1), observed=observed)
        assert problem.solve().gap <= 1e-7, entropy


def save_and_load(mx, np):
    """A solution and an exact path come back from their files."""
    path = mx.RelaxationPath([50, 30, 15, 5], [1, 2, 0, 1]).fit()
    problem = mx.Problem(mx.Shannon(), np.eye(3), mx.Box(0.1), observed=[1, 0, 0])
    with tempfile.TemporaryDirectory() as folder:
        for model in (problem.solve(), path):
            mx.save(model, Path(folder) / "model.json")
            again = mx.load(Path(folder) / "model.json")
            assert type(again) is type(model)
    assert np.array_equal(again.nu, path.nu)


def grow_features(mx, np):
    """Feature operators over cells, and families that propose new ones."""
    rng = np.random.default_rng(3)
    X = rng.random((40, 2))
    from maxent.features import Schema, bind, fit_operators

    operators = fit_operators([mx.Linear(), mx.Hinge(5), mx.Interaction()], X)
    features = bind(operators, Schema.from_table(X, []).read(X))
    problem = mx.Problem(mx.Shannon(), features, mx.Box(0.01), observed=rng.dirichlet(np.ones(40)))
    assert problem.solve().gap <= 1e-8


def main():
    """Everything, with nothing but the three packages."""
    sys.meta_path.insert(0, Refusal())
    import numpy as np

    import maxent as mx

    import_everything(mx)
    for check in (
        solve_densities,
        solve_by_every_solver,
        solve_chains,
        save_and_load,
        grow_features,
    ):
        check(mx, np)
    loaded = {name.partition(".")[0] for name in sys.modules}
    print(sorted(loaded & {"sklearn", "joblib", "threadpoolctl", "typer", "rich", "pandas"}))


if __name__ == "__main__":
    main()
