"""From a recording, and what the compiler says of its programs, to the figures of a plan."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from torch_pjrt.aot import Compiled, CompileError, Compiler, Options
from torch_pjrt.plan import _module, _steps
from torch_pjrt.plan._core import LAUNCH, READ, UPLOAD, Event, Program
from torch_pjrt.plan._options import parse_options
from torch_pjrt.plan._script import PLACEHOLDER, Recording

# What the host spends on one launch on a TPU beyond what is measured here: the plugin's part of a dispatch, as
# docs/performance.md has it for a CPU plugin.
PLUGIN_SECONDS = 1.5e-6
SETTLED = 3  # steps, after which nothing should be compiled
_NEEDS = re.compile(r"([\d.]+)([KMGT]?)(?:iB|B)?\)? (?:exceeds|of|exceeded)")
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


@dataclass
class PlannedProgram:
    """One program, whatever number of times it was made. Bytes and seconds are a device's, for one launch."""

    number: int
    name: str
    lines: list[str]
    ops: int
    signature: str
    launches: int
    launches_per_step: float
    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    missed_bytes: int
    flops: float  # of matrix products and convolutions, by the module
    has_loop: bool
    temp_bytes: int = 0
    peak_bytes: int = 0
    bytes_accessed: float = 0.0  # by the compiler; without it, arguments and results once each
    flops_seconds: float = 0.0
    float32_seconds: float = 0.0  # of these: products of float32 that take several of bfloat16
    bytes_seconds: float = 0.0
    compile_seconds: float | None = None
    compile_kept: bool = False
    error: str | None = None
    needs_bytes: int | None = None  # of a program that does not fit, by the compiler's message

    @property
    def seconds(self) -> float:
        """At best: the roofline."""
        return max(self.flops_seconds, self.bytes_seconds)

    @property
    def step_seconds(self) -> float:
        return self.seconds * self.launches_per_step

    @property
    def intensity(self) -> float:
        return self.flops / self.bytes_accessed if self.bytes_accessed else 0.0


@dataclass
class Plan:
    """All figures. `to_json` has the form that is written."""

    recording: Recording
    libtpu: str | None  # its version; None: nothing was compiled
    steps: _steps.Steps
    programs: list[PlannedProgram]
    of_event: list[PlannedProgram | None]
    limit_bytes: int
    peak_flops: float
    bandwidth: float
    peak_bytes: int = 0
    peak_at: int = 0  # the event
    peak_program: PlannedProgram | None = None
    state_bytes: int = 0  # least in a step: weights and what the optimizer keeps
    shared_bytes: int = 0  # at the end of a step, with the gradients: what FSDP divides among devices
    step_launches: float = 0.0
    step_flops: float = 0.0
    step_bytes: float = 0.0
    device_seconds: float = 0.0
    host_seconds: float | None = None
    recompiles: list[dict[str, Any]] = field(default_factory=list)
    reads: list[dict[str, Any]] = field(default_factory=list)
    upload_bytes_per_step: float = 0.0
    advice: list[str] = field(default_factory=list)

    @property
    def step_seconds(self) -> float:
        return max(self.device_seconds, self.host_seconds or 0.0)

    @property
    def fits(self) -> bool:
        """What programs need for themselves is in the peak; of those that the compiler refuses it is not known."""
        return self.peak_bytes <= self.limit_bytes and all(program.error is None for program in self.programs)

    @property
    def device_mfu(self) -> float:
        return self.step_flops / (self.device_seconds * self.peak_flops) if self.device_seconds else 0.0

    @property
    def mfu(self) -> float:
        return self.step_flops / (self.step_seconds * self.peak_flops) if self.step_seconds else 0.0

    @property
    def most_important(self) -> list[PlannedProgram]:
        """By their share of a step; without a step, by their memory."""
        return sorted(self.programs, key=lambda p: (-p.step_seconds, -p.argument_bytes - p.output_bytes))

    def usage(self) -> list[int]:
        """What device 0 holds at most in each event, with what programs need for themselves."""
        return [
            event.most + (program.temp_bytes if program is not None else 0)
            for event, program in zip(self.recording.events, self.of_event, strict=True)
        ]

    def to_json(self) -> dict[str, Any]:
        r = self.recording
        return {
            "format": 1,
            "script": r.script,
            "arguments": r.arguments,
            "script_error": r.error,
            "eager_mode": r.eager_mode,
            "executed": r.executed,
            "placeholder": None if r.executed else PLACEHOLDER,
            "target": {
                "name": r.target.name,
                "devices": r.target.n_devices,
                "memory_bytes": self.limit_bytes,
                "peak_bfloat16_flops": self.peak_flops,
                "memory_bandwidth": self.bandwidth,
                "libtpu": self.libtpu,
            },
            "memory": {
                "peak_bytes": self.peak_bytes,
                "peak_event": self.peak_at,
                "peak_program": self.peak_program.number if self.peak_program else None,
                "state_bytes": self.state_bytes,
                "shared_bytes": self.shared_bytes,
                "fits": self.fits,
                "types_at_peak": r.peak_types,
            },
            "step": {
                "how": self.steps.how,
                "n": self.steps.n,
                "launches": self.step_launches,
                "flops": self.step_flops,
                "bytes": self.step_bytes,
                "upload_bytes": self.upload_bytes_per_step,
                "device_seconds": self.device_seconds,
                "host_seconds": self.host_seconds,
                "seconds": self.step_seconds,
                "mfu": self.mfu,
                "device_mfu": self.device_mfu,
            },
            "programs": [{**asdict(p), "seconds": p.seconds, "intensity": p.intensity} for p in self.most_important],
            "recompiles": self.recompiles,
            "reads": self.reads,
            "fallbacks": r.fallbacks,
            "advice": self.advice,
        }


