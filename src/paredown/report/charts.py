"""Charts as SVG inside a page: curves with error bars on linear or logarithmic axes. Colours follow light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from paredown.markup import Markup, join, tag
from paredown.report.page_parts import clipped

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#9467bd", "#8c564b")
SOFT = "var(--soft)"
INK = "var(--ink)"
Point = tuple[float, float, float]  # x, y and the standard error of y
_LEFT, _RIGHT, _TOP, _BOTTOM = 58.0, 12.0, 10.0, 42.0


@dataclass
class Chart:
    """Curves over one pair of axes; `svg` gives the picture once everything is added."""

    title: str
    x_label: str
    y_label: str
    log_x: bool = False
    log_y: bool = False
    width: float = 520.0
    height: float = 340.0
    y_range: tuple[float, float] | None = None
    _curves: list[_Curve] = field(default_factory=list)
    _lines: list[tuple[float, str]] = field(default_factory=list)
    _bands: list[tuple[list[Point], str]] = field(default_factory=list)

    def curve(
        self,
        name: str,
        points: Sequence[Point],
        color: str,
        *,
        marks: bool = True,
        line: bool = True,
        dashed: bool = False,
    ) -> None:
        """Points with error bars, joined by a line."""
        usable = [point for point in sorted(points) if self._usable(point[0], point[1])]
        if usable:
            self._curves.append(_Curve(name, usable, color, marks, line, dashed))

    def level(self, y: float, name: str) -> None:
        """A horizontal line."""
        if self._usable(1.0, y):
            self._lines.append((y, name))

    def band(self, x: Sequence[float], low: Sequence[float], high: Sequence[float], color: str) -> None:
        """An area between two curves."""
        points = [(a, b, c) for a, b, c in zip(x, low, high, strict=True) if self._usable(a, b) and self._usable(a, c)]
        if points:
            self._bands.append((points, color))

    def _usable(self, x: float, y: float) -> bool:
        positive = (x > 0 or not self.log_x) and (y > 0 or not self.log_y)
        return positive and math.isfinite(x) and math.isfinite(y)

    def svg(self) -> Markup:
        """The chart, with a key below it."""
        x, y = self._scales()
        right, floor = self.width - _RIGHT, self.height - _BOTTOM
        parts: list[Markup] = []
        for value in y.ticks:
            parts.append(tag("line", class_="grid", x1=_LEFT, x2=right, y1=_at(y(value)), y2=_at(y(value))))
            parts.append(tag("text", _number(value), x=_LEFT - 6, y=_at(y(value) + 4), text_anchor="end"))
        for value in x.ticks:
            parts.append(tag("line", class_="axis", x1=_at(x(value)), x2=_at(x(value)), y1=floor, y2=floor + 4))
            parts.append(tag("text", _number(value), x=_at(x(value)), y=floor + 17, text_anchor="middle"))
        parts.append(tag("line", class_="axis", x1=_LEFT, x2=right, y1=floor, y2=floor))
        middle = (_LEFT + right) / 2
        parts.append(tag("text", self.x_label, x=_at(middle), y=self.height - 6, text_anchor="middle"))
        turned = f"rotate(-90 12 {floor / 2:.0f})"
        parts.append(tag("text", self.y_label, x=12, y=_at(floor / 2), text_anchor="middle", transform=turned))
        for points, color in self._bands:
            upper = [f"{_at(x(a))},{_at(y(c))}" for a, _, c in points]
            lower = [f"{_at(x(a))},{_at(y(b))}" for a, b, _ in reversed(points)]
            parts.append(tag("polygon", points=" ".join(upper + lower), style=f"fill:{color};opacity:0.15"))
        for value, name in self._lines:
            place = _at(y(value))
            parts.append(
                tag("line", tag("title", name), x1=_LEFT, x2=right, y1=place, y2=place, style=_stroke(INK, "2 4"))
            )
        parts += [part for curve in self._curves for part in curve.drawn(x, y)]
        names = [(curve.name, curve.color, curve.dashed) for curve in self._curves if curve.name]
        names += [(name, INK, True) for _, name in self._lines]
        key = tag("ul", *(_key(*entry) for entry in names), class_="key")
        picture = tag("svg", *parts, viewBox=f"0 0 {self.width:g} {self.height:g}", role="img", aria_label=self.title)
        return tag("figure", tag("h3", clipped(self.title, 100)), picture, key)

    def _scales(self) -> tuple[_Scale, _Scale]:
        points = [point for curve in self._curves for point in curve.points]
        xs = [point[0] for point in points] or [1.0]
        ys = [y + sign * (error if math.isfinite(error) else 0) for _, y, error in points for sign in (-1, 1)]
        ys = [y for y in ys if y > 0 or not self.log_y] + [value for value, _ in self._lines] or [1.0]
        y_range = self.y_range or (min(ys), max(ys))
        return (
            _Scale.over((min(xs), max(xs)), (_LEFT + 8, self.width - _RIGHT - 8), self.log_x),
            _Scale.over(y_range, (self.height - _BOTTOM - 6, _TOP), self.log_y),
        )


@dataclass(frozen=True)
class _Curve:
    name: str
    points: list[Point]
    color: str
    marks: bool
    line: bool
    dashed: bool

    def drawn(self, x: _Scale, y: _Scale) -> list[Markup]:
        places = [(x(a), y(b)) for a, b, _ in self.points]
        parts: list[Markup] = []
        if self.line and len(places) > 1:
            path = " ".join(f"{_at(a)},{_at(b)}" for a, b in places)
            style = f"{_stroke(self.color, '6 4' if self.dashed else '')};fill:none;stroke-width:2"
            parts.append(tag("polyline", points=path, style=style))
        if not self.marks:
            return parts
        for (a, b, error), (px, py) in zip(self.points, places, strict=True):
            if math.isfinite(error) and error > 0:
                low, high = y(max(b - error, y.low)), y(b + error)
                parts.append(tag("line", x1=_at(px), x2=_at(px), y1=_at(low), y2=_at(high), style=_stroke(self.color)))
            noise = f" ± {_number(error)}" if math.isfinite(error) else ""
            about = tag("title", f"{self.name}: {_number(b)}{noise} at {_number(a)}")
            parts.append(tag("circle", about, cx=_at(px), cy=_at(py), r=4, style=f"fill:{self.color}"))
        return parts


@dataclass(frozen=True)
class _Scale:
    """From values to pixels."""

    low: float
    high: float
    start: float
    end: float
    log: bool

    @classmethod
    def over(cls, values: tuple[float, float], pixels: tuple[float, float], log: bool) -> _Scale:
        low, high = values
        if low == high:
            low, high = (low / 2, high * 2) if log else (low - 0.5, high + 0.5)
        return cls(low, high, *pixels, log)

    def __call__(self, value: float) -> float:
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    @property
    def ticks(self) -> list[float]:
        """Round numbers inside the range: 1, 2, 5, 10, ... on a logarithmic axis."""
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            ratio = self.high / self.low
            steps = (1, 1.5, 2, 3, 4, 5, 6, 8) if ratio < 6 else (1, 2, 5) if ratio < 200 else (1,)
            found = [factor * 10.0**power for power in powers for factor in steps]
        else:
            rough = (self.high - self.low) / 4
            power = 10.0 ** math.floor(math.log10(rough))
            step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough)
            first = math.ceil(self.low / step - 1e-9)
            found = [step * number for number in range(first, first + 8)]
        return [value for value in found if self.low * (1 - 1e-9) <= value <= self.high * (1 + 1e-9)]


def curve_style(number: int) -> dict[str, Any]:
    """Colour and dashes of a curve among many: eight colours, and then the same ones dashed."""
    return {"color": PALETTE[number % len(PALETTE)], "dashed": number // len(PALETTE) % 2 == 1}


def _key(name: str, color: str, dashed: bool) -> Markup:
    fill = f"repeating-linear-gradient(90deg,{color} 0 3px,transparent 3px 5px)" if dashed else color
    return tag("li", join(tag("i", style=f"background:{fill}"), clipped(name, 60)))


def _stroke(color: str, dashes: str = "") -> str:
    return f"stroke:{color};stroke-width:1.5" + (f";stroke-dasharray:{dashes}" if dashes else "")


def _at(pixel: float) -> str:
    return f"{pixel:.1f}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
