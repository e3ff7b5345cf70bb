"""Largest errors of the Triton maps against float64: python -m benchmarks.gpu.errors.

On a CUDA device over rows of all lengths; without one in Triton's interpreter (set
TRITON_INTERPRET=1) over short rows.
"""

from __future__ import annotations

import torch
from benchmarks.gpu.sweep import kernels, reference

ALPHAS = (1.0001, 1.01, 1.05, 1.1, 1.2, 1.33, 1.5, 1.75, 1.95, 1.999, 2.0, 2.01, 2.5, 3.0, 5.0, 7.0)
SCALES = (0.1, 1.0, 3.0, 10.0, 30.0, 100.0)


def scores(rows: int, size: int, device: str) -> torch.Tensor:
    """Rows that are normal, heavy-tailed, full of ties, at two levels, even, and far from 0."""
    x = torch.randn(rows, size, device=device)
    x[1::6] = x[1::6] / x[1::6].roll(1, 1).abs().clamp(min=1e-3)
    x[2::6] = x[2::6].round()
    x[3::6] = (x[3::6] > 1).float()
    x[4::6] = torch.linspace(-1, 1, size, device=device)
    x[5::6] += 50
    return x


def worst(alpha: float, columns: tuple[int, ...], rows: int, device: str, each: bool) -> float:
    """Over sizes and scales, with one alpha, or the same one given for each row."""
    map_ = kernels().tsallis_map
    error = 0.0
    for size in columns:
        for scale in SCALES:
            x = scale * scores(rows, size, device)
            given = torch.full((rows,), alpha, device=device) if each else alpha
            error = max(error, float((map_(x, given).double() - reference(x, alpha)).abs().max()))
    return error


def main() -> None:
    """A line an alpha."""
    torch.manual_seed(0)
    there = torch.cuda.is_available()
    columns = (7, 100, 1024, 5000, 32000, 40000, 131072) if there else (7, 100, 1000)
    settings = {
        "columns": columns,
        "rows": 60 if there else 6,
        "device": "cuda" if there else "cpu",
    }
    print(f"{settings['device']}, columns {columns}, scales {SCALES}: one alpha, one for each row")
    for alpha in ALPHAS:
        errors = [worst(alpha, each=each, **settings) for each in (False, True)]
        print(f"alpha {alpha:<7g} {errors[0]:.1e} {errors[1]:.1e}", flush=True)


if __name__ == "__main__":
    main()
