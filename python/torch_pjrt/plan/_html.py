"""A plan as one page: tables and drawings in it, nothing is loaded."""

import html
import math
from collections.abc import Iterable, Sequence

from torch_pjrt.plan._analysis import Plan, PlannedProgram
from torch_pjrt.plan._script import PLACEHOLDER
from torch_pjrt.plan._units import shown_bytes, shown_count, shown_seconds

MOST_PROGRAMS, MOST_ROWS, WIDTH, HEIGHT = 10, 20, 940, 260
INK, FAINT, BLUE, PALE, RED, GREEN, AMBER = "#1f2933", "#d5dce3", "#2563a8", "#bcd3ec", "#c2352b", "#2e7d4f", "#c77d0a"
STYLE = f"""
@page {{ size: 1040px 2600px; margin: 0 }}
body {{ font: 15px/1.5 "Helvetica Neue", Arial, "DejaVu Sans", sans-serif; color: {INK}; margin: 0 auto;
       padding: 28px 40px; max-width: 960px; background: white }}
h1 {{ font-size: 24px; margin: 0 }} h2 {{ font-size: 17px; margin: 30px 0 8px }}
p.sub {{ color: #52606d; margin: 2px 0 18px }}
code {{ font-family: Menlo, "DejaVu Sans Mono", monospace; font-size: 12.5px }}
table {{ border-collapse: collapse; width: 100% }}
th {{ text-align: left; font-weight: 600; color: #52606d; font-size: 12.5px;
     border-bottom: 1px solid {FAINT}; padding: 4px 8px 4px 0 }}
td {{ padding: 5px 8px 5px 0; border-bottom: 1px solid #eef1f4; vertical-align: top; font-size: 13.5px;
     overflow-wrap: anywhere }}
td.n, th.n {{ text-align: right; white-space: nowrap }}
table.tiles td {{ border: 1px solid {FAINT}; padding: 10px 14px; width: 25% }}
table.tiles b {{ display: block; font-size: 22px; line-height: 1.3 }}
table.tiles span {{ color: #52606d; font-size: 12.5px }}
.bad {{ color: {RED} }} .good {{ color: {GREEN} }} svg {{ display: block }}
svg text {{ font-family: "Helvetica Neue", Arial, "DejaVu Sans", sans-serif }}
ul {{ margin: 6px 0; padding-left: 22px }} li {{ margin: 3px 0 }}
"""


def _e(text: object) -> str:
    return html.escape(str(text))


def _text(x: float, y: float, text: str, anchor: str = "start", extra: str = "") -> str:
    style = 'font-size="12" fill="#52606d"' if not extra else f'font-size="12" {extra}'
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {style}>{_e(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, color: str = FAINT, extra: str = "") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" {extra}/>'


def _svg(parts: Iterable[str], height: int = HEIGHT) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">{"".join(parts)}</svg>'


# ---- memory over time ----


def _thin(usage: Sequence[int], most: int = 700) -> list[tuple[int, int, int]]:
    """(position, least, most) of at most so many equal runs: peaks stay peaks."""
    size = max(math.ceil(len(usage) / most), 1)
    return [(at, min(usage[at : at + size]), max(usage[at : at + size])) for at in range(0, len(usage), size)]


def _memory(plan: Plan) -> str:
    usage = plan.usage()
    held = [event.live for event in plan.recording.events]
    if not usage:
        return ""
    left, right, top, bottom = 74, WIDTH - 12, 8, HEIGHT - 34
    ceiling = max(max(usage), plan.limit_bytes if max(usage) > plan.limit_bytes / 4 else 0) * 1.12 or 1

    def x(at: float) -> float:
        return left + (right - left) * at / max(len(usage) - 1, 1)

    def y(n: float) -> float:
        return bottom - (bottom - top) * n / ceiling

    parts = []
    for tick in range(5):
        n = ceiling * tick / 4
        parts += [_line(left, y(n), right, y(n)), _text(left - 6, y(n) + 4, shown_bytes(n), "end")]
    outline = " ".join(f"{x(at):.1f},{y(most):.1f}" for at, _, most in _thin(usage))
    area = " ".join(f"{x(at):.1f},{y(least):.1f}" for at, least, _ in _thin(held))
    parts.append(f'<polygon points="{left},{bottom} {area} {x(len(held) - 1):.1f},{bottom}" fill="{PALE}"/>')
    parts.append(f'<polyline points="{outline}" fill="none" stroke="{BLUE}" stroke-width="1.4"/>')
    bounds = [bound for bound in plan.steps.bounds if 0 < bound < len(usage)]
    if len(bounds) <= 40:
        parts += [_line(x(b), top, x(b), bottom, "#9aa5b1", 'stroke-dasharray="2 4"') for b in bounds]
    if ceiling > plan.limit_bytes:
        label = f"a device's memory: {shown_bytes(plan.limit_bytes)}"
        parts.append(_line(left, y(plan.limit_bytes), right, y(plan.limit_bytes), RED, 'stroke-width="1.6"'))
        parts.append(_text(right, y(plan.limit_bytes) - 5, label, "end", f'fill="{RED}"'))
    parts.append(f'<circle cx="{x(plan.peak_at):.1f}" cy="{y(plan.peak_bytes):.1f}" r="4" fill="{RED}"/>')
    side = "end" if x(plan.peak_at) > WIDTH / 2 else "start"
    shift = -8 if side == "end" else 8
    parts.append(_text(x(plan.peak_at) + shift, y(plan.peak_bytes) - 6, f"peak {shown_bytes(plan.peak_bytes)}", side))
    parts.append(_text((left + right) / 2, HEIGHT - 8, "launches, in their order; dotted: the ends of steps", "middle"))
    return _svg(parts)


# ---- roofline ----


def _decades(low: float, high: float) -> list[int]:
    return list(range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1))


