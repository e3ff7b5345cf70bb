"""Experiments whose numbers can be checked without running them whole."""

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pandas")
sys.path.insert(0, str(Path(__file__).parents[1]))
from experiments import shrinkage


def test_balls_of_the_kl_norm_lie_between_l2_and_l1():
    balls = shrinkage.borders(points=21)
    corners = balls[balls["w1"].isin([0.0, 1.0])]
    assert np.allclose(corners["w1"] + corners["w2"], 1, atol=1e-6)
    meet = shrinkage.diagonal(balls)
    assert meet["l2"] == pytest.approx(0.5**0.5, abs=1e-2)
    assert meet["l1"] == pytest.approx(0.5)
    assert meet["KL, lam = 1":].is_monotonic_decreasing
    assert meet["l1"] < meet.iloc[-1] < meet.iloc[2] < meet["l2"]
