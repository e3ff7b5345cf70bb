"""The Triton kernels: run in Triton's CPU interpreter, and compiled for a device not at hand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import needs, skip_without_interpreter

# Triton 3.7 builds its syntax trees in a way that Python 3.13 warns of
pytestmark = pytest.mark.filterwarnings("ignore:AnnAssign.__init__ missing:DeprecationWarning")


@pytest.mark.slow
def test_kernels_in_the_interpreter():
    """All in one process, which takes seconds to start."""
    for package in ("torch", "triton"):
        needs(package)
    skip_without_interpreter()
    modules = [
        Path(__file__).with_name(name)
        for name in (
            "triton_kernels.py", "triton_head.py", "triton_attention.py", "triton_decode.py",
        )
    ]  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore"]
    run = subprocess.run(
        [*command, *map(str, modules)],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]


def test_versions_that_do_not_work_together_are_skipped_and_no_others(monkeypatch):
    monkeypatch.setenv("MAXENT_REQUIRE_ALL", "1")  # nothing is missing there
    with pytest.raises(
        pytest.skip.Exception, match=r"Triton 3\.6\.0 .* NumPy 2\.5\.1: Triton's own"
    ):
        skip_without_interpreter("2.5.1", "3.6.0")
    for numpy, triton in [("2.4.6", "3.6.0"), ("2.5.1", "3.7.1"), ("2.6.0", "3.6.0")]:
        skip_without_interpreter(numpy, triton)


class Compiler:
    """Takes the place of a kernel and compiles what would be launched."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.programs = []

    def __getitem__(self, grid):
        return self.compile

    def compile(self, *arguments, **settings):
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource, compile

        import torch

        types = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
        types |= {torch.float64: "fp64"}
        types |= {torch.int64: "i64", torch.int32: "i32", torch.int8: "i8"}
        parameters = {p.name: p for p in self.kernel.params}
        given = dict(zip(parameters, arguments, strict=False)) | settings
        options = {name: given.pop(name) for name in list(given) if name not in parameters}
        fixed = {name: given[name] for name, p in parameters.items() if p.is_constexpr}
        signature = {
            name: "constexpr"
            if name in fixed
            else "*" + types[given[name].dtype]
            if isinstance(given[name], torch.Tensor)
            else {int: "i32", float: "fp32"}[type(given[name])]
            for name in parameters
        }
        source = ASTSource(self.kernel, signature, fixed)
        self.programs.append(compile(source, target=GPUTarget("cuda", 90, 32), options=options))


@pytest.mark.parametrize(
    ("dtype", "alpha", "columns", "loss"),
    [
        ("float32", 2.0, 1000, False),
        ("float16", 1.33, 1000, True),
        ("float32", [1.2, 1.01], 1000, False),
        ("float32", 3.0, 60, True),
        ("bfloat16", 1.01, 1000, False),
        ("float32", 3.0, 50000, False),
        ("bfloat16", 1.5, 32000, "in place"),
        ("bfloat16", 1.33, 50000, "in place"),
    ],
)
def test_kernels_compile_for_a_device(dtype, alpha, columns, loss, monkeypatch):
    torch = needs("torch")
    needs("triton")
    from maxent.torch.maps import _triton

    names = ("_resident", "_heads", "_assemble")
    compilers = {name: Compiler(getattr(_triton, name)) for name in names}
    for name, compiler in compilers.items():
        monkeypatch.setattr(_triton, name, compiler)
    x = torch.zeros(2, columns, dtype=getattr(torch, dtype))
    alpha = torch.tensor(alpha) if isinstance(alpha, list) else alpha
    if loss:
        place = {"in_place": loss == "in place"}
        _triton.tsallis_loss(x, torch.tensor([0, 1]), alpha, share=torch.tensor(2), **place)
    else:
        _triton.tsallis_map(x, alpha)
    used = {name: compiler.programs for name, compiler in compilers.items() if compiler.programs}
    assert set(used) == ({"_resident"} if columns < 50000 else {"_heads", "_assemble"})
    for (program,) in used.values():
        assert program.asm["cubin"]
    last = used.get("_resident", used.get("_assemble"))[0].asm["ptx"]
    assert "max.NaN.f32" in last  # a row of NaN alone is not one of -inf
    assert ("lg2.approx.ftz" in last) == (not isinstance(alpha, float) or alpha not in (1.5, 2.0))
    assert ".f64" not in last


@pytest.mark.parametrize(
    ("dtype", "alpha", "columns"),
    [("float32", 2.0, 1000), ("bfloat16", 1.33, 32000), ("float32", [1.5, 3.0], 50000)],
)
def test_the_backward_kernel_compiles_for_a_device(dtype, alpha, columns, monkeypatch):
    torch = needs("torch")
    needs("triton")
    from maxent.torch.maps import _triton_backward

    compiler = Compiler(_triton_backward._vjp)
    monkeypatch.setattr(_triton_backward, "_vjp", compiler)
    p = torch.zeros(2, columns, dtype=getattr(torch, dtype))
    alpha = torch.tensor(alpha) if isinstance(alpha, list) else alpha
    _triton_backward.tsallis_vjp(p, p, alpha)
    (program,) = compiler.programs
    assert program.asm["cubin"]
    assert ".local" not in program.asm["ptx"]