def _roofline(plan: Plan) -> str:
    programs = [p for p in plan.programs if p.flops > 0 and p.bytes_accessed > 0 and p.launches_per_step > 0]
    if not programs:
        return "<p>No program of a step has matrix products.</p>"
    ridge = plan.peak_flops / plan.bandwidth
    xs = [p.intensity for p in programs]
    x_low, x_high = min([*xs, ridge / 30]) / 2, max([*xs, ridge * 4]) * 2
    y_low, y_high = plan.bandwidth * x_low, plan.peak_flops * 2
    left, right, top, bottom = 74, WIDTH - 12, 12, HEIGHT - 40

    def x(v: float) -> float:
        return left + (right - left) * math.log(v / x_low) / math.log(x_high / x_low)

    def y(v: float) -> float:
        return bottom - (bottom - top) * math.log(max(v, y_low) / y_low) / math.log(y_high / y_low)

    parts = []
    for decade in _decades(x_low, x_high):
        if x_low <= 10.0**decade <= x_high:
            at = x(10.0**decade)
            parts += [_line(at, top, at, bottom), _text(at, bottom + 16, shown_count(10.0**decade), "middle")]
    for decade in _decades(y_low, y_high):
        if y_low <= 10.0**decade <= y_high:
            at = y(10.0**decade)
            parts += [_line(left, at, right, at), _text(left - 6, at + 4, f"{shown_count(10.0**decade)}", "end")]
    roof = f"{x(x_low):.1f},{y(plan.bandwidth * x_low):.1f} {x(ridge):.1f},{y(plan.peak_flops):.1f}"
    roof += f" {x(x_high):.1f},{y(plan.peak_flops):.1f}"
    parts.append(f'<polyline points="{roof}" fill="none" stroke="{INK}" stroke-width="1.8"/>')
    label = f"{shown_count(plan.peak_flops)}flop/s, from {ridge:.0f} flops a byte on"
    parts.append(_text(right, y(plan.peak_flops) + 24, label, "end"))
    largest = max(p.step_seconds for p in programs) or 1
    for p in sorted(programs, key=lambda p: -p.step_seconds):
        radius = 3 + 13 * math.sqrt(p.step_seconds / largest)
        color = BLUE if p.flops_seconds >= p.bytes_seconds else AMBER
        parts.append(
            f'<circle cx="{x(p.intensity):.1f}" cy="{y(p.flops / p.seconds):.1f}" r="{radius:.1f}" fill="{color}" '
            f'fill-opacity="0.45" stroke="{color}"><title>{_e(p.name)}</title></circle>'
        )
    parts.append(_text((left + right) / 2, HEIGHT - 6, "flops a byte; area: time in a step", "middle"))
    return _svg(parts)


# ---- tables ----


def _bars(plan: Plan, programs: Sequence[PlannedProgram]) -> str:
    """What a step is made of."""
    left, row = 330, 24
    largest = max((p.step_seconds for p in programs), default=0) or 1
    parts = []
    for at, p in enumerate(programs):
        y, width = at * row, (WIDTH - left - 150) * p.step_seconds / largest
        color = BLUE if p.flops_seconds >= p.bytes_seconds else AMBER
        name = p.name if len(p.name) <= 44 else p.name[:43] + "…"
        share = p.step_seconds / plan.device_seconds if plan.device_seconds else 0
        parts.append(_text(left - 10, y + 16, f"{p.number}  {name}", "end"))
        parts.append(f'<rect x="{left}" y="{y + 4}" width="{max(width, 1):.1f}" height="16" fill="{color}"/>')
        parts.append(_text(left + width + 6, y + 16, f"{shown_seconds(p.step_seconds)}, {share:.1%}"))
    return _svg(parts, row * len(programs) + 4)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = ()) -> str:
    right = set(numbers)

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(f"<{tag}{' class=n' if at in right else ''}>{cell}</{tag}>" for at, cell in enumerate(row))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><tr>{cells('th', head)}</tr>{body}</table>"


def _place(line: str) -> str:
    """The end of a path: the page is read beside the script."""
    path, _, number = line.rpartition(":")
    return f"<code>{_e('/'.join(path.split('/')[-2:]))}:{_e(number)}</code>"


