"""Where the steps of a run are.

A step ends where an optimizer stepped, or a call of what compile_step made ended: of several, that with most steps
counts, of equals the first. Without two such, a step is what is launched again and again at the end of the run: of the
periods of the sequence of programs, the one that explains most launches, at least three times over. Without that, a
step is what lies between two reads at the line that reads most often, three times at least (a loop that writes a token
and whose cache grows). Else the run is one step.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from torch_pjrt.plan._core import LAUNCH, MARK, READ, Event


@dataclass(frozen=True)
class Steps:
    """`bounds`: positions in the events where a step ends and the next begins; step i is events[bounds[i]:bounds[i+1]].
    What comes before the first and after the last belongs to none."""

    bounds: tuple[int, ...]
    how: str

    @property
    def n(self) -> int:
        return max(len(self.bounds) - 1, 0)


def _matches(values: Sequence[int]) -> list[int]:
    """z[i]: how many values from i on are those from 0 on (Gusfield's Z algorithm)."""
    z, left, right = [0] * len(values), 0, 0
    for i in range(1, len(values)):
        if i < right:
            z[i] = min(right - i, z[i - left])
        while i + z[i] < len(values) and values[z[i]] == values[i + z[i]]:
            z[i] += 1
        if i + z[i] > right:
            left, right = i, i + z[i]
    return z


def period(programs: Sequence[int]) -> int | None:
    """The shortest of the periods that explain most of the end of the sequence, three times over at least."""
    backwards = list(reversed(programs))
    best, explained = None, 0
    for length, n in enumerate(_matches(backwards)):
        if length and n >= 2 * length and n + length > explained:
            best, explained = length, n + length
    return best


def _by_marks(events: Sequence[Event]) -> tuple[int, ...]:
    steps = Counter(event.subject for event in events if event.what == MARK)
    if not steps:
        return ()
    number, _ = max(steps.items(), key=lambda item: (item[1], -item[0]))
    return tuple(at + 1 for at, event in enumerate(events) if event.what == MARK and event.subject == number)


def _by_period(events: Sequence[Event]) -> tuple[int, ...]:
    launches = [at for at, event in enumerate(events) if event.what == LAUNCH]
    programs = [events[at].subject for at in launches]
    length = period(programs)
    if length is None:
        return ()
    ends = [len(launches)]
    while ends[-1] - length >= 0 and all(
        programs[ends[-1] - 1 - i] == programs[len(launches) - 1 - i] for i in range(length)
    ):
        ends.append(ends[-1] - length)
    return tuple(launches[end] if end < len(launches) else len(events) for end in reversed(ends))


def _by_reads(events: Sequence[Event]) -> tuple[int, ...]:
    lines = Counter(event.subject for event in events if event.what == READ)
    if not lines:
        return ()
    line, n = lines.most_common(1)[0]
    if n < 3:
        return ()
    return tuple(at + 1 for at, event in enumerate(events) if event.what == READ and event.subject == line)


def find(events: Sequence[Event], steppers: Sequence[str] = ()) -> Steps:
    marks = _by_marks(events)
    if len(marks) >= 2:
        number = events[marks[0] - 1].subject
        return Steps(marks, steppers[number] if number < len(steppers) else "marks")
    for bounds, how in (
        (_by_period(events), "programs that are launched again in the same order"),
        (_by_reads(events), "reads at one line"),
    ):
        if len(bounds) >= 3:
            return Steps(bounds, how)
    return Steps((0, len(events)), "the whole run: nothing repeats")
