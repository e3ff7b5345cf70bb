"""Log-probabilities and entropies of chosen tokens, as trainers of policies ask for them."""

from __future__ import annotations

import math

import torch
from maxent.torch.head.statistics import linear_statistics
from maxent.torch.maps.entropies import Entropy
from torch import Tensor


def linear_log_probabilities(
    hidden: Tensor,
    weight: Tensor,
    target: Tensor,
    entropy: str | float | Entropy = "shannon",
    bias: Tensor | None = None,
    ignore_index: int = -100,
    temperature: float = 1.0,
    soft_cap: float | None = None,
    epsilon: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """`log p` of a chosen class for each row, and the entropy of p, both with gradients.

    What trainers of policies and of preferences compute from scores, here without them: with
    "shannon" the first is ``log_softmax(scores).gather(target)`` and the second the entropy of
    softmax, as in the trainers of TRL.

    Parameters
    ----------
    hidden : tensor (..., n_features)
        Hidden vectors h, of which each predicts the target in its own place.
    weight : tensor (n_classes, n_features)
        W, of the type of ``hidden``.
    target : int tensor (...)
        The classes that were chosen.
    entropy : str, float or Entropy, default "shannon"
        "shannon" (softmax), "sparsemax", "entmax15", a number `alpha >= 1`, or ``Shannon()``,
        ``Tsallis(alpha)``.
    bias : tensor (n_classes,), default None
        The constants b.
    ignore_index : int, default -100
        Label of rows that are 0 in both.
    temperature : float, default 1.0
        T: all is of `x = s / T` for scores `s = W h + b`.
    soft_cap : float, default None
        c: all is of `x = c tanh(s / c) / T`.
    epsilon : float, default 0.0
        The first is `log((1 - epsilon) p + epsilon / C)` with C classes. A class that a sparse p
        has ruled out has -inf without it, and no ratio; with it a finite number, whose gradient is
        0.

    Returns
    -------
    log_probability, entropy : tensor (...)
        The entropy is `-Omega(p)`: Shannon's for "shannon", Tsallis' for others.

    Examples
    --------
    >>> import torch
    >>> hidden, weight = torch.tensor([[1.0, 2.0], [0.0, 1.0]]), torch.eye(3, 2)
    >>> chosen = torch.tensor([1, 0])
    >>> linear_log_probabilities(hidden, weight, chosen)[0].exp()
    tensor([0.6652, 0.2119])
    >>> linear_log_probabilities(hidden, weight, chosen, "sparsemax")[0]
    tensor([0., -inf])
    >>> linear_log_probabilities(hidden, weight, chosen, "sparsemax", epsilon=0.03)[0].exp()
    tensor([0.9800, 0.0100])
    """
    if not (isinstance(epsilon, int | float) and 0 <= epsilon < 1):
        raise ValueError(
            f"linear_log_probabilities needs an epsilon from 0 to below 1, got {epsilon!r}"
        )
    found = linear_statistics(
        hidden, weight, target, entropy, bias, ignore_index, temperature=temperature,
        soft_cap=soft_cap,
    )  # fmt: skip
    if not epsilon:
        return found.log_probability, found.entropy
    # through the logarithm, which a small p keeps where p itself has no digits left
    log = math.log1p(-epsilon) + found.log_probability
    floor = torch.full_like(log, math.log(epsilon / len(weight)))
    return torch.logaddexp(log, floor).masked_fill(~found.used, 0), found.entropy
