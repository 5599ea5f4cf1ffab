"""The tests run in each eager mode (TORCH_PJRT_EAGER_MODE); those that count what strict mode does run in strict mode."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def eager_mode_of_the_test(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.node.get_closest_marker("strict") is None:
        yield
        return
    with torch.tpu.set_eager_mode("strict"):
        yield
