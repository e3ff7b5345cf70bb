"""
One problem, three solvers, one certificate
===========================================

Every model of this library is one convex problem and its dual. The duality gap bounds the error of
any solver at any time, without knowing the solution.
"""

# %%
# The primal looks for a distribution :math:`p`, the dual for weights :math:`w`:
#
# .. math::
#
#    \min_p\; \Omega(p) + V(Fp - \mu)
#    \qquad\text{and}\qquad
#    \min_w\; \Omega^*(F^\top w) - \langle w, \mu \rangle + V^*(-w) .
#
# At the optimum one value is minus the other. Here :math:`\Omega` is the negative Shannon entropy
# over 2,000 cells, :math:`F` holds 60 features, :math:`\mu` their observed means, and :math:`V`
# allows each mean to be missed by 0.01. The penalty :math:`V^*` on the weights is then 0.01 times
# their 1-norm.

import matplotlib.pyplot as plt
import numpy as np

import maxent as mx

rng = np.random.default_rng(0)
X = rng.normal(size=(2000, 60)) @ rng.normal(size=(60, 60)) / 8  # correlated features
truth = np.exp(X @ (rng.normal(size=60) * (rng.random(60) < 0.2)))
observed = rng.multinomial(1000, truth / truth.sum()) / 1000
problem = mx.Problem(mx.Shannon(), X, mx.Box(0.01), observed=observed)

exact = problem.solve(tol=1e-12)  # for comparison
solutions = {
    "ProxNewton": problem.solve(mx.ProxNewton(tol=1e-7)),
    "OWLQN": problem.solve(mx.OWLQN(tol=1e-7)),
    "FISTA": problem.solve(mx.FISTA(tol=1e-7)),
}
for name, solution in solutions.items():
    print(f"{name:>10}: {solution.n_iter:3d} steps, gap {solution.gap:.1e}")

# %%
# The gap closes from both sides. The dual objective is an upper bound on its own minimum. Minus the
# primal value of a feasible :math:`p` is a lower bound. Their difference is the gap.

best = exact.objective
history = solutions["FISTA"].history
dual = np.array([record["objective"] for record in history])
gap = np.array([record["gap"] for record in history])

fig, axis = plt.subplots(figsize=(7, 3.2), layout="constrained")
axis.fill_between(
    np.arange(dual.size), dual - gap, dual, color="C0", alpha=0.2, label="duality gap"
)
axis.plot(dual, label="dual objective")
axis.plot(dual - gap, "--", label="minus the primal value")
axis.axhline(best, color="black", linewidth=0.8, linestyle=":", label="optimum")
axis.set(title="FISTA closes in on the optimum", xlabel="iteration", ylabel="objective")
axis.set(xlim=(0, 60), ylim=(5, dual[0]))
axis.legend()

# %%
# **How to read this.** The optimum always lies in the shaded band, between the two curves. A solver
# that stops when the band is thinner than its tolerance cannot be wrong by more than that.
#
# The same for all three solvers, on a logarithmic axis. The suboptimality is what we would like to
# know; the gap is what a solver can compute.

fig, axis = plt.subplots(figsize=(7, 3.6), layout="constrained")
for colour, (name, solution) in zip(("C0", "C1", "C2"), solutions.items(), strict=True):
    seconds, dual, gap = np.array(
        [(record["seconds"], record["objective"], record["gap"]) for record in solution.history[1:]]
    ).T
    axis.loglog(seconds, gap, color=colour, marker=".", label=f"{name}, gap")
    axis.loglog(seconds, np.maximum(dual - best, 1e-10), "--", color=colour, label="suboptimality")
axis.axhline(1e-7, color="black", linewidth=0.8, linestyle=":", label="tolerance")
axis.set(title="The gap bounds the suboptimality", xlabel="seconds", ylabel="nats")
axis.legend(fontsize="small", loc="lower left")

# %%
# **How to read this.** Every dashed line is below the solid line of its colour: the certificate
# holds. A solver stops when its solid line reaches the dotted one. Values below 1e-10 are drawn
# there. The solvers take different times and return the same answer. The gap also bounds the
# distance of :math:`p` from the optimum, by Pinsker's inequality, and the bound holds:

for name, solution in solutions.items():
    far = np.abs(solution.p - exact.p).sum()
    print(f"{name:>10}: ||p - p*||_1 <= {solution.guarantees['l1']:.1e}, found {far:.1e}")
