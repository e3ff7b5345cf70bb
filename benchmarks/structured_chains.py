"""Chains, soft-DTW and SparseMAP in torch, beside the packages that have them.

Seconds are CPU time, of all threads: the work that each does, on a machine that others share.
"""

from __future__ import annotations

from functools import partial
from time import process_time

import maxent.torch.structured as ms
import torch
from benchmarks.limits import rates, with_limit
from benchmarks.peers import lp_sparsemap, pysdtw, pytorch_crf, tslearn
from benchmarks.peers import torch_struct_chains as torch_struct
from benchmarks.report import Row, compared, missing
from benchmarks.sparsemap import sparsemap_rows
from benchmarks.timing import in_turns as turns
from maxent import Chain
from torch import Tensor

in_turns = partial(turns, clock=process_time)
OURS = "maxent"
BATCH, LENGTH, STATES = 256, 50, 20
DTW_PRODUCTS = 12  # a cell: cost 2, forward 3, backward 3, marginal 1, slopes in x and y 3
TEN, HUNDRED = ("at least 10 x faster", 10.0), ("at least 100 x faster", 100.0)


def run(quick: bool = False, only: str = "") -> list[Row]:
    """Every problem with its peers; ``only`` is how the names of those begin that are measured."""
    torch.set_num_threads(2)

    def wanted(name: str) -> bool:
        return name.startswith(only)

    rows: list[Row] = []
    for dtype in (torch.float32, torch.float64):
        torch.manual_seed(0)
        batch = 32 if quick else BATCH
        nodes = torch.randn(batch, LENGTH, STATES, dtype=dtype)
        transitions = torch.randn(STATES, STATES, dtype=dtype)
        if wanted("CRF loss"):
            rows += losses(nodes, transitions)
        if wanted("log-partition") and dtype == torch.float32:  # the peer takes seconds per call
            rows += marginals(nodes, transitions)
        if wanted("Viterbi"):
            rows += paths(nodes, transitions)
        if wanted("soft-DTW"):
            rows += soft_dtw(8 if quick else 64, dtype)
    if wanted("5 best paths"):
        rows += kbest(nodes[:4].float(), transitions.float())
    if wanted("SparseMAP"):
        rows += sparsemap(2 if quick else 8)
    return rows


def _name(nodes: Tensor) -> str:
    shape = " x ".join(map(str, nodes.shape))
    return f"{shape} {str(nodes.dtype).removeprefix('torch.')}"


def losses(nodes: Tensor, transitions: Tensor) -> list[Row]:
    """Negative log-likelihood and its gradient: log-partition, marginals, and the tags."""
    tags = torch.randint(STATES, nodes.shape[:2])
    leaves = nodes.clone().requires_grad_(), transitions.clone().requires_grad_()

    def ours() -> tuple[Tensor, ...]:
        loss = ms.crf_loss(*leaves, tags, reduction="sum")
        return torch.autograd.grad(loss, leaves)

    problem = f"CRF loss, forward and backward, {_name(nodes)}"
    try:
        competitors = {OURS: ours, pytorch_crf.NAME: pytorch_crf.losses(nodes, transitions, tags)}
    except ImportError as error:
        return [missing("structured_chains", problem, pytorch_crf.NAME, str(error))]
    loss = ms.crf_loss(leaves[0].double(), leaves[1].double(), tags, reduction="sum")
    exact = torch.autograd.grad(loss, leaves[0])[0]
    times = in_turns(competitors)
    errors = {name: float((f()[0] - exact).abs().max()) for name, f in competitors.items()}
    targets = {pytorch_crf.NAME: TEN}
    rows = compared("structured_chains", problem, times, OURS, errors, targets)
    # each position: K exponentials, and K K products forward, backward and for the transitions
    return limited(rows, nodes.numel(), 3 * nodes.numel() * STATES)


def limited(rows: list[Row], exponentials: int, multiplications: int) -> list[Row]:
    """With what the operations that there must be take at best."""
    rate = rates()
    least = exponentials * rate.exponential + multiplications * rate.multiplication
    note = (
        f"{exponentials / 1e6:.3g} million exponentials at {1e9 * rate.exponential:.3g} ns, "
        f"{multiplications / 1e6:.3g} million multiplications at "
        f"{1e9 * rate.multiplication:.2g} ns"
    )
    return with_limit(rows, "operations at measured rates", least, note)


