"""Kernels launched again without what Triton does for every call, which takes longer than they."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

FUSED = {"enable_fp_fusion": True}  # Triton 3.9 warns where it is left to the default
_stream: Any = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # not in builds for the CPU
_known: dict[tuple[Any, ...], tuple[Any, tuple[Any, ...]]] = {}


def launch(
    kernel: Any,
    grid: tuple[int, int, int],
    arguments: Sequence[Any],
    constants: Mapping[str, Any],
    options: Mapping[str, Any],
) -> tuple[Any, tuple[Any, ...]] | None:
    """kernel[grid](*arguments, **constants, **options, **FUSED), compiled once for its kind.

    Returns what was compiled, and its constants: ``compiled[grid](*arguments, *constants)`` is the
    same launch for arguments of the same kind. None in Triton's interpreter.
    """
    device = arguments[0].device.index
    if device is not None and device != torch.cuda.current_device():
        with torch.cuda.device(device):
            return launch(kernel, grid, arguments, constants, options)
    key = (
        id(kernel), device, *map(_kind, arguments), *constants.values(), *options.values(),
    )  # fmt: skip
    known = _known.get(key)
    if known is not None:
        compiled, tail = known
        compiled[grid](*arguments, *tail)
        return known
    compiled = kernel[grid](*arguments, **constants, **options, **FUSED)
    if compiled is not None:  # not in the interpreter
        names = kernel.arg_names[len(arguments) :]
        known = _known[key] = compiled, tuple(constants[name] for name in names)
    return known


def again(
    compiled: Any, blocks: int, device: int, arguments: Sequence[Any], constants: Sequence[Any]
) -> None:
    """``compiled[blocks, 1, 1](*arguments, *constants)`` without the hooks of profilers."""
    compiled.run(
        blocks, 1, 1, _stream(device), compiled.function, compiled.packed_metadata,
        None, None, None, *arguments, *constants,
    )  # fmt: skip


class Plan:
    """Kernels compiled once, launched again for arguments of the same kinds.

    Whoever keeps a plan vouches for the kinds: for each kernel the same types and alignments, and
    the same whole numbers but for those that the kernel is not specialised for.
    """

    def __init__(self) -> None:
        self.known: dict[Any, tuple[Any, tuple[Any, ...]]] = {}

    def launch(
        self,
        kernel: Any,
        grid: tuple[int] | tuple[int, int],
        arguments: Sequence[Any],
        constants: Mapping[str, Any],
        warps: int,
        stages: int = 3,
    ) -> None:
        """``launch``, on the current device."""
        whole = (grid[0], grid[1] if len(grid) > 1 else 1, 1)
        known = self.known.get(kernel)
        if known is None:
            options = {"num_warps": warps, "num_stages": stages}
            known = launch(kernel, whole, arguments, constants, options)
            if known is not None:
                self.known[kernel] = known
            return
        compiled, tail = known
        # numbers instead of tensors: the launcher would ask the driver about each
        arguments = [x.data_ptr() if x.__class__ is Tensor else x for x in arguments]
        compiled.run(
            *whole, _stream(torch.cuda.current_device()), compiled.function,
            compiled.packed_metadata, None, None, None, *arguments, *tail,
        )  # fmt: skip


def alignment(*tensors: Tensor) -> tuple[int, ...]:
    """What is part of a plan's key: where tensors of others begin."""
    return tuple(x.data_ptr() & 15 for x in tensors)


def _kind(x: Any) -> Any:
    """What Triton compiles anew for: types, alignment, 1 and multiples of 16."""
    if isinstance(x, Tensor):
        return x.dtype, x.data_ptr() & 15
    if isinstance(x, int):
        return 1 if x == 1 else 16 if not x & 15 else 0, -(1 << 31) <= x < 1 << 31
    return type(x)
