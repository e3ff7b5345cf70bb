import pytest

import maxent as mx
from catalogue import ENTROPIES
from maxent.testing import check_entropy


@pytest.mark.parametrize(("entropy", "size"), ENTROPIES, ids=lambda x: repr(x)[:60])
def test_mathematics(entropy, size):
    check_entropy(entropy, size)


class WrongMap(mx.Shannon):
    """Softmax sharpened: p no longer maximises."""

    def _conjugate(self, theta, q=None):
        values, _ = super()._conjugate(theta, q)
        return values, super()._conjugate(1.1 * theta, q)[1]


class WrongDerivative(mx.Tsallis):
    """A Jacobian twice too large."""

    def _hvp(self, theta, p, v, q=None):
        return 2 * super()._hvp(theta, p, v, q)


class WrongStep(mx.Tsallis):
    """A proximity operator that ignores its step: invisible at tau = 1."""

    def _prox(self, eta, tau, q=None):
        return super()._prox(eta, 1.0, q)


class WrongMargin(mx.Tsallis):
    """Half the margin."""

    margin = 0.5


@pytest.mark.parametrize(
    ("entropy", "message"),
    [
        (WrongMap(), "at the maximiser"),
        (WrongDerivative(1.5), "hvp differs"),
        (WrongStep(1.5), r"prox at tau = 0\.3"),
        (WrongMargin(2.0), "of its margin"),
    ],
)
def test_a_broken_entropy_is_caught(entropy, message):
    with pytest.raises(AssertionError, match=message):
        check_entropy(entropy, 5)