def group(programs: Sequence[Program]) -> tuple[list[list[int]], list[int]]:
    """Numbers of programs that are the same, and the group of each: a program may be made for several calls."""
    known: dict[tuple[str, bytes], int] = {}
    groups: list[list[int]] = []
    of: list[int] = []
    for number, program in enumerate(programs):
        at = known.setdefault((_module.without_locations(program.module), program.options), len(groups))
        if at == len(groups):
            groups.append([])
        groups[at].append(number)
        of.append(at)
    return groups, of


def compile_all(
    compiler: Compiler, programs: Sequence[Program], groups: Sequence[Sequence[int]], *, serialized: bool = False
) -> list[Compiled | Exception]:
    """Each group's first program, several at a time."""

    def start(numbers: Sequence[int]) -> "Future[Compiled] | Exception":
        program = programs[numbers[0]]
        try:
            options: Options = parse_options(program.options)
            return compiler.submit(program.module, options, serialized=serialized)
        except (ValueError, CompileError) as error:
            return error

    def finish(started: "Future[Compiled] | Exception") -> Compiled | Exception:
        if isinstance(started, Exception):
            return started
        try:
            return started.result()
        except (ValueError, CompileError) as error:
            return error

    with ThreadPoolExecutor(1) as pool:
        return list(pool.map(finish, [start(numbers) for numbers in groups]))


def is_library(line: str) -> bool:
    """Lines of installed packages come after the user's own."""
    return "site-packages" in line or "dist-packages" in line


def needed(message: str) -> int | None:
    """How much a program that does not fit needs, from the compiler's message."""
    match = _NEEDS.search(message)
    return int(float(match[1]) * 2 ** _UNITS[match[2]]) if match else None


