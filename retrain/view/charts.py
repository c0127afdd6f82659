"""The curves of a run: which metrics are drawn together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from retrain.report.metrics import MetricRow
from retrain.report.series import Series


@dataclass(frozen=True, slots=True)
class Chart:
    """One drawing.

    Attributes:
        title: What it shows.
        unit: The unit of its axis.
        lines: Its series by name.
    """

    title: str
    unit: str
    lines: dict[str, Series]


@dataclass(frozen=True, slots=True)
class _Rule:
    """Which metrics a drawing takes: by name, and all below a prefix that are not in `without`.

    Of those below the prefix, only the ones that end in `suffix`.
    """

    title: str
    unit: str
    names: tuple[str, ...] = ()
    prefix: str = ""
    suffix: str = ""
    without: tuple[str, ...] = ()

    def takes(self, name: str) -> bool:
        if name in self.names:
            return True
        below = name.removeprefix(self.prefix)
        if not self.prefix or below == name or not below.endswith(self.suffix):
            return False
        return not any(below == part or below.startswith(part + "/") for part in self.without)


_NO_COMPONENTS = ("mean", "std", "trained", "failed", "retried")
_RULES = (
    _Rule("Reward", "1", ("reward/mean", "eval/reward/mean")),
    _Rule("Success", "share", ("success", "eval/success")),
    _Rule("Reward by component", "1", prefix="reward/", without=_NO_COMPONENTS),
    _Rule("Reward by agent", "1", prefix="agent/", suffix="/reward"),
    _Rule("Success by agent", "share", prefix="agent/", suffix="/success"),
    _Rule("Spread of rewards within a group", "1", ("reward/std",)),
    _Rule("Groups that teach nothing", "groups", ("rollout/zero_variance_groups",)),
    _Rule(
        "Tokens of an episode",
        "tokens",
        ("response/tokens", "response/length"),
    ),
    _Rule("Turns of an episode", "turns", ("response/turns",)),
    _Rule("Entropy", "nats", ("train/entropy",)),
    _Rule(
        "Trainer and engine: |difference of logprobs|",
        "nats",
        ("train/logprob_abs_diff", "train/logprob_abs_diff_current"),
    ),
    _Rule("Divergence from the reference", "nats", ("train/kl",)),
    _Rule("Loss", "1", ("train/loss",)),
    _Rule("Gradient norm", "1", ("train/grad_norm",)),
    _Rule("Tokens per second", "tokens/s", ("rollout/tokens_per_second",)),
    _Rule("Seconds of an iteration", "s", ("rollout/seconds", "train/seconds")),
    _Rule("Staleness", "updates", ("rollout/staleness",)),
    _Rule("Groups dropped, by reason", "groups", prefix="rollout/dropped/"),
    _Rule("Failures, by boundary", "episodes", prefix="rollout/failed/"),
    _Rule("Episodes cut short or lost", "episodes", ("rollout/truncated", "rollout/aborted")),
    _Rule("Failed reward components", "episodes", prefix="reward/failed/"),
)


def charts(rows: Sequence[MetricRow]) -> list[Chart]:
    """The drawings of a run; one without a value is left out."""
    found_names = {name for row in rows for name in row.values}
    names = sorted(found_names, key=lambda name: (name.startswith("eval/"), name))
    found = []
    for rule in _RULES:
        lines = {name: Series.of(rows, name) for name in names if rule.takes(name)}
        if lines := {name: series for name, series in lines.items() if series}:
            found.append(Chart(rule.title, rule.unit, lines))
    return found
