"""A plan as text, for a terminal."""

import re
from collections.abc import Iterator

from torch_pjrt.plan._analysis import Plan
from torch_pjrt.plan._script import PLACEHOLDER
from torch_pjrt.plan._units import shown_bytes, shown_count, shown_seconds

MOST_PROGRAMS, MOST_LINES = 10, 8


def _shown(line: str) -> str:
    """Without the folders that packages lie in."""
    return re.sub(r"\S*/(?:site|dist)-packages/", "", line)


def _head(plan: Plan) -> Iterator[str]:
    r = plan.recording
    target = r.target
    yield f"{' '.join([r.script, *r.arguments])} on {target.name}"
    devices = f"{target.n_devices} device{'s' if target.n_devices > 1 else ''}"
    yield (
        f"  {target.chip.kind}, {devices} of {shown_bytes(plan.limit_bytes)}, {shown_count(plan.peak_flops)}flop/s in "
        f"bfloat16, {shown_count(plan.bandwidth)}B/s"
    )
    compiled = [p for p in plan.programs if p.compile_seconds is not None]
    total = sum(p.compile_seconds or 0.0 for p in compiled)
    if plan.libtpu is None:
        yield f"  {len(plan.programs)} programs, not compiled: without libtpu, temporaries are not known"
    else:
        kept = sum(p.compile_kept for p in compiled)
        yield (
            f"  {len(plan.programs)} programs, {len(compiled)} compile, in {total:.1f} s; {kept} of them were known "
            "from an earlier plan"
        )
    computed = "a CPU plugin computes" if r.executed else f"nothing is computed, reads give {PLACEHOLDER}"
    yield f"  eager mode {r.eager_mode}; {computed}"
    if r.error is not None:
        yield f"  THE SCRIPT FAILED: {r.error}"


def _step(plan: Plan) -> Iterator[str]:
    yield f"A step ({plan.steps.n} found by {plan.steps.how})"
    yield f"  launches       {plan.step_launches:.0f}"
    yield f"  flops          {shown_count(plan.step_flops)} in matrix products and convolutions"
    intensity = plan.step_flops / plan.step_bytes if plan.step_bytes else 0.0
    yield f"  memory traffic {shown_bytes(plan.step_bytes)}; {intensity:.0f} flops a byte"
    best = f"{shown_seconds(plan.device_seconds)} at best (roofline of each program), MFU {plan.device_mfu:.1%}"
    yield f"  device         {best}"
    if plan.host_seconds is not None:
        yield f"  host           {shown_seconds(plan.host_seconds)}: measured here, and 1.5 us a launch for the plugin"
        yield f"  step           {shown_seconds(plan.step_seconds)} at best, MFU {plan.mfu:.1%}"


def _memory(plan: Plan) -> Iterator[str]:
    fits = "fits" if plan.fits else "DOES NOT FIT"
    yield f"Memory of device 0: {fits}"
    yield f"  peak           {shown_bytes(plan.peak_bytes)} of {shown_bytes(plan.limit_bytes)}"
    yield f"  from step to step {shown_bytes(plan.state_bytes)}"
    program = plan.peak_program
    if program is not None:
        place = ", ".join(map(_shown, program.lines[:1])) or "no line"
        yield (
            f"  at the peak    program {program.number}, {program.name} ({place}): "
            f"arguments {shown_bytes(program.argument_bytes)}, results {shown_bytes(program.output_bytes)} "
            f"({shown_bytes(program.alias_bytes)} of them in donated arguments), temporaries "
            f"{shown_bytes(program.temp_bytes)}"
        )
    held = sorted(plan.recording.peak_types.items(), key=lambda item: -item[1])[:4]
    yield f"  tensors then   {', '.join(f'{name} {shown_bytes(n)}' for name, n in held)}"


def _programs(plan: Plan) -> Iterator[str]:
    yield f"The programs that matter most (of {len(plan.programs)})"
    yield "    no.  a step      flops  at best    share  bound by  temporaries  compile  program"
    for p in plan.most_important[:MOST_PROGRAMS]:
        share = p.step_seconds / plan.device_seconds if plan.device_seconds else 0.0
        bound = "flops" if p.flops_seconds > p.bytes_seconds else "memory"
        compiling = "refused" if p.error else "-" if p.compile_seconds is None else f"{p.compile_seconds:.2f} s"
        yield (
            f"  {p.number:5} {p.launches_per_step:7.1f} {shown_count(p.flops):>10} {shown_seconds(p.seconds):>8} "
            f"{share:8.1%}  {bound:8} {shown_bytes(p.temp_bytes):>12} {compiling:>8}  {p.name}"
        )
        if p.lines:
            yield f"{'':73}{', '.join(map(_shown, p.lines[:2]))}{' ...' if len(p.lines) > 2 else ''}"


def report(plan: Plan) -> str:
    """The whole report; it ends with a newline."""
    lines = [*_head(plan), "", *_step(plan), "", *_memory(plan), "", *_programs(plan)]
    if plan.recompiles:
        lines += ["", "Programs that are made after the third step"]
        lines += [f"  {f['per_step']} a step: {_shown(f['what'])}: {f['why']}" for f in plan.recompiles[:MOST_LINES]]
    if plan.reads:
        given = "" if plan.recording.executed else f" (each got {PLACEHOLDER})"
        lines += ["", f"Reads of the device{given}"]
        lines += [
            f"  {f['reads']:6} times, {shown_bytes(f['bytes'])}: {_shown(f['line'])}" for f in plan.reads[:MOST_LINES]
        ]
    if plan.recording.fallbacks:
        ran = ", ".join(f"{op} ({n})" for op, n in plan.recording.fallbacks.items())
        lines += ["", f"Operators that ran on the CPU: {ran}"]
    if plan.advice:
        lines += ["", "What to do"]
        lines += [f"  - {advice}" for advice in plan.advice]
    return "\n".join(lines) + "\n"