def _planned(
    recording: Recording, number: int, members: Sequence[int], compiled: "Compiled | Exception | None"
) -> PlannedProgram:
    programs = [recording.programs[member] for member in members]
    first, summary, chip = programs[0], _module.summarize(programs[0].module), recording.target.chip
    places = [line for program in programs for line in _module.summarize(program.module).lines if line.file]
    planned = PlannedProgram(
        number=number,
        name=summary.name,
        lines=sorted(dict.fromkeys(f"{line.file}:{line.line}" for line in places), key=is_library),
        ops=summary.n_ops,
        signature=summary.signature,
        launches=sum(program.n_launches for program in programs),
        launches_per_step=0.0,
        argument_bytes=first.argument_bytes,
        output_bytes=first.output_bytes,
        alias_bytes=first.alias_bytes,
        missed_bytes=max(program.missed_bytes for program in programs),
        flops=summary.total_flops,
        has_loop=summary.has_loop,
        bytes_accessed=float(first.argument_bytes + first.output_bytes),
    )
    planned.peak_bytes = first.argument_bytes + first.output_bytes - first.alias_bytes
    if isinstance(compiled, Exception):
        planned.error = str(compiled).splitlines()[0]
        planned.needs_bytes = needed(str(compiled))
        planned.peak_bytes = max(planned.peak_bytes, planned.needs_bytes or 0)
    elif compiled is not None:
        planned.temp_bytes = max(compiled.memory.temp_bytes, 0)
        planned.peak_bytes = max(compiled.memory.peak_bytes, planned.peak_bytes + planned.temp_bytes)
        planned.compile_seconds, planned.compile_kept = compiled.seconds, compiled.kept
        if compiled.cost.bytes_accessed > 0:
            planned.bytes_accessed = compiled.cost.bytes_accessed
    for (dtype, precision), n in summary.flops.items():
        seconds = n / (chip.peak(dtype, precision or "highest") / chip.devices_per_chip)
        planned.flops_seconds += seconds
        if dtype == "float32" and precision == "highest":
            planned.float32_seconds += seconds
    planned.bytes_seconds = planned.bytes_accessed / (chip.memory_bandwidth / chip.devices_per_chip)
    return planned


