"""Functions that torch does not see into, declared once for every way in which torch runs code.

A structure is solved by compiled loops, by Triton, or by a search whose length depends on the
numbers: nothing that may be traced. An ``Operation`` says what is computed, the shapes of what
comes out, and the derivative. Plain calls take the shortest way, an autograd function; torch.func
finds a rule for batches; torch.compile and torch.export find an operator of torch's library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from inspect import signature
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

Called = TypeVar("Called", bound=Callable[..., Any])


def runs_here(x: Tensor) -> bool:
    """Whether the tensor has memory of its own: no tracing, no fake or other subclass."""
    return not torch.compiler.is_compiling() and type(x) is Tensor and not x.is_meta


def eager(x: Tensor) -> bool:
    """Whether nothing but backward may look at what is done: no torch.func, no forward mode."""
    return (
        runs_here(x)
        and not torch._C._are_functorch_transforms_active()
        and torch.autograd.forward_ad._current_level < 0
    )


def fold(x: Tensor, batch: int, dim: int | None) -> Tensor:
    """A batch of rows as more rows."""
    x = x.expand(batch, *x.shape) if dim is None else x.movedim(dim, 0)
    return x.flatten(0, 1).contiguous()


class Operation:
    """A function of tensors by rows, and its derivative; ``apply`` runs it.

    A subclass has these static methods, and the operator's name as a keyword::

        class Double(Operation, name="double"):
            def run(x: Tensor, times: int) -> Tensor: ...       # fully annotated
            def fake(x, times): return torch.empty_like(x)      # shapes alone
            def setup_context(ctx, inputs, output): ...         # as of an autograd.Function
            def backward(ctx, g): ...                           # as of an autograd.Function

    run : sees tensors with memory, free of autograd; it returns new tensors, never an input or a
        view of one, and all checks of values are here. What it takes are tensors, numbers,
        strings and lists of numbers, as operators of torch do.
    fake : gets what ``run`` gets and returns empty tensors as ``run`` would.
    backward : in operations of torch and other ``Operation``s, so that it can be traced. Without
        one the result has no derivative.
    whole : the tensors whose first dimension is not that of rows, by name with the number of their
        dimensions; what comes out has rows first. ``vmap`` makes more rows of a batch; where one
        of ``whole`` is batched, it takes one after the other.
    """

    run: ClassVar[Callable[..., Any]]
    fake: ClassVar[Callable[..., Any]]
    setup_context: ClassVar[Callable[..., None]]
    backward: ClassVar[Callable[..., Any]]
    _name: ClassVar[str]
    _derived: ClassVar[bool]
    _operator: ClassVar[Callable[..., Any]]
    _plain: ClassVar[Callable[..., Any]]
    _transformed: ClassVar[Callable[..., Any]]

    def __init_subclass__(cls, *, name: str, whole: Mapping[str, int] | None = None) -> None:
        run = cls.run
        operator = torch.library.custom_op(f"maxent::{name}", run, mutates_args=())
        operator.register_fake(cls.fake)
        derived = hasattr(cls, "backward")
        setup = cls.setup_context if derived else _keep_nothing
        backward = cls.backward if derived else _no_gradient
        operator.register_autograd(backward, setup_context=setup)
        sizes = [(whole or {}).get(argument) for argument in signature(run).parameters]

        def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Any, Any]:
            return _batched(cls._traced, sizes, info.batch_size, in_dims, inputs)

        def vmap_traced(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Any, Any]:
            return _batched(overload, sizes, info.batch_size, in_dims, inputs)

        def forward(ctx: Any, *inputs: Any) -> Any:
            with _exact(*inputs):
                output = run(*inputs)
            setup(ctx, inputs, output)
            return output

        def back(ctx: Any, *slopes: Any) -> Any:
            with _exact(*slopes):
                return backward(ctx, *slopes)

        overload = getattr(torch.ops.maxent, name).default  # what the compiler knows in a closure

        def transformed(*inputs: Any) -> Any:
            return run(*inputs) if runs_here(inputs[0]) else overload(*inputs)

        # by the number of arguments the compiler tells whether a context comes first
        vars(transformed)["__signature__"] = signature(run)

        operator.register_vmap(vmap_traced)
        parts: dict[str, Callable[..., Any]] = {"forward": forward, "backward": back}
        cls._plain = staticmethod(_function(f"{cls.__name__}Plain", parts) if derived else run)
        parts = {"forward": transformed, "setup_context": setup, "backward": backward, "vmap": vmap}
        cls._transformed = staticmethod(_function(f"{cls.__name__}Transformed", parts))
        cls._operator = staticmethod(overload)
        cls._name, cls._derived = name, derived

    @classmethod
    def apply(cls, *inputs: Any) -> Any:
        """The function, differentiable as far as ``backward`` is."""
        if eager(inputs[0]):
            return cls._plain(*inputs)
        if cls._derived:
            _refuse_forward_mode(cls._name)
        return cls._traced(*inputs)

    @classmethod
    def _traced(cls, *inputs: Any) -> Any:
        transforms = torch._C._are_functorch_transforms_active()
        if not transforms and not runs_here(inputs[0]):
            return cls._operator(*inputs)
        if transforms and torch.compiler.is_compiling():
            return cls._compiled_transforms(*inputs)
        return cls._transformed(*inputs)

    @classmethod
    def _compiled_transforms(cls, *inputs: Any) -> Any:
        """torch.func within torch.compile: a gradient sees functions alone, a batch operators."""
        grad, vmap = _levels()
        if not cls._derived:
            return cls._operator(*(x.detach() if isinstance(x, Tensor) else x for x in inputs))
        if not grad:
            return cls._operator(*inputs)
        if vmap:
            raise NotImplementedError(
                f"{cls._name}: torch.compile does not take torch.func's vmap and grad together; "
                "call torch.func outside of what is compiled"
            )
        # a tensor that was wrapped does not tell the compiler that it needs a gradient
        return cls._transformed(*(x.view_as(x) if isinstance(x, Tensor) else x for x in inputs))


def _exact(*inputs: Any) -> AbstractContextManager[Any]:
    """No autocast, which would multiply matrices of the derivatives in 16 bits."""
    for x in inputs:
        if isinstance(x, Tensor):
            kind = x.device.type
            return torch.autocast(kind, enabled=False) if _cast(kind) else nullcontext()
    return nullcontext()


def _cast(kind: str) -> bool:
    return torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)


def constant(function: Called) -> Called:
    """``torch.compiler.assume_constant_result``, which would import the compiler at once."""
    vars(function)["_dynamo_marked_constant"] = True
    return function


@constant
def _levels() -> tuple[bool, bool]:
    """Whether there are transforms that differentiate, and whether there are batches."""
    functorch = torch._C._functorch
    kinds = [level.key() for level in functorch.get_interpreter_stack() or []]
    vmap = functorch.TransformType.Vmap
    return any(kind != vmap for kind in kinds), vmap in kinds


def _function(name: str, methods: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    static = {each: staticmethod(method) for each, method in methods.items()}
    made: Any = type(name, (torch.autograd.Function,), static)
    apply: Callable[..., Any] = made.apply
    return apply


def _keep_nothing(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.inputs = len(inputs)
    ctx.mark_non_differentiable(*((output,) if isinstance(output, Tensor) else output))


def _no_gradient(ctx: Any, *_: Any) -> tuple[None, ...]:
    return (None,) * ctx.inputs


def _refuse_forward_mode(name: str) -> None:
    if torch.autograd.forward_ad._current_level >= 0:
        raise NotImplementedError(
            f"{name} has no derivative in forward mode (torch.func.jvp, jacfwd, hessian): use "
            "torch.func.grad, vjp or jacrev, and jacrev of jacrev for second derivatives"
        )


def _batched(
    call: Callable[..., Any],
    sizes: list[int | None],
    batch: int,
    dims: tuple[Any, ...],
    inputs: tuple[Any, ...],
) -> tuple[Any, Any]:
    """What ``call`` gives for a batch of inputs: as more rows, or one after the other."""
    given, number = [], 0
    for x, d, size in zip(inputs, dims, sizes, strict=True):
        if not isinstance(x, Tensor):
            given.append(x)
        elif x.ndim - (d is not None) != size:
            number = x.shape[1 if d == 0 else 0]
            given.append(fold(x, batch, d))
        elif d is None:
            given.append(x)
        else:
            return _one_by_one(call, batch, dims, inputs)
    out = call(*given)
    if isinstance(out, Tensor):
        return out.unflatten(0, (batch, number)), 0
    return tuple(x.unflatten(0, (batch, number)) for x in out), (0,) * len(out)


def _one_by_one(
    call: Callable[..., Any], batch: int, dims: tuple[Any, ...], inputs: tuple[Any, ...]
) -> tuple[Any, Any]:
    found = []
    for i in range(batch):
        each = (x if d is None else x.select(d, i) for x, d in zip(inputs, dims, strict=True))
        found.append(call(*(x.contiguous() if isinstance(x, Tensor) else x for x in each)))
    if isinstance(found[0], Tensor):
        return torch.stack(found), 0
    return tuple(torch.stack(parts) for parts in zip(*found, strict=True)), (0,) * len(found[0])
