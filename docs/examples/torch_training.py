"""A small network on the digits, with cross-entropy and with the entmax loss side by side."""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import maxent.torch as mt
import torch
from torch import nn

DIGITS = load_digits()
X, X_TEST, Y, Y_TEST = (
    torch.from_numpy(part)
    for part in train_test_split(
        (DIGITS.data / 16).astype("float32"), DIGITS.target, test_size=0.3, random_state=0
    )
)


def train(criterion: nn.Module, epochs: int = 8) -> nn.Module:
    """A network with one hidden layer, minibatches of 64, Adam."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(epochs):
        for batch in torch.randperm(len(X)).split(64):
            optimizer.zero_grad()
            criterion(model(X[batch]), Y[batch]).backward()
            optimizer.step()
    return model


def report(name: str, model: nn.Module, predict: nn.Module) -> tuple[float, float]:
    """Accuracy on the test set and the share of probabilities that are exactly zero."""
    with torch.no_grad():
        p = predict(model(X_TEST))
    accuracy = (p.argmax(1) == Y_TEST).float().mean().item()
    zeros = (p == 0).float().mean().item()
    print(f"{name:15} accuracy {accuracy:.3f}   exact zeros {zeros:.1%}")
    return accuracy, zeros


if __name__ == "__main__":
    dense = report("cross-entropy", train(nn.CrossEntropyLoss()), nn.Softmax(dim=-1))
    sparse = report("entmax15 loss", train(mt.FenchelYoungLoss("entmax15")), mt.Entmax15())
    assert min(dense[0], sparse[0]) > 0.93
    assert dense[1] < 0.01 < 0.7 < sparse[1]
