"""What a fresh install must do: one part without extras, and one for each extra.

python smoke.py [PART ...]

Parts are `core` and the names of the extras. It is run by the interpreter of an environment into
which nothing but the wheel and its requirements were installed, from a folder of its own, so that
no file of a checkout can be found by accident.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path


def command() -> str:
    """The installed `maxent`."""
    found = shutil.which("maxent", path=sysconfig.get_path("scripts"))
    assert found, "the wheel installed no `maxent` command"
    return found


def said(*arguments: str) -> str:
    """What the command prints; it must end well."""
    run = subprocess.run([command(), *arguments], capture_output=True, text=True)
    assert run.returncode == 0, f"maxent {' '.join(arguments)}: {run.stdout}{run.stderr}"
    return run.stdout


def core() -> None:
    """A density, a classifier, a model in a file, the command, and what lacking extras say."""
    import numpy as np

    import maxent as mx

    version = importlib.metadata.version("maxent")
    assert mx.__version__ == version
    assert said("--version") == f"maxent {version}\n"
    assert "extra geo" in said("info")
    X = np.random.default_rng(0).uniform(size=(200, 3))
    y = (X @ [1, -1, 2] > 1).astype(int)
    solution = mx.Problem(mx.Shannon(), X, mx.Box(0.05), observed=y / y.sum()).solve()
    assert solution.gap <= 1e-8
    model = mx.FenchelYoungClassifier(entropy="tsallis", alpha=1.5).fit(X, y)
    assert model.score(X, y) > 0.9
    with tempfile.TemporaryDirectory() as folder:
        mx.save(model, Path(folder) / "model.json")
        again = mx.load(Path(folder) / "model.json")
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    if importlib.util.find_spec("torch") is None:
        advice = ""
        try:
            importlib.import_module("maxent.torch")
        except ImportError as error:
            advice = str(error)
        assert "pip install maxent[torch]" in advice, advice


def plot() -> None:
    """The picture of a path."""
    import matplotlib

    import maxent as mx

    matplotlib.use("Agg")
    axes = mx.RelaxationPath([50, 30, 15, 5], [1, 2, 0, 1]).fit().plot()
    with tempfile.TemporaryDirectory() as folder:
        axes.figure.savefig(Path(folder) / "path.png")
        assert (Path(folder) / "path.png").read_bytes().startswith(b"\x89PNG")


def torch() -> None:
    """A sparse loss and its gradient."""
    import maxent.torch as mt
    import torch

    scores = torch.tensor([[2.0, 0.0, -3.0]], requires_grad=True)
    mt.FenchelYoungLoss("entmax15")(scores, torch.tensor([1])).backward()
    assert scores.grad is not None
    assert scores.grad[0, 2] == 0  # a class without evidence gets no gradient
    assert abs(float(scores.grad.sum())) < 1e-6


def transformers() -> None:
    """A small language model that attends by entmax."""
    import transformers

    import maxent.torch as mt
    import torch

    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "vocab_size": 9}
    config = transformers.LlamaConfig(**sizes, num_attention_heads=2, num_key_value_heads=1)
    name = mt.register_attention()
    model = transformers.LlamaForCausalLM._from_config(config, attn_implementation=name)
    out = model(torch.arange(8)[None], output_attentions=True)
    assert torch.allclose(out.attentions[0].sum(-1), torch.ones(1, 2, 8), atol=1e-4)


def dask() -> None:
    """A classifier on an array in blocks."""
    import dask.array as da
    import distributed  # noqa: F401 -- what the extra promises
    import numpy as np

    import maxent as mx
    from maxent.rows.dask import cluster  # noqa: F401

    X = np.random.default_rng(0).normal(size=(200, 3))
    y = (X[:, 0] > 0).astype(int)
    whole = mx.FenchelYoungClassifier().fit(X, y)
    blocks = mx.FenchelYoungClassifier().fit(da.from_array(X, chunks=(50, 3)), y)
    assert np.allclose(whole.coef_, blocks.coef_, atol=1e-3)


def geo() -> None:
    """Records and rasters to a map, a report and a model, by the command."""
    from maxent.datasets import virtual_landscape, write_landscape

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        landscape = virtual_landscape(height=20, width=30, n_occurrences=40, seed=1)
        write_landscape(landscape, place / "data")
        records, layers = place / "data" / "occurrences.csv", place / "data" / "layers"
        options = ["-c", "biome", "--features", "lq", "-o", str(place / "out"), "--quiet"]
        said("fit", str(records), str(layers), *options)
        written = {path.name for path in (place / "out").rglob("*") if path.is_file()}
        assert "report.html" in written, written
        assert any(name.endswith(".tif") for name in written), written


def app() -> None:
    """The page and its script, from the server on this machine."""
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(
            [command(), "app", folder, "--no-browse"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        limit = threading.Timer(120, server.kill)  # readline would wait for ever
        limit.start()
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            assert line.startswith("open http://127.0.0.1:"), line
            link = line.split()[1]
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            page = opener.open(link, timeout=60).read().decode()
            assert "<script" in page
            assert "</html>" in page or "<body" in page
        finally:
            limit.cancel()
            server.kill()
            server.communicate()


PARTS: dict[str, Callable[[], None]] = {
    "core": core,
    "plot": plot,
    "torch": torch,
    "transformers": transformers,
    "dask": dask,
    "geo": geo,
    "app": app,
}


def main(names: list[str]) -> None:
    """Run the parts that are named, and say so."""
    if unknown := [name for name in names if name not in PARTS]:
        raise SystemExit(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    for name in names or PARTS:
        PARTS[name]()
        print(f"ok: {name}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
