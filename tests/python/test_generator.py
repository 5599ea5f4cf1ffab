"""Random state: 16 bytes of seed and offset, which move on with each draw."""

import pytest
import torch
from processes import run


def numbers(state: torch.Tensor) -> tuple[int, int]:
    seed, offset = state.view(torch.int64).tolist()
    return seed, offset


def test_state_is_seed_and_offset():
    torch.tpu.manual_seed(5)
    state = torch.tpu.get_rng_state()
    assert (state.dtype, state.shape, state.device.type) == (torch.uint8, (16,), "cpu")
    assert numbers(state) == (5, 0)
    assert torch.tpu.initial_seed() == 5


def test_drawing_moves_the_offset_by_multiples_of_four():
    torch.tpu.manual_seed(5)
    offsets = [0]
    for n in (1, 3, 1000):
        torch.rand(n, device="tpu")
        offsets.append(numbers(torch.tpu.get_rng_state())[1])
    assert offsets == sorted(set(offsets))
    assert all(offset % 4 == 0 for offset in offsets)


@pytest.mark.parametrize("draw", [torch.rand, torch.randn], ids=["rand", "randn"])
def test_seed_decides_the_numbers(draw):
    torch.manual_seed(3)
    first, second = draw(50, device="tpu").cpu(), draw(50, device="tpu").cpu()
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    assert torch.equal(first, draw(50, device="tpu").cpu())
    torch.manual_seed(4)
    assert not torch.equal(first, draw(50, device="tpu").cpu())


def test_state_round_trip():
    torch.rand(3, device="tpu")
    state = torch.tpu.get_rng_state()
    first = torch.rand(8, device="tpu").cpu()
    torch.rand(8, device="tpu")
    torch.tpu.set_rng_state(state)
    assert torch.equal(first, torch.rand(8, device="tpu").cpu())
    states = torch.tpu.get_rng_state_all()
    first = torch.rand(8, device="tpu").cpu()
    torch.tpu.set_rng_state_all(states)
    assert torch.equal(first, torch.rand(8, device="tpu").cpu())


def test_fork_rng():
    torch.manual_seed(1)
    expected = torch.rand(4, device="tpu").cpu()
    torch.manual_seed(1)
    with torch.random.fork_rng(device_type="tpu"):
        torch.manual_seed(2)
        torch.rand(100, device="tpu")
    assert torch.equal(expected, torch.rand(4, device="tpu").cpu())


def test_own_generator():
    generator = torch.Generator(device="tpu").manual_seed(9)
    assert generator.device == torch.device("tpu:0")
    torch.tpu.manual_seed(0)
    default = torch.tpu.get_rng_state()
    first = torch.rand(6, device="tpu", generator=generator).cpu()
    assert torch.equal(default, torch.tpu.get_rng_state()), "the default generator is untouched"
    assert torch.equal(first, torch.rand(6, device="tpu", generator=torch.Generator("tpu").manual_seed(9)).cpu())
    copy = torch.Generator(device="tpu")
    copy.set_state(generator.get_state())
    clone = generator.clone_state()
    drawn = [torch.rand(6, device="tpu", generator=g).cpu() for g in (generator, copy, clone)]
    assert torch.equal(drawn[0], drawn[1]) and torch.equal(drawn[0], drawn[2])


def test_seed_without_a_number_differs():
    generator = torch.Generator(device="tpu")
    assert generator.initial_seed() == torch.Generator().initial_seed(), "PyTorch's default seed"
    assert generator.seed() != generator.seed()
    torch.tpu.seed()
    first = torch.tpu.initial_seed()
    torch.tpu.seed_all()
    assert torch.tpu.initial_seed() != first


def test_generator_of_the_wrong_device_raises():
    for draw in (
        lambda: torch.rand(3, device="tpu", generator=torch.Generator()),
        lambda: torch.randn(3, device="tpu", generator=torch.Generator()),
        lambda: torch.empty(3, device="tpu").normal_(generator=torch.Generator()),
    ):
        with pytest.raises(RuntimeError, match=r"tpu.*generator.*cpu"):
            draw()


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (torch.zeros(8, dtype=torch.uint8), RuntimeError),
        (torch.zeros(16, dtype=torch.int32), TypeError),
        (torch.zeros(0, dtype=torch.uint8), RuntimeError),
    ],
)
def test_states_that_do_not_fit(state, error):
    with pytest.raises(error):
        torch.Generator(device="tpu").set_state(state)


def test_default_generators_are_one_object_each():
    generators = torch.tpu.default_generators
    assert len(generators) == torch.tpu.device_count()
    assert generators[0] is torch.tpu.default_generators[0] is torch.tpu._get_generator(torch.device("tpu:0"))
    generators[0].manual_seed(77)
    assert torch.tpu.initial_seed() == 77


def test_graphsafe_state_is_shared():
    generator = torch.Generator(device="tpu").manual_seed(1)
    shared = generator.graphsafe_get_state()
    torch.rand(4, device="tpu", generator=generator)
    assert numbers(shared.get_state()) == numbers(generator.get_state())
    other = torch.Generator(device="tpu").manual_seed(2)
    generator.graphsafe_set_state(other)
    assert numbers(generator.get_state()) == (2, 0)


def test_checkpoint_repeats_dropout():
    x = torch.ones(64, 64, device="tpu", requires_grad=True)
    torch.manual_seed(0)
    y = torch.utils.checkpoint.checkpoint(lambda v: torch.nn.functional.dropout(v, 0.5), x, use_reentrant=False)
    y.sum().backward()
    assert torch.equal(y.detach().cpu(), x.grad.cpu()), "the mask of the second forward pass is that of the first"


def test_seed_before_the_first_use():
    code = """
import torch
torch.manual_seed(12)
from torch_pjrt import _C
print(_C.started())
print(torch.tpu.initial_seed(), torch.rand(2, device="tpu").tolist() == {expected})
"""
    torch.manual_seed(12)
    expected = torch.rand(2, device="tpu").tolist()
    assert run(code.replace("{expected}", repr(expected))).stdout.split() == ["False", "12", "True"]


def test_state_set_before_the_first_use():
    code = """
import torch
state = torch.tensor([7, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0], dtype=torch.uint8)
torch.tpu.set_rng_state(state)
print(torch.equal(torch.tpu.get_rng_state(), state))
"""
    assert run(code).stdout == "True\n"


@pytest.mark.parametrize("size", [24, 25])
def test_the_shape_does_not_change_the_numbers(size: int) -> None:
    """Programs draw in shapes that suit a TPU's tiles; which number comes where is a matter of the flat order alone."""
    shapes = {
        24: [(24,), (4, 6), (3, 8), (1, 2, 12), (24, 1), (1, 1, 3, 8), (2, 2, 2, 3)],
        25: [(25,), (5, 5), (1, 25)],
    }

    def draw(shape: tuple[int, ...]) -> torch.Tensor:
        torch.manual_seed(3)
        return torch.rand(shape, device="tpu").cpu().flatten()

    first = draw((size,))
    assert first.unique().numel() == size
    for shape in shapes[size]:
        assert torch.equal(draw(shape), first), shape
