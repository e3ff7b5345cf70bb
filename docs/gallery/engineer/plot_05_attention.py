"""
Sparse attention in PyTorch
===========================

Softmax attention always looks a little at every position. :class:`maxent.torch.Entmax` takes its
place in an attention layer and ignores positions completely. How sparse it is can be learnt.
"""

# %%
# A small task shows the difference. Each position holds a noisy picture of its kind (one of four)
# and a value. The right output is the mean value of all positions of the same kind, so attention
# should be spread evenly over these and be zero elsewhere.

import matplotlib.pyplot as plt
import numpy as np

import maxent.torch as mt
import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)  # for tensors this small, threads only get in the way
pictures = torch.randn(4, 16)


def draw(batch, length=12):
    """Noisy pictures, values, which positions are of the same kind, and the right output."""
    kind = torch.randint(4, (batch, length))
    x = pictures[kind] + 0.3 * torch.randn(batch, length, 16)
    values = torch.randn(batch, length, 1)
    same = (kind[:, :, None] == kind[:, None, :]).float()
    return x, values, same, same @ values / same.sum(-1, keepdim=True)


class Attention(nn.Module):
    """One head; ``probabilities`` turns scores into attention."""

    def __init__(self, probabilities):
        super().__init__()
        self.query, self.key = nn.Linear(16, 16, bias=False), nn.Linear(16, 16, bias=False)
        self.probabilities = probabilities

    def forward(self, x):
        """Attention (batch, positions, positions looked at)."""
        return self.probabilities(self.query(x) @ self.key(x).mT / 4)


# %%
# The two layers differ in one argument. With ``learnable=True`` the index alpha of entmax is a
# parameter like any other.

layers = {
    "softmax": Attention(nn.Softmax(-1)),
    "entmax": Attention(mt.Entmax(1.5, learnable=True)),
}
for layer in layers.values():
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, total_iters=100)
    for _ in range(100):
        x, values, _, target = draw(32)
        loss = (layer(x) @ values - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()

# %%
# The new sequence with the most even mix of kinds, sorted so that the blocks are easy to see:

with torch.no_grad():
    x, values, same, target = draw(500)
    attention = {name: layer(x) for name, layer in layers.items()}
shown = same.sum((1, 2)).argmin()
order = same[shown].argmax(-1).argsort(stable=True)
panels = {"ideal": same / same.sum(-1, keepdim=True), **attention}

fig, axes = plt.subplots(1, 3, figsize=(7, 3.0), layout="constrained")
for axis, (name, matrix) in zip(axes, panels.items(), strict=True):
    p = matrix[shown][order][:, order].numpy()
    image = axis.imshow(p, cmap="cividis", vmin=0, vmax=0.6)
    for i, j in np.argwhere(p == 0):
        axis.plot(j, i, ".", color="white", markersize=2)
    axis.set(title=name, xlabel="position looked at", xticks=[], yticks=[])
axes[0].set_ylabel("position")
fig.colorbar(image, ax=axes, label="attention", shrink=0.8).outline.set_visible(False)

# %%
# **How to read this.** Each row shows where one position looks. A white dot marks an attention of
# exactly zero. Both layers find the blocks. Entmax leaves much of the rest at zero, while softmax
# leaks a little to every position.

for name, p in attention.items():
    error = (p @ values - target).square().mean()
    leak = (p * (1 - same)).sum(-1).mean()
    zeros = (p[same == 0] == 0).float().mean()
    print(
        f"{name:>7}: test error {error:.4f}, attention on other kinds {leak:.3f}, "
        f"of which exactly zero {zeros:.0%}"
    )
print(f"learnt alpha: {layers['entmax'].probabilities.alpha.item():.2f}")
