"""M3NCV and L2CRFCV: the constant of the penalty by cross-validation over one warm path."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxent import io
from maxent._support.checks import masses, positive_grid
from maxent._support.progress import Progress
from maxent._support.threads import one_blas_thread
from maxent.core.potentials import Potential
from maxent.core.solvers import BlockFrankWolfe, choose
from maxent.learn.solving import unless_it_fails
from maxent.learn.structured.chain import Callback, ChainModel
from maxent.learn.structured.discrimination import L2CRF, M3N
from maxent.learn.structured.reading import list_of_sequences
from maxent.learn.structured.sequences import number_labels, read_labels
from maxent.rows.arrays import Array
from maxent.rows.blocks.table import is_blocked
from maxent.tagging.attributes import Tokens
from maxent.typing import ArrayLike, ScoringLike, SequencesLike, SplitterLike

CS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
C2S = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01)
_ROUGH = 0.01  # of the loss without weights: a gap at which held-out labels hardly change
_SHARED = ("transitions", "all_pairs", "solver", "tol", "max_iter")
Score = Callable[[Any, Tokens, list[Array]], float]


class Part(NamedTuple):
    """Some sequences: their positions, labels and weights."""

    tokens: Tokens
    labels: list[Array]
    weight: Array

    def take(self, index: Array) -> Part:
        """Those with a weight among some of them."""
        chosen = np.asarray(index)[self.weight[index] > 0]
        lengths = self.tokens.lengths
        first = np.cumsum(lengths) - lengths
        spans = (np.arange(first[i], first[i] + lengths[i]) for i in chosen)
        rows = np.concatenate([np.arange(0), *spans])
        tokens = Tokens(self.tokens.X[rows], lengths[chosen], self.tokens.attributes)
        return Part(tokens, [self.labels[i] for i in chosen], self.weight[chosen])


class Fold:
    """A path of models of the training part, each started from the one before."""

    def __init__(self, model: ChainModel, train: Part, test: Part) -> None:
        self.model, self.test = model, test
        self.total = float(train.weight.sum())
        labels, parts = model._pose(*train)
        self.problem = model._problem(labels, *parts)
        origin = self.problem.origin()
        loss = float(origin.smooth + self.problem.observed_value)
        self.tol = max(float(model.tol), _ROUGH * loss)
        self.w: Any = None
        self.paths: Any = None  # active paths of a hinge

    def follow(self, potential: Potential, score: Score | None) -> tuple[float, int]:
        """The score of the held-out part under the next penalty, and the solver's iterations."""
        model, problem = self.model, self.problem.with_potential(potential)
        settings = {} if model.max_iter is None else {"max_iter": int(model.max_iter)}
        chosen = choose(model.solver, problem, tol=self.tol, verbose=0, **settings)
        if isinstance(chosen, BlockFrankWolfe) and chosen.resumes(problem):
            solution, self.paths = chosen.resume(problem, self.paths)
        else:
            solution = chosen.run(problem, self.w)
        model.weights_ = self.w = solution.w
        X, y, weight = self.test
        held_out = model.score(X, y, weight) if score is None else float(score(model, X, y))
        return held_out, int(solution.n_iter)


