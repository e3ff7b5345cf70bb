"""Maps and losses exported to ONNX, by either exporter of torch, run in another runtime."""

import numpy as np
import pytest

from tools import needs

torch = needs("torch")

import maxent.torch as mt  # noqa: E402

# what the exporters say of themselves and of other packages
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore:# The axis name"
    ),
]

MODULES = {
    "softmax": mt.Softmax(),
    "sparsemax": mt.Sparsemax(),
    "entmax15": mt.Entmax15(),
    "entmax 1.2": mt.Entmax(1.2),
    "entmax 3": mt.Entmax(3.0),
    "learnt alpha": mt.Entmax(1.3, learnable=True),
    "alpha of each head": mt.Entmax(torch.tensor([1.0, 1.5, 2.5])[:, None, None]),
    "normmax": mt.Normmax(3.0),
    "budget": mt.Budget(2),
    "classes in the middle": mt.Sparsemax(dim=1),
    "sparse sigmoid": mt.SparseSigmoid(),
}
LOSSES = {
    f"loss of {entropy}": mt.FenchelYoungLoss(entropy, "none")
    for entropy in ("shannon", "sparsemax", 1.2, "entmax15")
}
# of each exporter; torch.export takes seconds
EXPORTED = {
    False: [*MODULES, *list(LOSSES)[:3]],
    True: ["alpha of each head", "classes in the middle", "loss of entmax15"],
}


class Several(torch.nn.Module):
    """Maps of one tensor and losses of another, as one graph: an export of each takes longer."""

    def __init__(self, names):
        super().__init__()
        self.maps = torch.nn.ModuleList(MODULES[name] for name in names if name in MODULES)
        self.losses = torch.nn.ModuleList(LOSSES[name] for name in names if name in LOSSES)

    def forward(self, x, rows, labels):
        losses = [loss(rows, labels) for loss in self.losses]
        return *[apply(x) for apply in self.maps], *losses


def scores(seed, batch):
    x = 2 * torch.randn(batch, 3, 4, 5, generator=torch.Generator().manual_seed(seed))
    x[0, 1, 2, 3] = -torch.inf
    return x


def session(module, inputs, path, dynamo):
    """The exported graph, ready to run; the first dimensions of the inputs are free."""
    needs("onnxscript")  # here and not above: a second and a half of every collection
    onnxruntime = needs("onnxruntime")
    free = {"x": "batch", "rows": "tokens", "labels": "tokens"}
    if dynamo:
        shapes = {name: {0: torch.export.Dim(first)} for name, first in free.items()}
        options = {"dynamic_shapes": shapes, "verbose": False}
    else:
        options = {"dynamic_axes": {name: {0: first} for name, first in free.items()}}
    torch.onnx.export(module, inputs, path, input_names=list(free), dynamo=dynamo, **options)
    return onnxruntime.InferenceSession(path)


@pytest.mark.parametrize("dynamo", EXPORTED)
def test_maps_and_losses_in_onnx_are_functions_of_their_inputs(dynamo, tmp_path):
    module = Several(EXPORTED[dynamo]).eval()
    given = scores(0, 2), torch.randn(4, 5), torch.tensor([0, 3, -100, 4])
    graph = session(module, given, str(tmp_path / "several.onnx"), dynamo)
    x, rows, labels = scores(1, 7), torch.randn(6, 5), torch.tensor([1, -100, 2, 2, 0, 4])
    x[3, 0, 1] = -torch.inf
    found = graph.run(None, {"x": x.numpy(), "rows": rows.numpy(), "labels": labels.numpy()})
    expected = module(x, rows, labels)
    for name, ours, theirs in zip(EXPORTED[dynamo], expected, found, strict=True):
        atol = 1e-6 if name in MODULES else 1e-5
        np.testing.assert_allclose(theirs, ours.detach().numpy(), atol=atol, err_msg=name)
