"""Which tiles suit which shapes: times of the Triton kernels under different settings.

python -m benchmarks.gpu.sweep   (needs torch, Triton and a CUDA device)
"""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path

import torch
from triton.testing import do_bench

SOURCE = Path(__file__).parents[2] / "src" / "maxent" / "torch" / "_triton.py"
SHAPES = ((8192, 32000), (65536, 1024), (1024, 131072))


def kernels():
    """The kernels alone: the device machine has no other part of the package's dependencies."""
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
    p = (z - low).clamp(min=0).pow(1 / (alpha - 1))
    return p / p.sum(1, keepdim=True)


def ms(run) -> float:
    return do_bench(run, warmup=20, rep=60, return_mode="median")


def main() -> None:
    k = kernels()
    torch.manual_seed(0)
    for dtype, (rows, cols) in itertools.product((torch.bfloat16, torch.float32), SHAPES[::-1]):
        x = torch.randn(rows, cols, device="cuda").to(dtype)
        out = torch.empty_like(x)
        y = torch.randint(0, cols, (rows,), device="cuda")
        print(f"== {rows} x {cols} {dtype}: copy {ms(lambda: out.copy_(x)):.3f} "
              f"softmax {ms(lambda: torch.softmax(x, 1)):.3f}", flush=True)  # fmt: skip
        for label, settings in plans(cols, x.element_size()):
            for name, value in settings.items():
                setattr(k, name, value)
            line = f"{label:28}: "
            try:
                for alpha in (2.0, 1.5, 1.33):
                    p = k.tsallis_map(x, alpha)
                    error = (p[:32].double() - reference(x[:32], alpha)).abs().max().item()
                    line += f"{alpha:g} {ms(lambda a=alpha: k.tsallis_map(x, a)):.3f} ({error:.0e}) "
                line += f"loss 2 {ms(lambda: k.tsallis_loss(x, y, 2.0)):.3f} "
                line += f"1.5 {ms(lambda: k.tsallis_loss(x, y, 1.5)):.3f}"
            except Exception as error:
                line += f"{type(error).__name__}: {str(error)[:300]}"
            print(line, flush=True)


def plans(cols: int, size: int):
    """Settings of the kernels' module to try."""
    if cols > 32768:
        for long in ((8, 512, 4, 8), (16, 512, 4, 4), (16, 512, 4, 8), (16, 1024, 8, 8)):
            yield f"heads {long}", {"_LONG": long}
        return
    options = ((1, 0), (1, 64), (2, 0)) if cols <= 1024 else ((8, 0), (8, 128), (16, 64), (16, 0))
    for warps, registers in options:

        def tile(n, *_, warps=warps, registers=registers):
            block = max(1 << (n - 1).bit_length(), 32)
            places = min(block, warps * 32 * (16 // size))
            return (block // places, places), warps, {"maxnreg": registers} if registers else {}

        yield f"resident warps {warps} registers {registers}", {"_tile": tile}


if __name__ == "__main__":
    main()