class ByFolds(ChainModel):
    """A chain model whose constant is chosen before it is fitted: what such models share."""

    cv: Any
    scoring: Any
    best_params_: dict[str, float]
    best_score_: float
    cv_results_: dict[str, Any]

    loss: ClassVar[str]  # its name, as ``ChainClassifier`` has it
    _constant: ClassVar[str]  # the name of the constant
    _fitted_fields: ClassVar[tuple[str, ...]] = (
        *ChainModel._fitted_fields[:2],  # of the input, which is read first
        *("best_params_", "best_score_", "cv_results_"),
        *ChainModel._fitted_fields[2:],
    )

    @abstractmethod
    def _constants(self) -> list[float]:
        """What to choose from, the strongest penalty first."""

    @abstractmethod
    def _model(self, constant: float) -> ChainModel:
        """The model with a constant and the settings of this one."""

    def _settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _SHARED}

    def _recipe(self, total: float) -> tuple[Any, Potential]:
        return self._model(self.best_params_[self._constant])._recipe(total)

    def fit(
        self,
        X: SequencesLike,
        y: SequencesLike | None = None,
        sample_weight: ArrayLike | None = None,
        callback: Callback | None = None,
    ) -> Any:
        """Choose the constant by folds of the sequences X, then learn from all of them.

        Sequences and labels as in ``ChainClassifier``, in memory and with all labels known; so is
        ``callback``, which sees the last fit.
        """
        self._check_settings()
        self._refuse_for_series("the paths of the folds")
        if is_blocked(X):
            raise TypeError(
                f"{type(self).__name__} takes sequences in memory: choose the constant with a part "
                "of them, and give it to the model that is fitted in blocks"
            )
        with unless_it_fails(self):
            return self._choose_and_fit(X, y, sample_weight, callback)

    def _choose_and_fit(self, X: Any, y: Any, sample_weight: Any, callback: Any) -> Any:
        name = type(self).__name__
        constants = self._constants()
        X = X if isinstance(X, Tokens) else list_of_sequences(X)
        matrix, lengths = self._read(X, fit=True)
        labels = read_labels(name, y, lengths)
        if number_labels(labels).hidden:
            raise ValueError(
                f"{name} compares held-out labels, and some of y are None: choose the constant "
                "with the sequences whose labels are all known"
            )
        weight = masses("sample_weight", sample_weight, len(lengths))
        names: Any = self.attributes_  # None for matrices
        whole = Part(Tokens(matrix, lengths, names), labels, weight)
        with one_blas_thread():
            self._choose(constants, list(self._folds(whole, constants[0])))
        if not weight.all():  # sequences of weight 0 have no part in the names
            return super().fit(X, y, weight, callback)
        return super().fit(whole.tokens, labels, weight, callback)

    def _folds(self, whole: Part, constant: float) -> Iterator[Fold]:
        from sklearn.model_selection import KFold, check_cv  # slow to load: only where it is used

        count = len(whole.labels)
        cv = 3 if self.cv is None else self.cv
        # sequences may come in an order, of documents or of the alphabet: folds are shuffled
        folds = KFold(int(cv), shuffle=True, random_state=0) if isinstance(cv, Integral) else cv
        splits = check_cv(folds).split(np.zeros((count, 1)))
        for number, (train, test) in enumerate(splits):
            parts = whole.take(train), whole.take(test)
            if not (parts[0].labels and parts[1].labels):
                raise ValueError(
                    f"split {number} of cv has no sequence with a weight to train or to test on: "
                    "give fewer folds or other splits"
                )
            yield Fold(self._model(constant), *parts)

    def _choose(self, constants: Sequence[float], folds: list[Fold]) -> None:
        """From the middle to better neighbours until both are worse; ties: the strongest."""
        if self.scoring is not None and not callable(self.scoring):
            raise ValueError(
                "scoring must be None, the share of right labels, or a function (model, X, y) -> "
                f"score, got {self.scoring!r}"
            )
        progress = Progress(type(self).__name__, self.verbose)
        tried: dict[int, tuple[list[float], int]] = {}  # scores of the folds, and iterations
        best, place = -1, len(constants) // 2

        def value(i: int) -> float:  # rounding must not decide between equal scores
            return float(np.round(np.mean(tried[i][0]), 12))

        try:
            while True:
                penalty = self._model(constants[place])
                told = [fold.follow(penalty._recipe(fold.total)[1], self.scoring) for fold in folds]
                tried[place] = [score for score, _ in told], sum(steps for _, steps in told)
                if not np.isfinite(value(place)):
                    raise ValueError(
                        f"the held-out score at {self._constant} = {constants[place]:g} is "
                        f"{value(place)}: scoring must give finite numbers"
                    )
                progress.update(f"{self._constant} {constants[place]:g}: {value(place):.4f}")
                best = min(tried, key=lambda i: (-value(i), i))
                around = [i for i in (best - 1, best + 1) if 0 <= i < len(constants)]
                left = [i for i in around if i not in tried]
                if not left:
                    break
                place = left[0]
        finally:
            progress.close()
        places = sorted(tried)
        scores = np.array([tried[i][0] for i in places])
        self.best_params_ = {self._constant: float(constants[best])}
        self.best_score_ = value(best)
        self.cv_results_ = {
            self._constant: [float(constants[i]) for i in places],
            "mean_score": scores.mean(axis=1),
            "sd_score": scores.std(axis=1),
            "scores": scores,
            "n_iter": [tried[i][1] for i in places],
        }


