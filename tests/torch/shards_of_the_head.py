"""What each process of test_torch_head_parallel.py does; imported there and in the processes."""

import math

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import maxent.torch as mt
import torch
from maxent.torch.head import _parallel, _shards

ROWS, FEATURES, CLASSES = 12, 8, 203


def cases():
    """Names and settings; the first classes of rows of small spread are almost equal."""
    proportions = {"target": "proportions"}
    return [
        ("entmax", {"entropy": 1.5}),
        ("sparsemax in blocks", {"entropy": 2.0, "blocks": True}),
        ("shannon", {"entropy": 1.0, "reduction": "sum"}),
        ("flat", {"entropy": 1.5, "spread": 1e-3}),
        ("flat, steep", {"entropy": 2.5, "spread": 1e-3}),
        ("mixed", {"entropy": 1.5, "spread": 0.0, "reduction": "none"}),
        ("plain torch", {"entropy": 1.5, "backend": "plain"}),
        ("capped", {"entropy": 1.5, "soft_cap": 2.0, "temperature": 0.5, "z_loss": 0.01}),
        ("smoothed", {"entropy": 1.5, "label_smoothing": 0.2, "weights": True, "z_loss": 0.01}),
        ("smoothed shannon", {"entropy": 1.0, "label_smoothing": 0.2, "temperature": 2.0}),
        ("proportions", {"entropy": 1.5, **proportions}),
        ("ignored and masked", {"entropy": 1.5, "holes": True, "reduction": "none"}),
        ("float32", {"entropy": 1.5, "dtype": torch.float32}),
        ("bfloat16", {"entropy": 1.5, "dtype": torch.bfloat16}),
        ("a weight that is a DTensor", {"entropy": 1.5, "mesh": "weight"}),
        ("all DTensors", {"entropy": 1.0, "mesh": "all", "label_smoothing": 0.1}),
    ]


def layer(spread, dtype, rows=ROWS, classes=CLASSES):
    """The same in every process."""
    torch.manual_seed(0)
    hidden = torch.randn(rows, FEATURES, dtype=torch.float64)
    scale = 4.0 if spread == 0 else spread
    if spread == 0:
        hidden[::2] *= 1e-3
    weight = torch.randn(classes, FEATURES, dtype=torch.float64) * scale / FEATURES**0.5
    bias = 0.1 * torch.randn(classes, dtype=torch.float64) * (spread > 0.1)
    return [x.to(dtype) for x in (hidden, weight, bias)]


