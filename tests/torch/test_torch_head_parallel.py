"""A vocabulary shared by processes: losses and gradients of one device, and errors in all."""

import multiprocessing

import pytest

from tools import needs

torch = needs("torch")

if not torch.distributed.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)

from shards_of_the_head import cases, failures, run  # noqa: E402


def processes(world, tmp_path, what):
    """What each rank found."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(world) as pool:
        given = [(what, rank, world, str(tmp_path / "store")) for rank in range(world)]
        return pool.starmap(run, given, chunksize=1)


@pytest.mark.parametrize("world", [2, 4])
def test_as_on_one_device(world, tmp_path):
    found = processes(world, tmp_path, "cases")
    names = [name for name, _ in cases()]
    for rank, errors in enumerate(found):
        assert [name for name, *_ in errors] == names
        for name, error, tolerance in errors:
            assert error <= tolerance, (rank, name)


def test_errors_in_words_in_every_process(tmp_path):
    found = processes(2, tmp_path, "failures")
    for name, _, said in failures():
        for rank, errors in enumerate(found):
            assert any(words in errors[name] for words in said), (rank, name, errors[name])
    assert [errors["one process"] for errors in found] == ["", ""]


def test_candidates_are_little_of_what_scores_would_be(tmp_path):
    found = processes(2, tmp_path, "traffic")
    sent = sum(sum(n for what, n in own.items() if "gradient" not in what) for own in found)
    assert sent < 0.01 * 4 * 128 * 20000


def test_a_group_needs_processes():
    import maxent.torch as mt

    with pytest.raises(RuntimeError, match="init_process_group first"):
        mt.linear_fenchel_young_loss(
            torch.zeros(1, 2), torch.zeros(3, 2), torch.tensor([0]), group=object()
        )
    head = mt.LinearFenchelYoungLoss(2, 3, group=object())
    with pytest.raises(NotImplementedError, match="needs all classes, and this process has 3"):
        head.predict(torch.zeros(1, 2))