@io.register
@dataclass(eq=False, repr=False)
class M3NCV(ByFolds):
    """An ``M3N`` whose C comes from cross-validation over the sequences.

    The search begins in the middle of ``Cs`` and goes to the neighbour that scores better, until
    both neighbours of the best score worse. Each fold follows it along one path of models, solved
    to a rough duality gap, each started from the paths of labels that the one before has in use.
    The best C is then fitted to all sequences: about three times the work of that last fit. C
    stands beside a sum over sequences, so it means much the same in the folds.

    Parameters
    ----------
    Cs : sequence of float, default (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
        Values of C to choose from; of equally good ones the smallest is taken.
    transitions : "constant" or "input", default "constant"
        "input" has scores of two labels that depend on the features of the second's position as
        well.
    all_pairs : bool, default False
        Whether attributes have a weight for every label. By default those of sparse data have
        weights for the labels they occur with in training; dense ones for all.
    least : int, default 1
        Attributes that occur less often in training are left out.
    solver : str or Solver, default "auto"
        How to solve the problem; see ``Problem.solve``. "auto" chooses by the problem.
    tol : float, default 1e-4
        Duality gap at which to stop.
    max_iter : int, default None
        Iterations at most; None is the solver's own limit.
    verbose : int, default 0
        1 shows a progress line.
    checkpoint : path, default None
        File that holds weights and history after each step, from which a fit goes on.
    cv : int, splitter or list of splits, default 3
        Folds of the sequences, shuffled; or a splitter or a list of splits.
    scoring : callable, default None
        None for the share of right labels, or a function (model, X, y) -> score of held-out
        sequences, largest best.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The labels, sorted.
    best_params_ : dict
        The C chosen.
    best_score_ : float
        Its mean held-out score.
    cv_results_ : dict
        Of every C that was tried: mean and sd of the scores over the folds, those of each fold, and
        the iterations.
    coef_ : array or sparse array (n_classes, n_features)
        Weights of the attributes.
    transitions_ : array (n_classes, n_classes)
        T, scores of two labels in a row.
    attributes_ : Attributes
        Names of the attributes, where X has names.
    weights_ : array
        All weights w in one vector: those of the attributes, then T, then what depends on the
        input.
    start_ : array
        Where the labels of each attribute start in ``state_``; None if every pair has a weight.
    state_ : array
        Labels that each attribute has a weight for; None if every pair has one.
    loss_ : float
        Mean loss on the training data.
    objective_ : float
        ``loss_`` with the penalty.
    gap_ : float
        Duality gap: ``objective_`` is at most this far above the minimum.
    optimality_ : float
        Violation of the optimality conditions.
    n_iter_ : int
        Iterations of the solver.
    n_features_in_ : int
        Number of attributes.

    Examples
    --------
    >>> X = [[["a"], ["b"]], [["a"], ["a"]], [["b"], ["a"]]] * 2
    >>> y = [[0, 1], [0, 0], [1, 0]] * 2
    >>> model = M3NCV([0.01, 1.0]).fit(X, y)
    >>> model.best_params_, model.predict([[["a"], ["b"]]])
    ({'C': 1.0}, [array([0, 1])])
    """

    loss: ClassVar[str] = "hinge"
    _constant: ClassVar[str] = "C"

    Cs: Any = CS
    _: KW_ONLY
    cv: SplitterLike = 3
    scoring: ScoringLike = None

    def _constants(self) -> list[float]:
        return positive_grid("Cs", self.Cs)[::-1]

    def _model(self, constant: float) -> ChainModel:
        return M3N(constant, **self._settings())


