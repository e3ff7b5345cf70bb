"""Associative recall with softmax and with sparse attention: trained short, tested longer.

python docs/examples/attention.py

A sequence is made of keys, each followed by its value: "k7 v2 k1 v5 k7 v2 ...". Whenever a key
comes back its value has to be predicted, so the model must find the key among all that came before.
A token is mixed with the one before it, and there are no other positions: nothing but attention
depends on the length.
"""

import maxent.torch as mt
import torch
from torch import nn

VALUES = 64
METHODS = {  # alpha, and whether scores grow with the logarithm of the number of keys
    "softmax": (1.0, False),
    "entmax 1.5": (1.5, False),
    "entmax, learned": ("learned", False),
}


def draw(batch, length, keys, generator):
    """Tokens (batch, length), and for each key (batch, length / 2) where it was first.

    In every sequence keys have other values; there are half as many of them as places.
    """
    places, device = length // 2, generator.device
    value = torch.randint(VALUES, (batch, keys), device=device, generator=generator)
    own = torch.rand(batch, keys, device=device, generator=generator).topk(places // 2).indices
    which = torch.randint(places // 2, (batch, places), device=device, generator=generator)
    key, place = own.gather(1, which), torch.arange(places, device=device).expand(batch, -1)
    first = torch.full_like(value, places).scatter_reduce(1, key, place, "amin").gather(1, key)
    return torch.stack([key, keys + value.gather(1, key)], 2).flatten(1), first


class Attention(nn.Module):
    """Causal attention; ``alpha`` is a number, or "learned": one for each head."""

    def __init__(self, width, heads, alpha, scaled):
        super().__init__()
        self.heads = heads
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fixed = alpha
        self.raw_alpha = nn.Parameter(torch.zeros(heads)) if alpha == "learned" else None
        self.factor = nn.Parameter(torch.full((heads, 1, 1), 0.2)) if scaled else None

    @property
    def alpha(self):
        """Between 1, softmax, and 2, sparsemax, where it is learned."""
        return self.fixed if self.raw_alpha is None else 1 + self.raw_alpha.sigmoid()

    def rows(self, x):
        """Queries, keys and values, (batch, heads, tokens, width of a head)."""
        query, key, value = self.project(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if self.factor is not None:
            seen = torch.arange(1, x.shape[1] + 1, device=x.device)
            query = query * (self.factor * seen.log()[:, None]).to(query.dtype)
        return query, key, value

    def forward(self, x):
        """The outputs of all heads, joined."""
        out = mt.entmax_attention(*self.rows(x), self.alpha, is_causal=True)
        return self.out(out.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Attention and a small network, each added to what it is given."""

    def __init__(self, width, heads, alpha, scaled):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.attention = Attention(width, heads, alpha, scaled)
        self.network = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x):
        """(batch, tokens, width)."""
        x = x + self.attention(self.norms[0](x))
        return x + self.network(self.norms[1](x))


class Model(nn.Module):
    """Embeddings, blocks, and scores of the values."""

    def __init__(self, alpha, scaled=False, keys=128, width=64, heads=2, layers=1):
        super().__init__()
        self.keys = keys
        self.embedding, self.before = nn.Embedding(keys + VALUES, width), nn.Linear(width, width)
        self.blocks = nn.Sequential(*(Block(width, heads, alpha, scaled) for _ in range(layers)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, VALUES))

    def embed(self, tokens):
        """Each token with the one before it."""
        x = self.embedding(tokens)
        return x + self.before(nn.functional.pad(x, (0, 0, 1, 0))[:, :-1])

    def forward(self, tokens):
        """Scores of the value that follows each key, (batch, tokens / 2, values)."""
        return self.head(self.blocks(self.embed(tokens))[:, ::2])


def asked(model, tokens, first, last=0):
    """Scores and right values at the keys that were there before, among the last so many or all."""
    again = first < torch.arange(first.shape[1], device=first.device)
    answers = model(tokens), tokens[:, 1::2] - model.keys
    return [x[:, -last:][again[:, -last:]] for x in answers]


def train(model, steps, batch, length, generator, rate=3e-3):
    """AdamW with a warm start and a cosine; yields the loss and the accuracy of each step.

    Short sequences come first, where a key is easier to find: of 64 tokens, then twice as long
    after every eighth of the steps until they have ``length``, and as many tokens in a step.
    """
    device = generator.device.type
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, steps, pct_start=0.05)
    for step in range(steps):
        now = min(64 << (8 * step // steps), length)
        sequences = draw(batch * length // now, now, model.keys, generator)
        with torch.autocast(device, torch.bfloat16, device == "cuda"):
            scores, right = asked(model, *sequences)
            loss = nn.functional.cross_entropy(scores, right)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        yield loss.detach(), (scores.argmax(1) == right).float().mean()


@torch.no_grad()
def accuracy(model, sequences, length, generator, last=32):
    """Share of right values at the last keys of new sequences."""
    scores, right = asked(model, *draw(sequences, length, model.keys, generator), last)
    return (scores.argmax(1) == right).float().mean().item()


def trained(method, steps=80, length=64):
    """A small model, in seconds."""
    torch.set_num_threads(1)  # for tensors this small, threads only get in the way
    torch.manual_seed(0)
    model, generator = Model(*METHODS[method]), torch.Generator().manual_seed(0)
    for step, (loss, right) in enumerate(train(model, steps, 16, length, generator, rate=1e-2), 1):
        if step % (steps // 4) == 0:
            print(f"{method:15} step {step:4}  loss {loss:6.3f}  right {right:6.1%}")
    return model


if __name__ == "__main__":
    for method in METHODS:
        model, generator = trained(method), torch.Generator().manual_seed(1)
        shares = {n: accuracy(model, 16, n, generator) for n in (64, 128, 256)}
        print(f"{method:15}", ", ".join(f"{p:.1%} of {n} tokens" for n, p in shares.items()))
        assert shares[64] > 0.9