def marginals(nodes: Tensor, transitions: Tensor) -> list[Row]:
    """Log-partitions and marginals without a loss."""
    problem = f"log-partition and marginals, {_name(nodes)}"
    arguments = nodes.requires_grad_(False), transitions

    def ours() -> tuple[Tensor, Tensor]:
        p, counts = ms.chain_marginals(*arguments)
        return p, counts

    try:
        peer = torch_struct.marginals(nodes, transitions)
        counts = peer()[1].sum(1)
    except ImportError as error:
        return [missing("structured_chains", problem, torch_struct.NAME, str(error))]
    exact = ms.chain_marginals(nodes.double(), transitions.double())[1]
    times = in_turns({OURS: ours, torch_struct.NAME: peer}, repeats=2, warm_up=False)
    errors = {
        OURS: float((ours()[1] - exact).abs().max()),
        torch_struct.NAME: float((counts - exact).abs().max()),
    }
    targets = {torch_struct.NAME: HUNDRED}
    return compared("structured_chains", problem, times, OURS, errors, targets)


def paths(nodes: Tensor, transitions: Tensor) -> list[Row]:
    """Best paths; the accuracy is the largest lack of score."""
    problem = f"Viterbi, {_name(nodes)}"
    competitors = {OURS: lambda: ms.chain_argmax(nodes, transitions)[1]}
    rows = []
    for peer in (pytorch_crf, torch_struct) if nodes.dtype == torch.float32 else (pytorch_crf,):
        try:
            run = peer.paths(nodes, transitions)
            run()
            competitors[peer.NAME] = run
        except ImportError as error:
            rows.append(missing("structured_chains", problem, peer.NAME, str(error)))
    best = ms.chain_kbest(nodes.double(), transitions.double(), 1)[0][:, 0]
    times = in_turns(competitors, repeats=3, warm_up=False)
    errors = {}
    for name, find in competitors.items():
        score = ms.chain_score(nodes.double(), transitions.double(), find())
        errors[name] = float((best - score).max())
    targets = {pytorch_crf.NAME: TEN, torch_struct.NAME: HUNDRED}
    return rows + compared("structured_chains", problem, times, OURS, errors, targets)


def kbest(nodes: Tensor, transitions: Tensor) -> list[Row]:
    """The five best paths; the accuracy is the difference of the sum of scores."""
    problem = f"5 best paths, {_name(nodes)}"
    try:
        peer = torch_struct.kbest(nodes, transitions, 5)
        found = peer()
    except ImportError as error:
        return [missing("structured_chains", problem, torch_struct.NAME, str(error))]
    scores, ours = ms.chain_kbest(nodes.double(), transitions.double(), 5)
    ms.chain_kbest(nodes, transitions, 5)  # compiled
    potentials = transitions.double().T + nodes.double()[:, 1:, :, None]
    potentials[:, 0] += nodes.double()[:, 0, None, :]
    theirs = (potentials * found).sum((2, 3, 4)).T
    own = [ms.chain_score(nodes.double(), transitions.double(), ours[:, i]) for i in range(5)]
    times = in_turns(
        {OURS: lambda: ms.chain_kbest(nodes, transitions, 5), torch_struct.NAME: peer},
        repeats=1,
        warm_up=False,
    )
    errors = {
        OURS: float((torch.stack(own, 1) - scores).abs().max()),
        torch_struct.NAME: float((theirs - scores).abs().max()),
    }
    targets = {torch_struct.NAME: HUNDRED}
    return compared("structured_chains", problem, times, OURS, errors, targets)


def soft_dtw(pairs: int, dtype: torch.dtype, gamma: float = 1.0) -> list[Row]:
    """Values and the gradient in x of pairs of length 256."""
    x, y = (torch.randn(pairs, 256, 1, dtype=dtype) for _ in range(2))
    problem = f"soft-DTW value and gradient, {pairs} pairs of 256, {str(dtype)[6:]}"

    def ours(x: Tensor = x, y: Tensor = y) -> Tensor:
        leaf = x.clone().requires_grad_()
        return torch.autograd.grad(ms.soft_dtw(leaf, y, gamma).sum(), leaf)[0]

    competitors, rows = {OURS: ours}, []
    for peer in (tslearn, pysdtw):
        try:
            competitors[peer.NAME] = peer.soft_dtw(x, y, gamma)
        except ImportError as error:
            rows.append(missing("structured_chains", problem, peer.NAME, str(error)))
    exact = ours(x.double(), y.double())
    times = in_turns(competitors, repeats=7)
    errors = {name: float((f() - exact).abs().max()) for name, f in competitors.items()}
    targets = {tslearn.NAME: TEN, pysdtw.NAME: TEN}
    rows += compared("structured_chains", problem, times, OURS, errors, targets)
    cells = pairs * 256 * 256
    return limited(rows, cells, DTW_PRODUCTS * cells)


def sparsemap(chains: int) -> list[Row]:
    """Chains with a block per position."""
    problem = f"SparseMAP forward and backward, chains of {LENGTH} x {STATES}, per chain"
    recorded = lp_sparsemap.SECONDS_PER_CHAIN
    domain = Chain(STATES)
    theta = torch.randn(chains, domain.size(LENGTH), dtype=torch.float64)
    return sparsemap_rows("structured_chains", problem, domain, theta, recorded)
