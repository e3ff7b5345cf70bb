"""A vocabulary shared by processes: losses and gradients of one device, and errors in all."""

import multiprocessing

import pytest

from tools import needs

torch = needs("torch")

if not torch.distributed.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)

from shards_of_the_head import cases, failures, mesh_failures, run, run_on_devices  # noqa: E402

import maxent.torch as mt  # noqa: E402

WORLD = 3


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What each rank found; the processes take seconds to start."""
    store = str(tmp_path_factory.mktemp("group") / "store")
    with multiprocessing.get_context("spawn").Pool(WORLD) as pool:
        given = [(rank, WORLD, store) for rank in range(WORLD)]
        return pool.starmap_async(run, given, chunksize=1).get(300)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, WORLD])
def test_as_on_one_device(size, found):
    for rank in range(size):
        assert [name for name, *_ in found[rank][size]] == [name for name, _ in cases()]
        for name, error, tolerance in found[rank][size]:
            assert error <= tolerance, (rank, name)


@pytest.mark.slow
@pytest.mark.skipif(
    not (torch.cuda.is_available() and torch.distributed.is_nccl_available()),
    reason="there is no CUDA device with NCCL",
)
def test_on_all_devices(tmp_path):
    world = torch.cuda.device_count()
    with multiprocessing.get_context("spawn").Pool(world) as pool:
        given = [(rank, world, str(tmp_path / "store")) for rank in range(world)]
        for errors in pool.starmap_async(run_on_devices, given, chunksize=1).get(300):
            for name, error, _ in errors:
                assert error <= 2e-5, name


@pytest.mark.slow
def test_errors_in_words_in_every_process(found):
    for rank in range(2):
        errors = found[rank]["failures"]
        for name, _, said in failures():
            assert any(words in errors[name] for words in said), (rank, name, errors[name])
        assert errors["one process"] == ""


@pytest.mark.slow
def test_chunks_with_sharded_parameters_and_with_a_shared_head(found):
    for rank in range(2):
        assert set(found[rank]["chunks"]) == {"fsdp", "shared"}
        assert max(found[rank]["chunks"].values()) < 2e-6


@pytest.mark.slow
def test_meshes_that_cannot_be_in_every_process(found):
    for rank in range(2):
        for name, _, said in mesh_failures():
            assert said in found[rank]["meshes"][name], (rank, name, found[rank]["meshes"][name])


@pytest.mark.slow
def test_candidates_are_little_of_what_scores_would_be(found):
    own = [found[rank]["traffic"] for rank in range(2)]
    sent = sum(n for counts in own for what, n in counts.items() if "gradient" not in what)
    assert 0 < sent < 0.01 * 4 * 128 * 20000


def test_a_group_needs_processes():
    with pytest.raises(RuntimeError, match="init_process_group first"):
        mt.linear_fenchel_young_loss(
            torch.zeros(1, 2), torch.zeros(3, 2), torch.tensor([0]), group=object()
        )
    head = mt.LinearFenchelYoungLoss(2, 3, group=object())
    with pytest.raises(NotImplementedError, match="needs all classes, and this process has 3"):
        head.predict(torch.zeros(1, 2))
