import pytest

from catalogue import ENTROPIES
from maxent.testing import check_entropy


@pytest.mark.parametrize(("entropy", "size"), ENTROPIES, ids=lambda x: repr(x)[:60])
def test_mathematics(entropy, size):
    check_entropy(entropy, size)
