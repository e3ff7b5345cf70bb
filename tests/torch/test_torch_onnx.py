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
# by torch.export too, which takes seconds
EXPORTED = ("alpha of each head", "classes in the middle")


def scores(seed, batch):
    x = 2 * torch.randn(batch, 3, 4, 5, generator=torch.Generator().manual_seed(seed))
    x[0, 1, 2, 3] = -torch.inf
    return x


def session(module, inputs, path, dynamo):
    """The exported graph, ready to run; the first dimension of the inputs is free."""
    needs("onnxscript")  # here and not above: a second and a half of every collection
    onnxruntime = needs("onnxruntime")
    names = [f"input_{i}" for i in range(len(inputs))]
    if dynamo:
        free = torch.export.Dim("batch")
        options = {"dynamic_shapes": tuple({0: free} for _ in inputs), "verbose": False}
    else:
        options = {"dynamic_axes": {name: {0: "batch"} for name in names}}
    torch.onnx.export(module, inputs, path, input_names=names, dynamo=dynamo, **options)
    return onnxruntime.InferenceSession(path)


def run(graph, *inputs):
    names = [given.name for given in graph.get_inputs()]
    return graph.run(None, {name: x.numpy() for name, x in zip(names, inputs, strict=True)})[0]


@pytest.mark.parametrize(
    ("name", "dynamo"), [(name, False) for name in MODULES] + [(name, True) for name in EXPORTED]
)
def test_a_map_in_onnx_is_a_function_of_its_input(name, dynamo, tmp_path):
    module = MODULES[name].eval()
    graph = session(module, (scores(0, 2),), str(tmp_path / "map.onnx"), dynamo)
    x = scores(1, 7)
    x[3, 0, 1] = -torch.inf
    expected = module(x).detach().numpy()
    np.testing.assert_allclose(run(graph, x), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("entropy", "dynamo"),
    [("shannon", False), ("sparsemax", False), (1.2, False), ("entmax15", True)],
)
def test_a_loss_in_onnx_is_a_function_of_its_input(entropy, dynamo, tmp_path):
    criterion = mt.FenchelYoungLoss(entropy, "none").eval()
    labels = torch.tensor([0, 3, -100, 4])
    x = torch.randn(4, 5)
    graph = session(criterion, (x, labels), str(tmp_path / "loss.onnx"), dynamo)
    x, labels = torch.randn(6, 5), torch.tensor([1, -100, 2, 2, 0, 4])
    expected = criterion(x, labels).numpy()
    np.testing.assert_allclose(run(graph, x, labels), expected, atol=1e-5)
