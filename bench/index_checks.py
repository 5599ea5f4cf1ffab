"""What index checks cost: each op with and without them, in alternating rounds, in processor time, its result read. The
first decile of the rounds is compared.

python bench/index_checks.py
"""

import statistics
import time
from collections.abc import Callable

import torch

# indices, width of a row, calls a round, rounds: short rounds, of which the fast ones are those that nothing disturbed
SIZES = ((16, 64, 100, 300), (4096, 256, 4, 60), (8192, 768, 2, 15))


def ops(n: int, width: int) -> dict[str, Callable[[], torch.Tensor]]:
    table, rows = torch.randn(5000, width, device="tpu"), torch.randint(0, 5000, (n,), device="tpu")
    cells, values = torch.randint(0, 5000, (n, width), device="tpu"), torch.randn(n, width, device="tpu")
    return {
        "embedding": lambda: torch.nn.functional.embedding(rows, table),
        "index_select": lambda: table.index_select(0, rows),
        "index.Tensor": lambda: table[rows],
        "index_put": lambda: table.index_put((rows,), values),
        "gather": lambda: table.gather(0, cells),  # as many indices as elements
    }


def microseconds(op: Callable[[], torch.Tensor], checks: bool, calls: int) -> float:
    torch.tpu.config.check_index = checks  # type: ignore[attr-defined]
    started = time.process_time()
    for _ in range(calls):
        result = op()
    result[-1, -1].item()  # also takes the checks
    return (time.process_time() - started) / calls * 1e6


def main() -> None:
    for n, width, calls, rounds in SIZES:
        for name, op in ops(n, width).items():
            samples: dict[bool, list[float]] = {True: [], False: []}
            for i in range(rounds + 1):
                for checks in (i % 2 == 0, i % 2 == 1):
                    samples[checks].append(microseconds(op, checks, calls))
            on, off = (
                statistics.quantiles(samples[checks][1:], n=10)[0] for checks in (True, False)
            )  # the first round compiles
            print(
                f"{name:13} {n:5} x {width:3}: {on:9.1f} us checked, {off:9.1f} us not: {100 * (on / off - 1):+.1f} %"
            )


if __name__ == "__main__":
    main()
