"""Which tiles suit which shapes: times of the Triton kernels under different settings.

python -m benchmarks.gpu.sweep   (needs torch, Triton and a CUDA device)
"""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from triton.testing import do_bench

import torch

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]  # run as a file, nothing is installed there
SOURCE = ROOT / "src" / "maxent" / "torch" / "maps" / "_triton.py"
SHAPES = ((8192, 32000), (65536, 1024), (1024, 131072))


def kernels():
    """The kernels in a module of their own, whose settings can be changed."""
    spec = importlib.util.spec_from_file_location("kernels", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reference(x: torch.Tensor, alpha: float) -> torch.Tensor:
    """The map by bisection in float64."""
    z = (alpha - 1) * x.double()
    z = z - z.max(dim=1, keepdim=True).values
    low, high = torch.full_like(z[:, :1], -1.0), torch.zeros_like(z[:, :1])
    for _ in range(70):
        t = (low + high) / 2
        mass = (z - t).clamp(min=0).pow(1 / (alpha - 1)).sum(1, keepdim=True)
        low, high = torch.where(mass > 1, t, low), torch.where(mass > 1, high, t)
    if alpha <= 2:
        p = (z - low).clamp(min=0).pow(1 / (alpha - 1))
        return p / p.sum(1, keepdim=True)
    # beyond, no threshold in float64 has the digits of a small p: the smallest is sought itself
    above = torch.where(z > low, z - torch.where(z > low, z, 0).min(1, keepdim=True).values, -1)
    low, high = torch.zeros_like(low), torch.ones_like(low)
    for _ in range(60):
        t = (low + high) / 2
        mass = (
            (above + t.pow(alpha - 1))
            .pow(1 / (alpha - 1))
            .where(above >= 0, 0)
            .sum(1, keepdim=True)
        )
        low, high = torch.where(mass > 1, low, t), torch.where(mass > 1, t, high)
    return (above + low.pow(alpha - 1)).pow(1 / (alpha - 1)).where(above >= 0, 0)


def ms(call: Callable[..., object], *arguments: object) -> float:
    """Median time of a call."""
    return do_bench(lambda: call(*arguments), warmup=25, rep=100, return_mode="median")


def main() -> None:
    """A line for every setting: ms at alpha = 2, 1.5, 1.33 with errors, and of two losses."""
    torch.manual_seed(0)
    for dtype, (rows, cols) in itertools.product((torch.bfloat16, torch.float32), SHAPES):
        x = torch.randn(rows, cols, device="cuda").to(dtype)
        copy, softmax = ms(torch.empty_like(x).copy_, x), ms(torch.softmax, x, 1)
        print(f"== {rows} x {cols} {dtype}: copy {copy:.3f} softmax {softmax:.3f}", flush=True)
        for label, settings in plans(cols, x.element_size()):
            try:
                times = line(settings, x)
            except Exception as error:
                times = f"{type(error).__name__}: {str(error)[:300]}"
            print(f"{label:28}: {times}", flush=True)


def line(settings: dict[str, object], x: torch.Tensor) -> str:
    """Times and errors under some settings."""
    k = kernels()
    for name, value in settings.items():
        setattr(k, name, value)
    y = torch.randint(0, x.shape[1], (len(x),), device="cuda")
    parts = []
    for alpha in (2.0, 1.5, 1.33):
        error = (k.tsallis_map(x, alpha)[:32].double() - reference(x[:32], alpha)).abs().max()
        parts.append(f"{alpha:g} {ms(k.tsallis_map, x, alpha):.3f} ({error:.0e})")
    parts += [f"loss {alpha:g} {ms(k.tsallis_loss, x, y, alpha):.3f}" for alpha in (2.0, 1.5)]
    return " ".join(parts)


def plans(cols: int, size: int) -> Iterator[tuple[str, dict[str, object]]]:
    """Settings of the kernels' module to try."""
    yield "as set", {}
    if cols > 32768:
        for long in ((8, 512, 4), (16, 512, 8), (16, 1024, 8)):
            yield f"long rows {long}", {"_LONG": long}
        return
    for warps, registers in ((1, 0), (2, 0)) if cols <= 1024 else ((8, 0), (8, 128), (16, 0)):

        def tile(n, *_, warps=warps, registers=registers):
            block = max(1 << (n - 1).bit_length(), 32)
            places = min(block, warps * 32 * (16 // size))
            return (block // places, places), warps, {"maxnreg": registers} if registers else {}

        yield f"warps {warps}, registers {registers or 'free'}", {"_tile": tile}


if __name__ == "__main__":
    main()