@pytest.mark.parametrize(
    ("states", "shape", "dtype"), [(20, (20, 20), "float64"), (5, (2, 3, 5, 5), "float32")]
)
def test_the_kernel_of_chains_compiles_for_a_device(states, shape, dtype, monkeypatch):
    torch = needs("torch")
    needs("triton")
    from maxent.torch.structured import _chain_triton

    compiler = Compiler(_chain_triton._forward_backward)
    monkeypatch.setattr(_chain_triton, "_forward_backward", compiler)
    dtype = getattr(torch, dtype)
    lengths = torch.tensor([4, 2])
    _chain_triton.softmax(
        torch.zeros(2, 4, states, dtype=dtype), torch.zeros(shape, dtype=dtype), lengths
    )
    (program,) = compiler.programs
    assert program.asm["cubin"]
    assert ".local" not in program.asm["ptx"]


@pytest.mark.parametrize(("size", "labels", "dtype"), [(30, 40, "float32"), (200, 3000, "float64")])
def test_the_kernels_of_ctc_compile_for_a_device(size, labels, dtype, monkeypatch):
    torch = needs("torch")
    needs("triton")
    from maxent.torch.structured import _ctc_triton

    names = ("_forward_backward", "_collect")
    compilers = {name: Compiler(getattr(_ctc_triton, name)) for name in names}
    for name, compiler in compilers.items():
        monkeypatch.setattr(_ctc_triton, name, compiler)
    scores = torch.zeros(2, 9, labels, dtype=getattr(torch, dtype))
    targets = torch.ones(2, size, dtype=torch.int64)
    given = targets, torch.tensor([9, 5]), torch.tensor([size, 2]), 0
    (_ctc_triton.loss if dtype == "float32" else _ctc_triton.sums)(scores, *given)
    for name, compiler in compilers.items():
        (program,) = compiler.programs
        assert program.asm["cubin"], name
        assert ".local" not in program.asm["ptx"], name
    assert "cp.async" in compilers["_forward_backward"].programs[0].asm["ptx"]  # loads ahead


def test_the_kernels_of_segments_compile_for_a_device(monkeypatch):
    torch = needs("torch")
    needs("triton")
    from maxent.torch.structured import _segments_triton

    names = ("_starts_before", "_forward", "_ends_behind", "_backward", "_count_lengths")
    compilers = {name: Compiler(getattr(_segments_triton, name)) for name in names}
    for name, compiler in compilers.items():
        monkeypatch.setattr(_segments_triton, name, compiler)
    scores = [torch.zeros(2, 5, n, dtype=torch.float64) for n in (6, 6, 4, 5)]
    _segments_triton.softmax(*scores, torch.tensor([6, 3]))
    for name, compiler in compilers.items():
        (program,) = compiler.programs
        assert program.asm["cubin"], name
        assert ".local" not in program.asm["ptx"], name


@pytest.mark.parametrize("name", ["_constituency", "_projective"])
def test_the_kernels_of_trees_over_spans_compile_for_a_device(name, monkeypatch):
    torch = needs("torch")
    needs("triton")
    from maxent.torch.structured import _spans_triton

    compiler = Compiler(getattr(_spans_triton, name))
    monkeypatch.setattr(_spans_triton, name, compiler)
    scores, lengths = torch.zeros(2, 6, 6, dtype=torch.float64), torch.tensor([6, 3])
    if name == "_constituency":
        _spans_triton.constituency(scores, lengths)
    else:
        _spans_triton.dependency(scores, lengths, True)
    (program,) = compiler.programs
    assert program.asm["cubin"]
    assert ".local" not in program.asm["ptx"]


@pytest.mark.parametrize(
    ("alpha", "dtype"), [(1.5, "bfloat16"), (2.0, "float32"), (1.33, "bfloat16"), (3.0, "float32")]
)
def test_the_kernels_of_heads_compile_for_a_device(alpha, dtype, monkeypatch):
    torch = needs("torch")
    needs("triton")
    from maxent.torch.head import _triton_head, _triton_products
    from maxent.torch.head._sparse import SparseRows

    kernels = {
        _triton_head: ("_label_shares", "_collect", "_prune", "_dots", "_finish"),
        _triton_products: ("_combine", "_segments", "_scatter_part", "_scatter_sum"),
    }
    compilers = {}
    for module, names in kernels.items():
        for name in names:
            compilers[name] = Compiler(getattr(module, name))
            monkeypatch.setattr(module, name, compilers[name])
    hidden = torch.zeros(4, 2048, dtype=getattr(torch, dtype))
    weight, one = torch.zeros(20000, 2048, dtype=hidden.dtype), torch.ones(())
    _triton_head.label_shares(torch.zeros(4, 1, dtype=torch.int64), -100, True)
    lists, _ = _triton_head.candidates(hidden, weight, weight[:, 0].clone(), alpha)
    _triton_head.finish(lists, alpha)
    sparse = SparseRows(torch.arange(5), torch.arange(4, dtype=torch.int32), torch.ones(4))
    _triton_head.times(sparse, torch.ones(4), one, weight)
    turned = _triton_head.turned(sparse, 20000)
    _triton_head.transposed_times(
        sparse, turned, torch.ones(4), one, hidden, weight, weight[:, 0].clone(), True
    )
    for name, compiler in compilers.items():
        assert compiler.programs, name
        for program in compiler.programs:
            assert program.asm["cubin"]
            assert ".local" not in program.asm["ptx"], name