def _programs(programs: Sequence[PlannedProgram]) -> str:
    def row(p: PlannedProgram) -> list[str]:
        compiling = "-" if p.compile_seconds is None else f"{p.compile_seconds:.2f} s"
        state = f'<br><span class="bad">refused: {_e(p.error[:90])}</span>' if p.error else ""
        lines = "<br>".join(_place(line) for line in p.lines[:2])
        return [
            str(p.number), f"{_e(p.name)}<br>{lines}{state}", f"{p.launches_per_step:.4g}", shown_count(p.flops),
            shown_bytes(p.argument_bytes), shown_bytes(p.output_bytes), shown_bytes(p.temp_bytes),
            shown_count(p.intensity), shown_seconds(p.seconds), compiling,
        ]  # fmt: skip

    head = ["no.", "program", "a step", "flops", "arguments", "results", "temporaries", "flops/B", "at best", "compile"]
    return _table(head, map(row, programs), [0, *range(2, 10)])


def _tiles(plan: Plan) -> str:
    fits = plan.fits
    memory = f'<b class="{"good" if fits else "bad"}">{shown_bytes(plan.peak_bytes)}</b>'
    step = shown_seconds(plan.step_seconds)
    host = "-" if plan.host_seconds is None else shown_seconds(plan.host_seconds)
    tiles = (
        f"{memory}<span>peak memory, of {shown_bytes(plan.limit_bytes)}: {'fits' if fits else 'does not fit'}</span>",
        f"<b>{step}</b><span>a step at best (device {shown_seconds(plan.device_seconds)}, host {host})</span>",
        f"<b>{plan.mfu:.1%}</b><span>MFU at best; {shown_count(plan.step_flops)}flop a step</span>",
        f"<b>{plan.step_launches:.0f}</b><span>launches a step, of {len(plan.programs)} programs</span>",
    )
    return f'<table class="tiles"><tr>{"".join(f"<td>{tile}</td>" for tile in tiles)}</tr></table>'


def _rest(plan: Plan) -> str:
    parts = []
    if plan.recompiles:
        rows = [[_e(f["per_step"]), _e(f["what"]), _e(f["why"])] for f in plan.recompiles[:MOST_ROWS]]
        parts.append("<h2>Made anew after the third step</h2>" + _table(["a step", "program", "why"], rows, [0]))
    if plan.reads:
        given = "" if plan.recording.executed else f" (each got {PLACEHOLDER})"
        rows = [[_e(f["reads"]), shown_bytes(f["bytes"]), _place(str(f["line"]))] for f in plan.reads[:MOST_ROWS]]
        parts.append(f"<h2>Reads of the device{given}</h2>" + _table(["times", "bytes", "line"], rows, [0, 1]))
    if plan.recording.fallbacks:
        rows = [[_e(op), _e(n)] for op, n in plan.recording.fallbacks.items()]
        parts.append("<h2>Operators that ran on the CPU</h2>" + _table(["operator", "calls"], rows, [1]))
    return "".join(parts)


def page(plan: Plan) -> str:
    r = plan.recording
    target = r.target
    compiled = sum(p.compile_seconds or 0.0 for p in plan.programs)
    version = plan.libtpu.splitlines()[-1] if plan.libtpu else "not compiled"
    computed = "a CPU plugin computed" if r.executed else f"nothing was computed, reads gave {PLACEHOLDER}"
    devices = f"{target.n_devices} device{'s' if target.n_devices > 1 else ''}"
    sub = (
        f"{target.chip.kind}, {devices}, eager mode {r.eager_mode}, {computed}. "
        f"{len(plan.programs)} programs, {compiled:.1f} s of compiling (libtpu: {version}). "
        f"Steps: {plan.steps.n}, found by {plan.steps.how}."
    )
    failed = f'<p class="bad">The script failed: {_e(r.error)}</p>' if r.error else ""
    advice = "".join(f"<li>{_e(text)}</li>" for text in plan.advice)
    top = plan.most_important[:MOST_PROGRAMS]
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{_e(r.script)} on {_e(target.name)}</title>'
        f"<style>{STYLE}</style></head><body>"
        f"<h1>{_e(' '.join([r.script.split('/')[-1], *r.arguments]))} on {_e(target.name)}</h1>"
        f'<p class="sub">{_e(sub)}</p>{failed}{_tiles(plan)}'
        + (f"<h2>What to do</h2><ul>{advice}</ul>" if advice else "")
        + f"<h2>Memory of device 0</h2>{_memory(plan)}"
        f"<p class='sub'>Filled: what tensors hold. Line: with the temporaries of the running program.</p>"
        f"<h2>What a step is made of</h2>{_bars(plan, top)}"
        f"<p class='sub'>Blue: bound by flops; amber: by memory.</p>"
        f"<h2>Roofline</h2>{_roofline(plan)}"
        f"<h2>The programs that matter most</h2>{_programs(top)}{_rest(plan)}</body></html>\n"
    )
