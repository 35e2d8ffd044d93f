"""Charts of a published table: a panel for each column, our numbers beside the published ones."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gridtune.report.labels import number_text
from gridtune.report.reproduction.numbers import Estimate
from gridtune.report.reproduction.results import TableNumbers

__all__ = ["table_charts"]

#: Sizes in pixels: the whole, the labels at the left, a row, the axis below.
_WIDTH, _LABELS, _ROW, _AXIS, _MARGIN = 460, 190, 20, 26, 14
#: Characters of a label that there is room for.
_LETTERS = 29
_TICKS = 4
#: Ratio of the greatest to the least value from which the axis is logarithmic.
_LOGARITHMIC = 50.0


@dataclass(frozen=True)
class _Scale:
    low: float
    high: float
    logarithmic: bool

    def __call__(self, value: float) -> float:
        low, high, at = (math.log(v) if self.logarithmic else v for v in (self.low, self.high, value))
        return _LABELS + _MARGIN + (at - low) / (high - low) * (_WIDTH - _LABELS - 2 * _MARGIN)

    def clipped(self, value: float) -> float:
        return self(min(max(value, self.low), self.high))


def table_charts(table: TableNumbers) -> Iterator[str]:
    """Yield a figure for each column that has published numbers beside ours."""
    for place, column in enumerate(table.columns):
        rows = [(label, *cells[place]) for label, cells in table.rows]
        rows = [row for row in rows if row[1] is not None or row[2] is not None]
        if any(ours is not None for _, _, ours in rows) and any(published for _, published, _ in rows):
            yield _panel(column, rows)


def _panel(column: str, rows: Sequence[tuple[str, float | None, Estimate | None]]) -> str:
    scale = _scale(rows)
    height = len(rows) * _ROW + _AXIS
    parts = [
        f"<figure><figcaption>{html.escape(column)}</figcaption>"
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{html.escape(column)}">'
    ]
    for number, row in enumerate(rows):
        parts += _row(row, number, scale)
    parts += _axis(scale, len(rows) * _ROW)
    return "\n".join([*parts, "</svg></figure>"])


def _row(row: tuple[str, float | None, Estimate | None], number: int, scale: _Scale) -> Iterator[str]:
    label, published, ours = row
    middle = number * _ROW + _ROW / 2
    if number % 2 == 0:
        yield f'<rect class="stripe" x="0" y="{number * _ROW}" width="{_WIDTH}" height="{_ROW}"/>'
    short = label if len(label) <= _LETTERS else label[: _LETTERS - 1] + "…"
    yield f'<text x="4" y="{middle + 4:g}">{html.escape(short)}<title>{html.escape(label)}</title></text>'
    if ours is not None:
        if math.isfinite(ours.low) and math.isfinite(ours.high):
            ends = scale.clipped(ours.low), scale.clipped(ours.high)
            yield (
                f'<line class="ours-span" x1="{ends[0]:.1f}" x2="{ends[1]:.1f}" '
                f'y1="{middle:g}" y2="{middle:g}"/>'
            )
        title = f"<title>ours: {number_text(ours.value)}</title>"
        yield f'<circle class="ours" cx="{scale(ours.value):.1f}" cy="{middle:g}" r="4">{title}</circle>'
    if published is not None:
        at, title = scale(published), f"published: {number_text(published)}"
        points = (
            f"{at:.1f},{middle - 6:g} {at + 6:.1f},{middle:g} {at:.1f},{middle + 6:g} {at - 6:.1f},{middle:g}"
        )
        yield f'<polygon class="paper" points="{points}" fill-opacity="0"><title>{title}</title></polygon>'


def _axis(scale: _Scale, top: float) -> Iterator[str]:
    left, right = scale(scale.low), scale(scale.high)
    yield f'<line class="axis" x1="{left:g}" x2="{right:g}" y1="{top:g}" y2="{top:g}"/>'
    for value in _ticks(scale):
        at = scale(value)
        yield f'<line class="axis" x1="{at:.1f}" x2="{at:.1f}" y1="{top:g}" y2="{top + 4:g}"/>'
        yield (
            f'<text class="soft" x="{at:.1f}" y="{top + 17:g}" text-anchor="middle">'
            f"{_tick_text(value)}</text>"
        )


def _tick_text(value: float) -> str:
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.6g}"
    return text.replace("-", "−")


def _scale(rows: Sequence[tuple[str, float | None, Estimate | None]]) -> _Scale:
    values = [published for _, published, _ in rows if published is not None]
    values += [end for _, _, ours in rows if ours is not None for end in (ours.value, ours.low, ours.high)]
    values = [value for value in values if math.isfinite(value)]
    low, high = min(values), max(values)
    if low > 0 and high / low >= _LOGARITHMIC:
        return _Scale(low / 1.15, high * 1.15, True)
    room = (high - low or abs(high) or 1.0) * 0.06
    return _Scale(low - room, high + room, False)


def _ticks(scale: _Scale) -> list[float]:
    """Return round values within the scale: powers of ten, or steps of 1, 2 or 5 of one."""
    if scale.logarithmic:
        powers = range(math.ceil(math.log10(scale.low)), math.floor(math.log10(scale.high)) + 1)
        return [10.0**power for power in powers]
    rough = (scale.high - scale.low) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first, last = math.ceil(scale.low / step), math.floor(scale.high / step)
    return [round(number * step, 12) for number in range(first, last + 1)]
