"""A language model in plain torch: the two lines that change, and what they bring."""

import maxent.torch as mt
import torch
from torch import nn

CLASSES, WIDTH = 400, 32


class Model(nn.Module):
    """A recurrent network that predicts each next word."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(CLASSES, WIDTH)
        self.mixer = nn.GRU(WIDTH, WIDTH, batch_first=True)
        # was: self.head = nn.Linear(WIDTH, CLASSES, bias=False)
        self.head = mt.LinearFenchelYoungLoss(WIDTH, CLASSES, "entmax15", shift=1)

    def hidden(self, words):
        """What the head gets at each place."""
        return self.mixer(self.words(words))[0]

    def forward(self, words):
        """The loss; place t is to predict word t + 1."""
        # was: scores = self.head(self.hidden(words))[:, :-1]
        #      return nn.functional.cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten())
        return self.head(self.hidden(words), words)


def sentences(n):
    """Counting from a number below 50, by one or by two."""
    return torch.randint(50, (n, 1)) + torch.randint(1, 3, (n, 1)) * torch.arange(9)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(150):
        optimizer.zero_grad()
        loss = model(sentences(32))
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        words = sentences(200)
        p = model.head.predict(model.hidden(words)[:, :-1])  # was: scores.softmax(-1)
    right = (p.argmax() == words[:, 1:])[:, 1:].float().mean().item()  # the first may be a guess
    support = p.support.float().mean().item()
    print(f"loss {loss.item():.3f}, right {right:.1%}, {support:.1f} of {CLASSES} words possible")
    assert right > 0.7
    assert support < 10
