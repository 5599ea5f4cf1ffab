"""What would make a plan that does not fit fit, and one that fits faster."""

import math

from torch_pjrt.plan._analysis import Plan
from torch_pjrt.plan._core import READ
from torch_pjrt.plan._units import shown_bytes, shown_seconds

SLOW_HOST, FEW_LAUNCHES = 1.2, 4  # times the device's seconds; a step that can hardly have fewer


def devices_needed(plan: Plan) -> int | None:
    """The smallest power of two of devices on which weights, optimizer state and gradients, split evenly, fit beside
    what stays whole on each. None: that is too much by itself."""
    whole = max(plan.peak_bytes - plan.shared_bytes, 0)
    if whole >= plan.limit_bytes:
        return None
    return int(2 ** math.ceil(math.log2(max(plan.shared_bytes / (plan.limit_bytes - whole), 1))))


def _memory(plan: Plan) -> list[str]:
    over = plan.peak_bytes - plan.limit_bytes
    if over <= 0:
        return []
    rest = plan.peak_bytes - plan.state_bytes
    advice = [
        f"It does not fit: {shown_bytes(plan.peak_bytes)} are needed at the peak and a device has "
        f"{shown_bytes(plan.limit_bytes)}, {shown_bytes(over)} too little. {shown_bytes(plan.state_bytes)} stay from "
        f"step to step (weights, optimizer state), {shown_bytes(rest)} come and go (activations, gradients, "
        "temporaries)."
    ]
    devices, whole = devices_needed(plan), max(plan.peak_bytes - plan.shared_bytes, 0)
    if devices is not None and devices > 1:
        chips = max(devices // plan.recording.target.chip.devices_per_chip, 1)
        advice.append(
            f"More chips: with weights, gradients and optimizer state split over {devices} devices ({chips} "
            f"chip{'s' if chips > 1 else ''}; FSDP), each at the batch of this script, it fits."
        )
    elif devices is None:
        advice.append(
            f"More chips help only with a smaller batch on each: {shown_bytes(whole)} of activations and temporaries "
            "alone are more than a device has."
        )
    optimizer = plan.peak_program is not None and plan.peak_program.name.startswith("_foreach")
    if whole > 0.25 * plan.limit_bytes and not optimizer:
        advice.append(
            f"Activation checkpointing (torch.utils.checkpoint, a block at a time) computes most of the "
            f"{shown_bytes(whole)} again in the backward pass instead of keeping it, for about a third more flops."
        )
        room = plan.limit_bytes - plan.shared_bytes
        if room > 0:
            advice.append(
                f"A smaller batch: activations have room for {shown_bytes(room)}; at {100 * room / whole:.0f} % of "
                "this batch (or sequence) it fits on one device."
            )
    if optimizer:
        advice.append(
            f"The peak is in the optimizer, whose foreach form makes temporaries as large as all weights "
            f"({shown_bytes(whole)} there): foreach=False makes them one weight at a time."
        )
    wide = plan.recording.peak_types.get("float32", 0)
    if wide > 0.2 * plan.peak_bytes:
        advice.append(
            f"bfloat16: {shown_bytes(wide)} at the peak are float32; weights, gradients and activations in bfloat16 "
            f"would save up to {shown_bytes(wide // 2)}."
        )
    program = plan.peak_program
    if program is not None and program.missed_bytes > 0.02 * plan.limit_bytes:
        advice.append(
            f"Donation missed: {shown_bytes(program.missed_bytes)} of the arguments of program {program.number} "
            f"({program.name}, {', '.join(program.lines[:1]) or 'no line'}) died right after its launch at the peak. "
            "Written in place, or inside one program (torch.compile, compile_step), they would hold its results."
        )
    return advice


def _programs(plan: Plan) -> list[str]:
    refused = [program for program in plan.programs if program.error is not None]
    advice = []
    for program in refused[:3]:
        what = (
            f"needs {shown_bytes(program.needs_bytes)} and does not fit by itself"
            if program.needs_bytes
            else f"is refused by the compiler: {program.error}"
        )
        advice.append(f"Program {program.number} ({program.name}, {', '.join(program.lines[:1])}) {what}.")
    if len(refused) > 3:
        advice.append(f"{len(refused) - 3} more programs are refused; the JSON report has them.")
    return advice


def _speed(plan: Plan) -> list[str]:
    advice = []
    host, device = plan.host_seconds, plan.device_seconds
    if host is not None and device > 0 and host > SLOW_HOST * device and plan.step_launches > FEW_LAUNCHES:
        advice.append(
            f"The host is slower than the device: {shown_seconds(host)} a step for {plan.step_launches:.0f} launches, "
            f'and the device needs {shown_seconds(device)}. torch.compile(backend="tpu"), torch_pjrt.compile_step or '
            "TORCH_PJRT_EAGER_MODE=fused launch fewer, larger programs."
        )
    if plan.recompiles:
        n = sum(int(found["programs"]) for found in plan.recompiles)
        advice.append(
            f"{n} programs were made after the third step: sizes or Python numbers change. Pad to fixed sizes, keep "
            "caches at their full length, or mark sizes as dynamic in torch.compile."
        )
    slow = sum(program.float32_seconds * program.launches_per_step for program in plan.programs)
    if device > 0 and slow > 0.3 * device:
        advice.append(
            'Matrix products of float32 take six bfloat16 products each: torch.autocast("tpu") or bfloat16 weights, or '
            'torch.set_float32_matmul_precision("high").'
        )
    spans = zip(plan.steps.bounds, plan.steps.bounds[1:], strict=False)
    reads = sum(event.what == READ for first, last in spans for event in plan.recording.events[first:last])
    if plan.steps.n > 2 and reads >= plan.steps.n:
        where = plan.reads[0]["line"]
        advice.append(
            f"The device is read {reads / plan.steps.n:.1f} times a step (most at {where}): each read waits until "
            "the device is done, so read every so many steps."
        )
    return advice


def advise(plan: Plan) -> list[str]:
    return _memory(plan) + _programs(plan) + _speed(plan)
