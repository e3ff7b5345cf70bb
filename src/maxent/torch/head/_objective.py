"""What the head minimises."""

from __future__ import annotations

from typing import NamedTuple

from maxent.torch.maps.scaling import PLAIN, Scaling


class Objective(NamedTuple):
    """A loss of scores; a tuple, as not every version of torch.compile takes nested dataclasses.

    Attributes
    ----------
    kind : str
        The family of the entropy.
    parameter : float
        Which of the family.
    scaling : Scaling
        What is done to the scores first.
    label_smoothing : float
        How much of each label goes to all classes.
    z_loss : float
        What the squares of the conjugates are multiplied by.
    """

    kind: str
    parameter: float
    scaling: Scaling = PLAIN
    label_smoothing: float = 0.0
    z_loss: float = 0.0

    @property
    def plain(self) -> bool:
        """Whether p - y is the gradient of each row times its share."""
        return self.scaling.plain and not self.label_smoothing and not self.z_loss

    @property
    def rank_one(self) -> bool:
        """Whether smoothed labels add a matrix of rank one to the gradients: x is linear in s."""
        return bool(self.label_smoothing) and not self.scaling.soft_cap

    @property
    def dense(self) -> bool:
        """Whether every class has a gradient of its own in every row."""
        return bool(self.label_smoothing) and not self.rank_one

    def numbers(self) -> list[float]:
        """All but the kind, as an operator of torch takes them."""
        scaling = self.scaling
        return [
            self.parameter,
            scaling.temperature,
            scaling.soft_cap,
            self.label_smoothing,
            self.z_loss,
        ]

    @classmethod
    def of(cls, kind: str, numbers: list[float]) -> Objective:
        """What ``numbers`` came from."""
        parameter, temperature, soft_cap, label_smoothing, z_loss = numbers
        return cls(kind, parameter, Scaling(temperature, soft_cap), label_smoothing, z_loss)
