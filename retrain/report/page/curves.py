"""Which metrics a report draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from retrain.report.metric_names import meaning_of
from retrain.report.page.chart import LINES, Line, chart
from retrain.report.page.markup import Html, element, short
from retrain.report.record import RunRecord
from retrain.report.series import Series

_WIDE, _TALL, _NARROW, _LOW = 1000.0, 290.0, 350.0, 165.0
_PREFIX = "reward/"
_NOT_COMPONENTS = ("mean", "std")


@dataclass(frozen=True, slots=True)
class Drawn:
    """One chart.

    Attributes:
        metric: The metric.
        title: Its heading.
        log: Draw the logarithm.
        share: Its values are shares, between 0 and 1.
        dots: It has few values.
    """

    metric: str
    title: str
    log: bool = False
    share: bool = False
    dots: bool = False


HEADLINE = (
    Drawn("reward/mean", "reward"),
    Drawn("success", "success", share=True),
    Drawn("eval/success", "held-out success", share=True, dots=True),
    Drawn("eval/reward/mean", "held-out reward", dots=True),
)
"""What says whether a run learns; without any of it, the loss does."""

_TWINS = {"success": "reward/mean", "eval/reward/mean": "eval/success"}
"""What is left out where it has the values of the other."""

OTHERS = (
    Drawn("reward/std", "spread of reward within a group"),
    Drawn("rollout/zero_variance_groups", "groups that teach nothing"),
    Drawn("response/tokens", "sampled tokens per episode"),
    Drawn("response/turns", "turns per episode"),
    Drawn("train/logprob_abs_diff", "|train - rollout logprob|, nats", log=True),
    Drawn("train/loss", "loss"),
    Drawn("train/entropy", "entropy, nats"),
    Drawn("train/kl", "KL from the reference, nats"),
    Drawn("train/clip_fraction", "share of clipped tokens"),
    Drawn("train/grad_norm", "gradient norm"),
    Drawn("train/learning_rate", "learning rate"),
    Drawn("rollout/staleness", "staleness, weight updates"),
    Drawn("rollout/dropped", "groups dropped by the filter"),
    Drawn("rollout/failed", "episodes that failed"),
    Drawn("rollout/truncated", "episodes cut short"),
    Drawn("rollout/tokens_per_second", "tokens per second"),
)


def curves(records: Sequence[RunRecord], names: Sequence[str]) -> Html:
    """The charts of one run, or of several with a line for each.

    Args:
        records: The runs.
        names: What each is called.
    """
    if len(records) == 1:
        first = _headline(records[0])
        rest = [*_components(records[0]), *(_compared(drawn, records, [""]) for drawn in OTHERS)]
    else:
        wanted = [drawn for drawn in HEADLINE if not _repeats(drawn, records)]
        headline = [_compared(drawn, records, names) for drawn in wanted]
        first = _compared(wanted[0], records, names, large=True) or next(
            filter(None, headline), Html("")
        )
        rest = [*headline[1:], *(_compared(drawn, records, names) for drawn in OTHERS)]
    found = [figure for figure in rest if figure]
    if not (first or found):
        return element("p", "No metrics are recorded yet.", class_="quiet")
    return element("div", first, element("div", *found, class_="charts"))


def _repeats(drawn: Drawn, records: Sequence[RunRecord]) -> bool:
    """Whether success says in every run what the reward says."""
    twin = _TWINS.get(drawn.metric)
    return twin is not None and all(
        Series.of(record.rows, drawn.metric) == Series.of(record.rows, twin) for record in records
    )


def _headline(record: RunRecord) -> Html:
    """Reward and success together, or the loss alone."""
    wanted = [drawn for drawn in HEADLINE if not _repeats(drawn, [record])]
    known = {
        drawn.title: (series, drawn.dots)
        for drawn in wanted
        if (series := Series.of(record.rows, drawn.metric))
    }
    bounds = (0.0, 1.0) if known and _are_shares(one for one, _ in known.values()) else None
    known = known or {"loss": (Series.of(record.rows, "train/loss"), False)}
    lines = [
        Line(name, series, colour, dots)
        for colour, (name, (series, dots)) in enumerate(known.items(), start=1)
    ]
    title = _title(", ".join(known), "")
    return chart(lines, title, " and ".join(known), width=_WIDE, height=_TALL, bounds=bounds)


def _are_shares(series: Iterable[Series]) -> bool:
    values = [value for one in series for value in one.values]
    return min(values) >= 0 and max(values) <= 1


def _components(record: RunRecord) -> list[Html]:
    """The raw reward by component, where there are several."""
    names = sorted({name for row in record.rows for name in row.values if _is_component(name)})[
        :LINES
    ]
    lines = [
        Line(short(name.removeprefix(_PREFIX), 60), Series.of(record.rows, name), colour)
        for colour, name in enumerate(names, start=1)
    ]
    if len(lines) < 2:
        return []
    title = _title("reward by component", "reward/COMPONENT")
    return [chart(lines, title, "reward by component", width=_NARROW, height=_LOW)]


def _is_component(name: str) -> bool:
    rest = name.removeprefix(_PREFIX)
    return name.startswith(_PREFIX) and "/" not in rest and rest not in _NOT_COMPONENTS


def _compared(
    drawn: Drawn, records: Sequence[RunRecord], names: Sequence[str], *, large: bool = False
) -> Html:
    """One metric of every run; nothing where it is 0 throughout."""
    lines = [
        Line(name or drawn.title, Series.of(record.rows, drawn.metric), at % LINES + 1, drawn.dots)
        for at, (name, record) in enumerate(zip(names, records, strict=True))
    ]
    if not any(value for line in lines for value in line.series.values):
        return Html("")
    return chart(
        lines,
        _title(drawn.title, drawn.metric),
        drawn.title,
        width=_WIDE if large else _NARROW,
        height=_TALL if large else _LOW,
        log=drawn.log,
        bounds=(0.0, 1.0) if drawn.share else None,
    )


def _title(title: str, metric: str) -> Html:
    said = meaning_of(metric) if metric else None
    name = element("small", metric, class_="quiet mono") if metric else None
    return element("span", title, name, title=said)