@io.register
@dataclass(eq=False, repr=False)
class L2CRFCV(ByFolds):
    """An ``L2CRF`` whose c2 comes from cross-validation over the sequences.

    Models on a fold's path start from the weights of the one before. The search is that of
    ``M3NCV``.

    Parameters
    ----------
    c2s : sequence of float, default (100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01)
        Values of c2 to choose from; of equally good ones the largest is taken.
    transitions : "constant" or "input", default "constant"
        "input" has scores of two labels that depend on the features of the second's position as
        well.
    all_pairs : bool, default False
        Whether attributes have a weight for every label. By default those of sparse data have
        weights for the labels they occur with in training; dense ones for all.
    least : int, default 1
        Attributes that occur less often in training are left out.
    solver : str or Solver, default "auto"
        How to solve the problem; see ``Problem.solve``. "auto" chooses by the problem.
    tol : float, default 1e-4
        Duality gap at which to stop.
    max_iter : int, default None
        Iterations at most; None is the solver's own limit.
    verbose : int, default 0
        1 shows a progress line.
    checkpoint : path, default None
        File that holds weights and history after each step, from which a fit goes on.
    cv : int, splitter or list of splits, default 3
        Folds of the sequences, shuffled; or a splitter or a list of splits.
    scoring : callable, default None
        None for the share of right labels, or a function (model, X, y) -> score of held-out
        sequences, largest best.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The labels, sorted.
    best_params_ : dict
        The c2 chosen.
    best_score_ : float
        Its mean held-out score.
    cv_results_ : dict
        Of every c2 that was tried: mean and sd of the scores over the folds, those of each fold,
        and the iterations.
    coef_ : array or sparse array (n_classes, n_features)
        Weights of the attributes.
    transitions_ : array (n_classes, n_classes)
        T, scores of two labels in a row.
    attributes_ : Attributes
        Names of the attributes, where X has names.
    weights_ : array
        All weights w in one vector: those of the attributes, then T, then what depends on the
        input.
    start_ : array
        Where the labels of each attribute start in ``state_``; None if every pair has a weight.
    state_ : array
        Labels that each attribute has a weight for; None if every pair has one.
    loss_ : float
        Mean loss on the training data.
    objective_ : float
        ``loss_`` with the penalty.
    gap_ : float
        Duality gap: ``objective_`` is at most this far above the minimum.
    optimality_ : float
        Violation of the optimality conditions.
    n_iter_ : int
        Iterations of the solver.
    n_features_in_ : int
        Number of attributes.

    Examples
    --------
    >>> X = [[["a"], ["b"]], [["a"], ["a"]], [["b"], ["a"]]] * 2
    >>> y = [[0, 1], [0, 0], [1, 0]] * 2
    >>> model = L2CRFCV([0.1, 10.0]).fit(X, y)
    >>> sorted(model.best_params_), model.predict([[["a"], ["b"]]])
    (['c2'], [array([0, 1])])
    """

    loss: ClassVar[str] = "crf"
    _constant: ClassVar[str] = "c2"

    c2s: Any = C2S
    _: KW_ONLY
    cv: SplitterLike = 3
    scoring: ScoringLike = None

    def _constants(self) -> list[float]:
        return positive_grid("c2s", self.c2s)

    def _model(self, constant: float) -> ChainModel:
        return L2CRF(constant, **self._settings())
