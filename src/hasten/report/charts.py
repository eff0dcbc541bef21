"""Small drawings as inline SVG. Places are in per cent of the width, so that text keeps its size on
any screen; colours are classes, which the page's style sheet gives a light and a dark value."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from hasten.records.curves import Curves, SeedCurve
from hasten.report.blocks import Tone
from hasten.report.text import number, printable

ROW, LABEL, BAR = 52, 23, 16
"""Pixels of a bar with its label above, of the label, and of the bar."""
LONGEST_LABEL = 28
"""Characters that have room beside a figure on a phone; the tables have the whole."""
CURVE_WIDTH, CURVE_HEIGHT = 1000, 240
FAR = 10.0
"""Times its lowest, the highest loss is far above it."""


@dataclass(frozen=True)
class Span:
    """A bar from ``start`` to ``end``, with an interval around its end where there is one."""

    label: str
    figure: str
    start: float
    end: float
    interval: tuple[float, float] | None = None
    tone: Tone = "plain"


def spans(bars: Sequence[Span], title: str, *, mark: float) -> Markup:
    """Bars on one scale from 0, and a line at ``mark``."""
    most = max([mark, *(each.end for each in bars), *(_reach(each) for each in bars)]) * 1.02
    drawn: list[Markup] = []
    for row, bar in enumerate(bars):
        top = ROW * row
        drawn += [_label(bar.label, bar.figure, top), _span(bar, top, most)]
        drawn.append(_upright("mark", mark / most, top + LABEL - 4, top + LABEL + BAR + 4))
        if bar.interval is not None:
            low, high = bar.interval
            drawn.append(_whisker(low / most, high / most, top))
    return _svg(drawn, ROW * len(bars), title)


def stacked(
    bars: Mapping[str, Mapping[str, float]], figures: Mapping[str, str], title: str
) -> Markup:
    """Bars of parts with the same names, on one scale, each with its figure; a legend below."""
    most = max((sum(parts.values()) for parts in bars.values()), default=0) or 1.0
    drawn: list[Markup] = []
    for row, (label, parts) in enumerate(bars.items()):
        drawn.append(_label(label, figures[label], ROW * row))
        before = 0.0
        for at, value in enumerate(parts.values()):
            drawn.append(_rect(f"part{at}", before / most, value / most, ROW * row))
            before += value
    names = next(iter(bars.values()), {})
    legend = _legend({f"part{at}": name for at, name in enumerate(names)})
    return _svg(drawn, ROW * len(bars), title) + legend


def curves(shown: Curves, title: str) -> Markup:
    """Both sides over the seeds, and the band between the lowest and the highest naive seed."""
    naive, plan = shown.naive, shown.plan
    every = [loss for curve in (*naive, *plan) for loss in curve.losses]
    if not every:
        return Markup("")
    low, high = min(every), max(every)
    points = max(len(curve.losses) for curve in (*naive, *plan))
    place = _Place(low, high, points)
    lines = [_line("naive", each, place) for each in naive]
    lines += [_line("plan", each, place) for each in plan]
    frame = Markup(
        '<svg viewBox="0 0 {} {}" preserveAspectRatio="none" width="100%" height="{}">{}</svg>'
    ).format(CURVE_WIDTH, CURVE_HEIGHT, CURVE_HEIGHT, _join([_band(naive, place), *lines]))
    foot = CURVE_HEIGHT + 18
    words = [
        _text(f"loss {number(high)}{', by powers of ten' if place.is_log() else ''}", 12, "0"),
        _text(f"loss {number(low)}", CURVE_HEIGHT - 4, "0"),
        _text("step 1", foot, "0"),
        _text(f"step {shown.steps:,}", foot, "100%", "end"),
    ]
    hues = {"naive": "naive, a line for each seed"}
    if len(naive) > 1:
        hues["band"] = "between them"
    if plan:
        hues["plan"] = "by the plan, dashed"
    return _svg([frame, *words], foot + 6, title) + _legend(hues)


@dataclass(frozen=True)
class _Place:
    """From a point of a curve to a place in the drawing."""

    low: float
    high: float
    points: int

    def is_log(self) -> bool:
        """One that falls far is a line on the ground else."""
        return 0 < FAR * self.low < self.high

    def __call__(self, at: int, loss: float) -> str:
        x = CURVE_WIDTH * at / max(self.points - 1, 1)
        low, high = self.low, self.high
        if self.is_log():
            low, high, loss = math.log(low), math.log(high), math.log(loss)
        share = (loss - low) / (high - low) if high > low else 0.5
        return f"{x:.0f},{20 + (CURVE_HEIGHT - 40) * (1 - share):.1f}"


def _line(hue: str, curve: SeedCurve, place: _Place) -> Markup:
    points = " ".join(place(at, loss) for at, loss in enumerate(curve.losses))
    return Markup('<polyline class="curve {}" points="{}"/>').format(hue, points)


def _band(naive: Sequence[SeedCurve], place: _Place) -> Markup:
    """As far as all seeds go: one that diverged ends early."""
    columns = list(zip(*(each.losses for each in naive), strict=False))
    upper = [place(at, max(column)) for at, column in enumerate(columns)]
    lower = [place(at, min(column)) for at, column in enumerate(columns)]
    points = " ".join([*upper, *reversed(lower)])
    return Markup('<polygon class="band" points="{}"/>').format(points)


def _legend(hues: Mapping[str, str]) -> Markup:
    entry = Markup('<li><span class="swatch {}"></span>{}</li>')
    entries = _join(entry.format(hue, printable(name)) for hue, name in hues.items())
    return Markup('<ul class="legend">{}</ul>').format(entries)


def _svg(parts: Iterable[Markup], height: int, title: str) -> Markup:
    return Markup('<svg role="img" width="100%" height="{}"><title>{}</title>{}</svg>').format(
        height, printable(title), _join(parts)
    )


def _span(bar: Span, top: int, most: float) -> Markup:
    low, high = sorted((bar.start / most, bar.end / most))
    return _rect(bar.tone, low, high - low, top)


def _reach(bar: Span) -> float:
    return bar.interval[1] if bar.interval else bar.end


def _rect(hue: str, start: float, width: float, top: int) -> Markup:
    return Markup('<rect class="{}" x="{}" width="{}" y="{}" height="{}"/>').format(
        hue, _percent(start), _percent(width), top + LABEL, BAR
    )


def _whisker(low: float, high: float, top: int) -> Markup:
    middle = top + LABEL + BAR // 2
    ends = [_upright("whisker", each, middle - 5, middle + 5) for each in (low, high)]
    return _join([_rule("whisker", (low, high), (middle, middle)), *ends])


def _upright(hue: str, at: float, top: int, bottom: int) -> Markup:
    return _rule(hue, (at, at), (top, bottom))


def _rule(hue: str, across: tuple[float, float], down: tuple[int, int]) -> Markup:
    """With a halo, so that it is seen on a bar of any colour."""
    line = Markup('<line class="{}" x1="{}" x2="{}" y1="{}" y2="{}"/>')
    ends = (*map(_percent, across), *down)
    return _join(line.format(each, *ends) for each in ("halo", hue))


def _label(label: str, figure: str, top: int) -> Markup:
    words = printable(label)
    if len(words) > LONGEST_LABEL:
        words = words[: LONGEST_LABEL - 1] + "…"
    return _text(words, top + 15, "0") + _text(figure, top + 15, "100%", "end")


def _text(words: str, y: int, x: str, anchor: str = "start") -> Markup:
    return Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>').format(
        x, y, anchor, printable(words)
    )


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"


def _join(parts: Iterable[Markup]) -> Markup:
    return Markup("").join(parts)
