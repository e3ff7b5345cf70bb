"""
A language-model head that rules words out
==========================================

A language model with a softmax gives every word of its vocabulary some probability, so sampling
from it now and then picks a word that makes no sense. :class:`maxent.torch.LinearFenchelYoungLoss`
is the last layer and the loss in one. With 1.5-entmax or sparsemax it learns which words can
follow, and gives others exactly zero.
"""

# %%
# Our made-up language has 100 words. Each may be followed by five others, some more often than
# others. The model has to find out which. We write a text of 60 lines.

import matplotlib.pyplot as plt

import maxent.torch as mt
import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)  # for tensors this small, threads only get in the way
words, followers = 100, 5
steps = torch.randperm(words)[:followers]
allowed = torch.randperm(words)[(torch.arange(words)[:, None] + steps) % words]
grammar = torch.zeros(words, words).scatter(1, allowed, 0.2 + torch.rand(words, followers))
grammar /= grammar.sum(dim=1, keepdim=True)

text = [torch.randint(words, (60,))]
for _ in range(1199):
    text.append(torch.multinomial(grammar[text[-1]], 1)[:, 0])
text = torch.stack(text, dim=1)

# %%
# The model could hardly be smaller: a vector for each word, and the head. ``shift=1`` means that
# the vector at place t predicts the word at place t + 1. Only the name of the entropy changes from
# model to model.


class Model(nn.Module):
    """Embeddings and a head."""

    def __init__(self, entropy, width=32):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.head = mt.LinearFenchelYoungLoss(width, words, entropy, shift=1)

    def forward(self, tokens):
        """The loss of predicting each next word."""
        return self.head(self.embedding(tokens), tokens)

    @torch.no_grad()
    def probabilities(self):
        """Of the next word, after each word of the vocabulary."""
        scores = self.embedding.weight @ self.head.weight.T
        return mt.entmax(scores, self.head.entropy.parameter)


models = {name: Model(name) for name in ("shannon", "entmax15", "sparsemax")}
history = {name: [] for name in models}
for name, model in models.items():
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, total_iters=120)
    for tokens in text.split(10, dim=1):
        loss = model(tokens)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        size = (model.probabilities() > 0).sum(dim=1).float().mean()
        history[name].append((loss.item(), size.item()))

fig, axes = plt.subplots(1, 2, figsize=(7, 3.2), layout="constrained")
for (name, values), color in zip(history.items(), ["#0072B2", "#E69F00", "#D55E00"], strict=True):
    for axis, line in zip(axes, zip(*values, strict=True), strict=True):
        axis.plot(line, color=color, label=name)
axes[0].set(title="Training loss", xlabel="step", ylabel="mean loss per word", ylim=(0, None))
axes[1].set(title="Possible next words", xlabel="step", ylabel="words with probability > 0")
axes[1].set_yscale("log")
axes[1].axhline(followers, color="black", linestyle=":", label="in the grammar")
legend = axes[1].legend(fontsize="small")

# %%
# **How to read this.** "Shannon" is softmax with cross-entropy. Left: all losses fall. They are on
# different scales, so their heights cannot be compared. Right: softmax keeps all 100 words
# possible to the end. Sparsemax soon reaches the dotted line, the number of words that the grammar
# allows, and 1.5-entmax comes close to it.
#
# Now let the models speak. We sample next words and look them up in the grammar. A model can also
# rule out too much, so the last column says how much of the language it still allows.

for name, model in models.items():
    p = model.probabilities()
    said = torch.multinomial(p, 1000, replacement=True)
    wrong = (grammar.gather(1, said) == 0).float().mean()
    print(
        f"{name:>9}: {wrong:6.2%} of sampled words break the grammar, "
        f"{grammar[p > 0].sum() / words:.1%} of the language is possible"
    )

# %%
# In a real model use ``head.predict(hidden)``. It returns the possible words and their
# probabilities without ever writing out a score for each word of a large vocabulary.

p = models["sparsemax"].head.predict(models["sparsemax"].embedding(torch.tensor([0])))
print("after word 0:", p.indices[0].tolist(), p.probabilities[0].numpy().round(2))
print("grammar:     ", sorted(allowed[0].tolist()))
