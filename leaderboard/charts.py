"""Charts as inline SVG: no chart library to load, no script, readable in dark mode, every text escaped."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Final, NamedTuple

# Distinct for colour-blind readers, on white and on black alike.
PALETTE: Final = ("#0a84c6", "#e08a00", "#12a178", "#c65fa0", "#8a6fe0", "#a8863a")
_SIZE: Final = 460
_RADIUS: Final = 150


class Series(NamedTuple):
    """One model: its scores by axis, each with the bounds that are known."""

    name: str
    values: Sequence[float | None]
    lows: Sequence[float | None]
    highs: Sequence[float | None]


def nice_top(series: Sequence[Series]) -> float:
    """The end of the scale: the next twenty above all values and bounds, so that a quarter is round."""
    known = [value for item in series for value in (*item.values, *item.highs) if value is not None]
    return min(100.0, max(20.0, 20.0 * math.ceil(max(known, default=0.0) / 20)))


def legend(series: Sequence[Series]) -> str:
    """Names with their colours."""
    items = "".join(
        f'<li><span class="swatch" style="background:{colour}"></span> {html.escape(item.name)}</li>'
        for item, colour in zip(series, PALETTE, strict=False)
    )
    return f'<ul class="legend">{items}</ul>'


def _point(index: int, count: int, radius: float) -> tuple[float, float]:
    angle = 2 * math.pi * index / count - math.pi / 2
    return _SIZE / 2 + radius * math.cos(angle), _SIZE / 2 + radius * math.sin(angle)


def _polygon(points: Sequence[tuple[float, float]], attributes: str) -> str:
    text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polygon points="{text}" {attributes}/>'


def radar(axes: Sequence[str], series: Sequence[Series]) -> str:
    """A radar chart; a missing score is a gap in the outline, never a zero."""
    count, top = len(axes), nice_top(series)
    parts = []
    for step in range(1, 5):
        ring = [_point(index, count, _RADIUS * step / 4) for index in range(count)]
        parts.append(_polygon(ring, 'fill="none" stroke="currentColor" stroke-opacity=".2"'))
        # The outermost would stand on the first axis's name.
        if step < 4:
            y = _SIZE / 2 - _RADIUS * step / 4 - 3
            parts.append(f'<text x="{_SIZE / 2 + 4}" y="{y:.1f}" opacity=".7">{top * step / 4:g}</text>')
    for index, axis in enumerate(axes):
        x, y = _point(index, count, _RADIUS)
        parts.append(f'<line x1="{_SIZE / 2}" y1="{_SIZE / 2}" x2="{x:.1f}" y2="{y:.1f}" '
                     'stroke="currentColor" stroke-opacity=".2"/>')  # fmt: skip
        x, y = _point(index, count, _RADIUS + 16)
        anchor = "middle" if abs(x - _SIZE / 2) < 20 else "start" if x > _SIZE / 2 else "end"
        parts.append(f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="{anchor}">{html.escape(axis)}</text>')
    for item, colour in zip(series, PALETTE, strict=False):
        known = [None if value is None else _point(index, count, _RADIUS * value / top)
                 for index, value in enumerate(item.values)]  # fmt: skip
        style = f'stroke="{colour}" stroke-width="2"'
        complete = [point for point in known if point is not None]
        if len(complete) == count:
            parts.append(_polygon(complete, f'fill="{colour}" fill-opacity=".1" {style}'))
        else:
            parts += [f'<line x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}" {style}/>'
                      for a, b in zip(known, known[1:] + known[:1], strict=True) if a and b]  # fmt: skip
        parts += [
            f'<circle cx="{point[0]:.1f}" cy="{point[1]:.1f}" r="3" fill="{colour}"/>' for point in complete
        ]
    # The names of the axes need room beside the circle.
    box = f"-60 10 {_SIZE + 120} {_SIZE - 20}"
    return (f'<figure><svg viewBox="{box}" width="{_SIZE + 120}" role="img" aria-label="radar chart by task">'
            f"{''.join(parts)}</svg></figure>")  # fmt: skip


def bars(axes: Sequence[str], series: Sequence[Series]) -> str:
    """Bars by axis with their intervals as whiskers; a missing score is said in words."""
    top, left, width, bar = nice_top(series), 170, 330, 12
    step = bar * len(series) + 12
    height = step * len(axes) + 24
    parts = []
    for tick in range(5):
        x = left + width * tick / 4
        parts.append(
            f'<line x1="{x}" y1="0" x2="{x}" y2="{height - 20}" stroke="currentColor" stroke-opacity=".2"/>'
        )
        parts.append(
            f'<text x="{x}" y="{height - 4}" text-anchor="middle" opacity=".7">{top * tick / 4:g}</text>'
        )
    for index, axis in enumerate(axes):
        y = index * step
        parts.append(
            f'<text x="{left - 8}" y="{y + step / 2:.1f}" text-anchor="end">{html.escape(axis)}</text>'
        )
        for place, (item, colour) in enumerate(zip(series, PALETTE, strict=False)):
            parts.append(_bar(item, index, left, y + 4 + place * bar, width / top, bar, colour))
    return (f'<figure><svg viewBox="0 0 {left + width + 20} {height}" width="{left + width + 20}" role="img" '
            f'aria-label="bar chart by task">{"".join(parts)}</svg></figure>')  # fmt: skip


def _bar(item: Series, index: int, left: float, y: float, scale: float, bar: float, colour: str) -> str:
    value, low, high = item.values[index], item.lows[index], item.highs[index]
    if value is None:
        return f'<text x="{left + 4}" y="{y + bar - 2:.1f}" opacity=".7">no score</text>'
    title = html.escape(f"{item.name}: {value:.2f}")
    parts = [f'<rect x="{left}" y="{y}" width="{value * scale:.1f}" height="{bar - 2}" fill="{colour}">'
             f"<title>{title}</title></rect>"]  # fmt: skip
    if low is not None and high is not None:
        middle = y + bar / 2 - 1
        start, end = left + max(0, low) * scale, left + high * scale
        parts.append(f'<line x1="{start:.1f}" y1="{middle}" x2="{end:.1f}" y2="{middle}" '
                     'stroke="currentColor" stroke-width="1.5"/>')  # fmt: skip
    return "".join(parts)