def _steady(steps: _steps.Steps) -> list[tuple[int, int]]:
    """The steps that are like those to come: the second half."""
    spans = list(zip(steps.bounds, steps.bounds[1:], strict=False))
    return spans[len(spans) // 2 :]


def _host_seconds(plan: Plan, programs: Sequence[Program]) -> float | None:
    """What a step takes the host: measured between the ends of steps in which no program was made, the least, and the
    plugin's part of a launch, which the planning device does not have. None where a CPU computed, or where no step is
    such."""
    events, made = plan.recording.events, sorted(program.nanoseconds for program in programs)
    if plan.recording.executed or plan.steps.n < 2:
        return None
    spans = []
    for first, last in zip(plan.steps.bounds, plan.steps.bounds[1:], strict=False):
        if first == 0 or last > len(events):
            continue
        begin, end = events[first - 1].nanoseconds, events[last - 1].nanoseconds
        if not any(begin < at < end for at in made):
            spans.append((end - begin) * 1e-9)
    return min(spans) + plan.step_launches * PLUGIN_SECONDS if spans else None


def _find_recompiles(plan: Plan, of: Sequence[int], groups: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
    """What is made anew after the third step, by the line that it comes from; and why. The first three are not like the
    others: optimizers make their state, changing numbers become operands, windows find their place."""
    r = plan.recording
    if plan.steps.n < 4:
        return []
    ends = [r.events[bound - 1].nanoseconds for bound in plan.steps.bounds if bound > 0]
    found: dict[str, list[int]] = defaultdict(list)
    latest: dict[str, int] = {}
    reasons: dict[str, str] = {}
    for members in groups:
        program = r.programs[members[0]]
        summary = _module.summarize(program.module)
        place = next((f"{line.file}:{line.line}" for line in summary.lines if line.file), "?")
        key = f"{summary.name} at {place}"
        if ends[SETTLED - 1] < program.nanoseconds <= ends[-1]:
            found[key].append(of[members[0]])
            if key in latest:
                reasons[key] = _module.difference(program.module, r.programs[latest[key]].module)
        latest[key] = members[0]
    late = max(len(ends) - SETTLED, 1)
    return [
        {
            "what": key,
            "programs": len(numbers),
            "per_step": round(len(numbers) / late, 2),
            "why": reasons.get(key, "it had not been called before"),
        }
        for key, numbers in sorted(found.items(), key=lambda item: -len(item[1]))
    ]


def _find_reads(plan: Plan) -> list[dict[str, Any]]:
    r = plan.recording
    n: Counter[int] = Counter()
    n_bytes: Counter[int] = Counter()
    for event in r.events:
        if event.what == READ:
            n[event.subject] += 1
            n_bytes[event.subject] += event.bytes
    return [
        {"line": f"{r.lines[number][0]}:{r.lines[number][1]}" if number >= 0 else "?", "reads": count,
         "bytes": n_bytes[number]}
        for number, count in n.most_common()
    ]  # fmt: skip


def analyse(recording: Recording, compiler: Compiler | None) -> Plan:
    groups, of = group(recording.programs)
    results: Sequence[Compiled | Exception | None] = [None] * len(groups)
    if compiler is not None:
        results = compile_all(compiler, recording.programs, groups)
    programs = [
        _planned(recording, number, members, compiled)
        for number, (members, compiled) in enumerate(zip(groups, results, strict=True))
    ]
    events, chip = recording.events, recording.target.chip
    plan = Plan(
        recording=recording,
        libtpu=compiler.version if compiler is not None else None,
        steps=_steps.find(_with_groups(events, of), recording.steppers),
        programs=programs,
        of_event=[programs[of[e.subject]] if e.what == LAUNCH and e.subject >= 0 else None for e in events],
        limit_bytes=recording.memory_bytes,
        peak_flops=chip.peak("bfloat16") / chip.devices_per_chip,
        bandwidth=chip.memory_bandwidth / chip.devices_per_chip,
    )
    _measure_steps(plan)
    _measure_memory(plan)
    plan.host_seconds = _host_seconds(plan, recording.programs)
    plan.recompiles = _find_recompiles(plan, of, groups)
    plan.reads = _find_reads(plan)
    return plan


def _with_groups(events: Sequence[Event], of: Sequence[int]) -> list[Event]:
    """The events with programs that are the same under one number."""
    changed = []
    for event in events:
        if event.what == LAUNCH and event.subject >= 0:
            event = Event.from_buffer_copy(event)
            event.subject = of[event.subject]
        changed.append(event)
    return changed


def _measure_steps(plan: Plan) -> None:
    spans = _steady(plan.steps)
    for first, last in spans:
        for event, program in zip(plan.recording.events[first:last], plan.of_event[first:last], strict=True):
            if program is not None:
                program.launches_per_step += 1 / len(spans)
            elif event.what == UPLOAD:
                plan.upload_bytes_per_step += event.bytes / len(spans)
    for program in plan.programs:
        n = program.launches_per_step
        plan.step_launches += n
        plan.step_flops += n * program.flops
        plan.step_bytes += n * program.bytes_accessed
        plan.device_seconds += program.step_seconds


def _measure_memory(plan: Plan) -> None:
    usage, events = plan.usage(), plan.recording.events
    for at, (used, event) in enumerate(zip(usage, events, strict=True)):
        if event.device == 0 and used > plan.peak_bytes:
            plan.peak_bytes, plan.peak_at, plan.peak_program = used, at, plan.of_event[at]
    spans = _steady(plan.steps)
    lives = [event.live for first, last in spans for event in events[first:last] if event.device == 0]
    ends = [events[last - 1] for _, last in spans if last > 0]
    plan.shared_bytes = max((event.live for event in ends if event.device == 0), default=0)
    if plan.steps.n > 1:
        plan.state_bytes = min(lives, default=0)
    elif lives:
        plan.state_bytes = lives[-1]  # one step, which made what it needs