@pytest.mark.parametrize(
    ("dtype", "alpha", "width", "seen"),
    [
        ("bfloat16", 1.5, 128, {}),
        ("float16", 2.0, 64, {"is_causal": True}),
        ("float32", 1.33, 24, {"slopes": [0.5, 0.25], "lengths": [300]}),
    ],
)
def test_the_kernels_of_attention_compile_for_a_device(dtype, alpha, width, seen, monkeypatch):
    torch = needs("torch")
    needs("triton")
    from maxent.torch.attention import _inputs, _kept, _triton_attention, _triton_candidates

    programs = {}

    def launch(plan, kernel, grid, arguments, constants, warps, stages=3):
        compiler = Compiler(kernel)
        compiler.compile(*arguments, **constants, num_warps=warps, num_stages=stages)
        name = f"{kernel.__module__.split('_')[-1]}_{kernel.__name__}"
        (programs[name],) = compiler.programs
        if kernel is _triton_candidates.mark_kernel:
            arguments[8].fill_(1)  # candidates of every query

    monkeypatch.setattr(_kept, "KEEPING_DEVICES", {"cpu"})
    monkeypatch.setattr(_triton_attention.Plan, "launch", launch)
    seen = {name: x if x is True else torch.tensor(x) for name, x in seen.items()}
    x = torch.zeros(1, 2, 600, width, dtype=getattr(torch, dtype))
    options = {"window": None, "lengths": None, "cu_seqlens": None, "key_padding": None}
    options |= {"slopes": None, "is_causal": False} | seen
    given, _ = _inputs.checked(x, x, x, alpha, None, scale=None, enable_gqa=False, **options)
    for short in (0, 600):  # lists, tiles
        for name in ("_SHORT", "_SHORT_POWERS"):
            monkeypatch.setattr(_triton_attention, name, short)
        out, kept = _triton_attention.forward(given)
        _triton_attention.backward(given, kept, out)
    assert len(programs) == 15
    for name, program in programs.items():
        assert program.asm["cubin"], name
        assert ".f64" not in program.asm["ptx"], name
    if dtype != "float32":
        tiles = ("tiles__forward", "tiles__queries", "tiles__keys")
        for name in ("candidates_bound_kernel", "candidates_mark_kernel", *tiles):
            assert "wgmma" in programs[name].asm["ptx"], name


@pytest.mark.parametrize(
    ("dtype", "alpha", "width", "tokens", "eight_bit"),
    [
        ("bfloat16", 1.5, 128, 1, True),
        ("bfloat16", 2.0, 64, 4, False),
        ("float16", 1.33, 80, 1, True),
        ("float32", 1.5, 256, 1, False),
    ],
)
def test_the_kernels_of_decoding_compile_for_a_device(
    dtype, alpha, width, tokens, eight_bit, monkeypatch
):
    torch = needs("torch")
    needs("triton")
    import maxent.torch as mt
    from maxent.torch.attention import _triton_decode, cache

    programs = {}

    def launch(plan, kernel, grid, arguments, constants, warps, stages=3):
        compiler = Compiler(kernel)
        compiler.compile(*arguments, **constants, num_warps=warps, num_stages=stages)
        (programs[kernel.__name__],) = compiler.programs

    monkeypatch.setattr(cache, "_kernels", lambda there, *w: cache._found(there.dtype, *w))
    monkeypatch.setattr(cache._dispatch, "backend_of", lambda x: "triton")
    monkeypatch.setattr(_triton_decode, "_multiprocessors", lambda device: 132)
    monkeypatch.setattr(_triton_decode.Plan, "launch", launch)
    dtype = getattr(torch, dtype)
    held = mt.AttentionCache(1, 2, width, eight_bit=eight_bit, dtype=dtype)
    x = torch.zeros(1, 2, 600, width, dtype=dtype)
    held.append(x, x)
    held.attend(torch.zeros(1, 8, tokens, width, dtype=dtype), alpha)
    assert set(programs) == {"_append", "_scan", "_refine", "_finish"}
    for name, program in programs.items():
        assert program.asm["cubin"], name
        assert ".local" not in program.asm["ptx"], name
    scan = programs["_scan"].asm["ptx"]
    assert "mma" in scan
    assert "cp.async" in scan  # keys are loaded ahead
    assert programs["_scan"].metadata.shared < 110_000  # two programs a multiprocessor
