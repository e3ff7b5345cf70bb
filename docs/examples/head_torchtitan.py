"""A loss in chunks for torchtitan, called here as its trainer calls one.

With torchtitan the class is a ``ChunkedLossWrapper`` too, by which the trainer knows to leave the
head to the loss, and the configuration names it: see the page on torch.
"""

import maxent.torch as mt
import torch
from torch import nn

CLASSES, WIDTH = 400, 32


class Decoder(nn.Module):
    """What torchtitan's models are to its trainer: a head, and a flag that leaves it out."""

    _skip_lm_head = False

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(CLASSES, WIDTH)
        self.body = nn.Sequential(nn.Linear(WIDTH, 64), nn.SiLU(), nn.Linear(64, WIDTH))
        self.lm_head = nn.Linear(WIDTH, CLASSES, bias=False)

    def forward(self, words):
        """Hidden vectors, or scores."""
        hidden = self.body(self.words(words))
        return hidden if self._skip_lm_head else self.lm_head(hidden)


torch.manual_seed(0)
model = Decoder()
loss_fn = mt.ChunkedLoss("entmax15", num_chunks=4)  # was: ChunkedLossWrapper of CrossEntropyLoss
loss_fn.set_lm_head(model.lm_head)
model._skip_lm_head = True

optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for _ in range(80):
    optimizer.zero_grad()
    batches = [torch.randint(CLASSES - 1, (64,)) for _ in range(2)]  # whose gradients are added up
    valid = torch.tensor(sum(len(words) for words in batches))
    losses = [loss_fn(model(words), words + 1, valid)[0] for words in batches]
    for loss in losses:
        loss.backward()
    optimizer.step()

model._skip_lm_head = False
words = torch.arange(CLASSES - 1)
right = (model(words).argmax(1) == words + 1).float().mean().item()
print(f"loss {sum(losses).item():.3f}, right {right:.1%}")
assert right > 0.9
