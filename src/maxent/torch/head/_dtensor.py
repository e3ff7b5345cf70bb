"""Layers in shards that a DTensor describes: the process group of its mesh, and what is here."""

from __future__ import annotations

import sys
from typing import Any

from torch import Tensor

Target = Tensor | tuple[Tensor, Tensor]


def is_dtensor(x: object) -> bool:
    """Whether it is one; torch's module is not loaded to find out."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(x, module.DTensor)


def sharded_weight(weight: Any, group: Any, name: str) -> tuple[Tensor, Any]:
    """The classes of this process and the group that shares them, or an error in words.

    Only what all processes know of the DTensor is looked at: each has the same error.
    """
    from torch.distributed.tensor import Shard

    if group is not None:
        raise ValueError(
            f"{name}: the mesh of a weight that is a DTensor is its group: leave out group"
        )
    mesh, placements = weight.device_mesh, weight.placements
    if mesh.ndim != 1:
        raise ValueError(
            f"{name} needs a weight on a mesh of one dimension, that of the processes which share "
            f"the classes, got {tuple(mesh.shape)} with names {mesh.mesh_dim_names}: distribute "
            'it over that dimension alone, as mesh["tp"]'
        )
    if type(placements[0]) is not Shard or placements[0].dim != 0:
        raise ValueError(
            f"{name} needs a weight with classes in shards, [Shard(0)], got {list(placements)}: "
            "use weight.redistribute(placements=[Shard(0)]), or weight.to_local() of one that "
            "every process has whole"
        )
    ranks = mesh.mesh.tolist()
    if ranks != sorted(ranks):
        raise ValueError(f"{name} needs a mesh whose ranks ascend, got {ranks}")
    return weight.to_local(), mesh.get_group()


def local_parts(
    hidden: Tensor, bias: Tensor | None, target: Target, mesh: Any
) -> tuple[Tensor, Tensor | None, Target]:
    """What this process has of the rest: all hidden vectors and targets, its own constants."""
    from torch.distributed.tensor import Replicate, Shard

    hidden = _local(hidden, "hidden", Replicate(), mesh)
    bias = None if bias is None else _local(bias, "bias", Shard(0), mesh)
    if isinstance(target, tuple | list) and len(target) == 2:
        index, portion = (_local(x, "target", Replicate(), mesh) for x in target)
        return hidden, bias, (index, portion)
    return hidden, bias, _local(target, "target", Replicate(), mesh)


def _local(x: Any, what: str, placement: Any, mesh: Any) -> Any:
    """A tensor that is none is what this process has."""
    if not is_dtensor(x):
        return x
    if x.device_mesh != mesh or list(x.placements) != [placement]:
        raise ValueError(
            f"{what} needs the mesh of the weight and [{placement!r}], got {list(x.placements)} on "
            f"{x.device_mesh}: use {what}.redistribute"
        )
    if not x.is_floating_point():
        return x.to_local()
    return x.to_local(grad_placements=[placement])


def local_classes(weight: Any) -> int:
    """How many classes this process has."""
    return len(weight.to_local() if is_dtensor(weight) else weight)


def check_whole(x: object, what: str, name: str) -> None:
    """Refuse a DTensor where all of the tensor is needed."""
    if is_dtensor(x):
        raise TypeError(f"{name} needs the whole {what}, got a DTensor: pass {what}.full_tensor()")