def bounds(world, classes=CLASSES):
    """Shards of different sizes."""
    cuts = [classes * (k + 1) * k // (world * (world + 1)) for k in range(world)]
    return [*cuts, classes]


def even_bounds(world, classes=CLASSES):
    """Shards as torch makes them: the last is the smallest."""
    size = -(-classes // world)
    return [min(k * size, classes) for k in range(world + 1)]


def error_of(settings, rank, world, group, device="cpu"):
    """The largest error of loss and gradients, relative to the largest entry of each."""
    _parallel.TOLD, _parallel.KEPT = 10, 40  # rows of each kind
    given = dict(settings)
    compiled = "numba" if device == "cpu" else "triton"
    dtype, backend = given.pop("dtype", torch.float64), given.pop("backend", compiled)
    hidden, weight, bias = layer(given.pop("spread", 3.0), dtype)
    target = torch.randint(CLASSES, (ROWS,))
    if given.pop("target", None):
        portion = torch.rand(ROWS, 3, dtype=torch.float64)
        target = (
            torch.stack([torch.randperm(CLASSES)[:3] for _ in range(ROWS)]),
            portion / portion.sum(1, keepdim=True),
        )
    if given.pop("holes", False):
        target[3] = -100
        hidden[3, 0] = math.nan
        bias[: CLASSES // 2] = -math.inf
        target[4:] = CLASSES - 1
    if given.pop("weights", False):
        given["label_weight"] = torch.rand(CLASSES, dtype=torch.float64) + 0.5
    blocks = given.pop("blocks", False)
    back = torch.rand(ROWS, dtype=torch.float64) + 0.5
    hidden, weight, bias, back = (x.to(device) for x in (hidden, weight, bias, back))
    parts = tuple(x.to(device) for x in (target if isinstance(target, tuple) else (target,)))
    target = parts if len(parts) > 1 else parts[0]
    if "label_weight" in given:
        given["label_weight"] = given["label_weight"].to(device)
    distributed, shared = given.pop("mesh", None), {"group": group}
    cuts = bounds(world) if distributed is None else even_bounds(world)
    own = slice(cuts[rank], cuts[rank + 1])
    whole = [x.clone().requires_grad_() for x in (hidden, weight, bias)]
    part = [x.clone().requires_grad_() for x in (hidden, weight[own], bias[own])]
    targets = [target, target]
    if distributed is not None:
        mesh, shared = DeviceMesh.from_group(group, hidden.device.type), {}
        part[1] = distribute_tensor(weight.clone(), mesh, [Shard(0)]).requires_grad_()
        assert len(part[1].to_local()) == own.stop - own.start
    if distributed == "all":
        part[0] = distribute_tensor(hidden.clone(), mesh, [Replicate()]).requires_grad_()
        part[2] = distribute_tensor(bias.clone(), mesh, [Shard(0)]).requires_grad_()
        targets[1] = distribute_tensor(target, mesh, [Replicate()])
    counting = [k for k in range(ROWS) if k != 3]
    found = []
    rooms = {"ROOM_ON_CPU": _parallel.ROOM_ON_CPU, "FEWEST": _parallel.FEWEST}
    if blocks:
        _parallel.ROOM_ON_CPU, _parallel.FEWEST = 1, 5
    with mt.backend(backend):
        for (h, w, b), y, chosen in zip((whole, part), targets, ({}, shared), strict=True):
            loss = mt.linear_fenchel_young_loss(h, w, y, bias=b, **given, **chosen)
            one_by_one = (loss[counting] * back[counting].to(loss.dtype)) if loss.ndim else 3 * loss
            one_by_one.where(one_by_one < math.inf, 0).sum().backward()
            assert "holes" not in settings or loss[3] == 0
            made = [x.to_local() if isinstance(x, DTensor) else x for x in (h.grad, w.grad, b.grad)]
            found.append([loss.detach().nan_to_num(posinf=-1.0), *made])
    for name, value in rooms.items():
        setattr(_parallel, name, value)
    right, ours = found
    right[2], right[3] = right[2][own], right[3][own]
    errors = [
        float((a.double() - b.double()).abs().max() / b.double().abs().max().clamp_min(1e-3))
        for a, b in zip(ours, right, strict=True)
    ]
    tolerance = {torch.float64: 1e-11, torch.float32: 3e-6, torch.bfloat16: 1e-2}[dtype]
    return max(errors), tolerance


def failures():
    """Name, what rank 1 changes, and what the processes may say."""
    refused = "the head of rank 1 refused its input"
    labels = torch.tensor([0, 1, 2])
    return [
        ("widths", {"weight": torch.zeros(5, 3)}, ["shards of different widths: weights"]),
        ("empty", {"weight": torch.zeros(0, 4)}, ["the shard of rank 1 has no class"]),
        ("types", {"weight": torch.zeros(5, 4).half(), "hidden": torch.zeros(3, 4).half()},
         ["shards of different types: torch.float32, torch.float16"]),
        ("bias", {"bias": torch.zeros(2)}, [refused, "a bias with one number for each of 5"]),
        ("rows", {"hidden": torch.zeros(2, 4), "target": labels[:2]},
         ["ranks have [3, 2] hidden vectors"]),
        ("targets", {"target": labels.flip(0)}, ["ranks have different targets"]),
        ("floats", {"target": labels.float()}, [refused, "labels must be integers"]),
        ("outside", {"all": True, "target": torch.tensor([0, 1, 10])},
         ["label 10 is out of range for 10 classes"]),
        ("norm", {"all": True, "entropy": mt.NormEntropy(2.0)}, ["not for norms"]),
        ("sparse", {"all": True, "sparse_grad": True}, ["sparse_grad=True is not for a group"]),
        ("dense", {"all": True, "label_smoothing": 0.1, "soft_cap": 2.0},
         ["is not for a group: leave out one of them"]),
    ]  # fmt: skip


def refusals(rank, group, alone):
    """What each failure says here, and what a group of one does."""
    said = {}
    for name, change, _ in failures():
        given = {"hidden": torch.zeros(3, 4), "weight": torch.zeros(5, 4)}
        given |= {"target": torch.tensor([0, 1, 2])}
        change = dict(change)
        if change.pop("all", False) or rank == 1:
            given |= change
        try:
            mt.linear_fenchel_young_loss(**given, group=group)
            said[name] = "nothing"
        except (ValueError, TypeError, RuntimeError, IndexError) as error:
            said[name] = str(error)
    given = layer(3.0, torch.float64)
    target = torch.randint(CLASSES, (ROWS,))
    loss = mt.linear_fenchel_young_loss(*given[:2], target, 1.5, given[2], group=alone[rank])
    right = mt.linear_fenchel_young_loss(*given[:2], target, 1.5, given[2])
    said["one process"] = "" if torch.equal(loss, right) else "another loss"
    own = distribute_tensor(given[1], DeviceMesh.from_group(alone[rank], "cpu"), [Shard(0)])
    loss = mt.linear_fenchel_young_loss(given[0], own, target, 1.5, given[2])
    said["one process"] += "" if torch.equal(loss, right) else "another loss of a mesh"
    try:
        mt.linear_fenchel_young_loss(*given[:2], target, 1.5, group=alone[1 - rank])
        said["one process"] += "not refused"
    except ValueError as error:
        said["one process"] += "" if "is not in the group" in str(error) else str(error)
    return said


def mesh_failures():
    """Name, the placement of a weight of 5 classes or what else is given, and what is said."""
    return [
        ("replicated", {"placements": [Replicate()]}, "needs a weight with classes in shards"),
        ("columns", {"placements": [Shard(1)]}, "needs a weight with classes in shards"),
        ("also a group", {"group": True}, "is its group: leave out group"),
        ("two dimensions", {"shape": (1, 2)}, "a mesh of one dimension"),
        ("turned", {"ranks": [1, 0]}, "a mesh whose ranks ascend, got [1, 0]"),
        ("split rows", {"hidden": Shard(0)}, "hidden needs the mesh of the weight and [Replicate("),
        ("empty", {"classes": 1}, "the shard of rank 1 has no class"),
        ("statistics", {"call": "statistics"}, "linear_statistics needs the whole weight"),
        ("predict", {"call": "predict"}, "needs all classes, and this process has"),
    ]


def mesh_refusals(rank, group):
    """What each of these says here."""
    said, mesh = {}, DeviceMesh.from_group(group, "cpu")
    for name, change, _ in mesh_failures():
        chosen, placements = mesh, change.get("placements", [Shard(0)])
        if "shape" in change:
            chosen = DeviceMesh("cpu", [[0, 1]])
            placements = [Replicate(), Shard(0)]
        if "ranks" in change:
            chosen = DeviceMesh("cpu", change["ranks"])
        weight = distribute_tensor(torch.zeros(change.get("classes", 5), 4), chosen, placements)
        hidden, target = torch.zeros(4, 4), torch.zeros(4, dtype=torch.int64)
        if "hidden" in change:
            hidden = distribute_tensor(hidden, mesh, [change["hidden"]])
        try:
            if change.get("call") == "statistics":
                mt.linear_statistics(hidden, weight, target)
            elif change.get("call") == "predict":
                head = mt.LinearFenchelYoungLoss(4, 5)
                head.weight = torch.nn.Parameter(weight)
                head.predict(hidden)
            else:
                given = {"group": group} if "group" in change else {}
                mt.linear_fenchel_young_loss(hidden, weight, target, **given)
            said[name] = "nothing"
        except (ValueError, TypeError, RuntimeError) as error:
            said[name] = str(error)
    return said


class Net(torch.nn.Module):
    """Something with a head that is left to the loss, as torchtitan's models are."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.lm_head = torch.nn.Linear(6, 6), torch.nn.Linear(6, 30, bias=False)
        with torch.no_grad():
            self.lm_head.weight.mul_(8)

    def forward(self, x):
        return self.body(x).tanh()


def chunks(rank, group):
    """Errors of chunked losses with FSDP, each process its own rows, and with a shared head."""
    mesh = DeviceMesh.from_group(group, "cpu")
    torch.manual_seed(1)
    x, y = torch.randn(8, 6), torch.randint(30, (8,))
    y[2] = -100
    whole, sharded, shared = Net(), Net(), Net()
    right = mt.fenchel_young_loss(whole.lm_head(whole(x)), y, reduction="sum") / 7
    right.backward()
    for part in (sharded.body, sharded.lm_head, sharded):
        fully_shard(part, mesh=mesh)
    weight = distribute_tensor(shared.lm_head.weight.detach(), mesh, [Shard(0)])
    shared.lm_head.weight = torch.nn.Parameter(weight)
    errors = {}
    for name, net, rows in (
        ("fsdp", sharded, slice(4 * rank, 4 * rank + 4)),
        ("shared", shared, slice(0, 8)),
    ):
        loss_of = mt.ChunkedLoss(num_chunks=3)
        loss_of.set_lm_head(net.lm_head)
        # what numpy has seen on CPU cannot be given back by FSDP
        with mt.backend("plain"):
            loss, _ = loss_of(net(x[rows]), y[rows], 7.0)
        loss.backward()
        found = [loss.detach()]
        if name == "fsdp":
            dist.all_reduce(found[0], group=group)
        for parameter in net.parameters():
            g = parameter.grad
            # FSDP takes the mean of the processes
            found.append(
                g.full_tensor() * (2 if name == "fsdp" else 1) if isinstance(g, DTensor) else g
            )
        expected = [right.detach(), *(p.grad for p in whole.parameters())]
        errors[name] = max(float((a - b).abs().max()) for a, b in zip(found, expected, strict=True))
    return errors


def traffic(rank, world, group):
    """Bytes that a step of a large vocabulary sends."""
    hidden, weight, _ = layer(2.2, torch.float32, 128, 20000)
    hidden.requires_grad_()
    cuts = bounds(world, 20000)
    own = weight[cuts[rank] : cuts[rank + 1]].clone().requires_grad_()
    _shards.SENT.clear()
    target = torch.randint(20000, (128,))
    mt.linear_fenchel_young_loss(hidden, own, target, 1.5, group=group).backward()
    return dict(_shards.SENT)


def run_on_devices(rank, world, store):
    """As ``run``, on CUDA with NCCL, in single precision; a process for each device."""
    device = f"cuda:{rank}"
    torch.cuda.set_device(device)
    dist.init_process_group(
        "nccl", f"file://{store}", world_size=world, rank=rank, device_id=torch.device(device)
    )
    found = [
        (name, *error_of({**given, "dtype": torch.float32}, rank, world, dist.group.WORLD, device))
        for name, given in cases()
        if given.get("dtype") != torch.bfloat16 and "holes" not in given
    ]
    dist.destroy_process_group()
    return found


def run(rank, world, store):
    """One of the processes: what it found among all of them, and among the first two."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{store}", world_size=world, rank=rank)
    groups = {world: dist.group.WORLD, 2: dist.new_group([0, 1])}
    alone = [dist.new_group([k]) for k in range(2)]
    found = {}
    for size, group in groups.items():
        if rank < size:
            found[size] = [(name, *error_of(given, rank, size, group)) for name, given in cases()]
    if rank < 2:
        found["failures"] = refusals(rank, groups[2], alone)
        found["chunks"] = chunks(rank, groups[2])
        found["meshes"] = mesh_refusals(rank, groups[2])
        found["traffic"] = traffic(rank, 2, groups[2])
    dist.barrier()
    dist.destroy_process_group()
    return found
