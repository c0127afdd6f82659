"""The names of the metrics, the same on every backend.

Evaluation rows hold the names of the `reward/`, `response/` and `rollout/` groups and `success`,
with `eval/` in front.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table of names.

    Attributes:
        name: The name; a part in capitals stands for any name.
        meaning: What it says.
        unit: Its unit; "1" for a plain number.
    """

    name: str
    meaning: str
    unit: str


METRICS: tuple[Metric, ...] = (
    Metric("reward/mean", "mean combined reward of the valid episodes", "1"),
    Metric(
        "reward/std",
        "sample standard deviation of the reward within a group, mean over groups of two or more",
        "1",
    ),
    Metric("reward/COMPONENT", "mean raw reward of one component, where it is known", "1"),
    Metric(
        "reward/trained/mean", "mean reward that is trained on, where it is not the raw one", "1"
    ),
    Metric("reward/trained/COMPONENT", "mean of one component after its normalisation", "1"),
    Metric(
        "reward/failed/COMPONENT/REASON",
        "episodes on which a component failed, by timeout, exception, value or count",
        "episodes",
    ),
    Metric("reward/retried/COMPONENT", "calls of a component that were made again", "calls"),
    Metric(
        "reward/COMPONENT/COUNT",
        "what a component that asks a server counted, such as requests, retries and failures/KIND",
        "1",
    ),
    Metric("success", "share of finished episodes that succeeded (info['success'])", "share"),
    Metric("agent/AGENT/reward", "reward/mean of one agent of several", "1"),
    Metric("agent/AGENT/success", "success of one agent of several", "share"),
    Metric("agent/AGENT/turns", "model turns of one agent, mean per episode", "turns"),
    Metric("response/tokens", "tokens that the policy sampled, mean per episode", "tokens"),
    Metric("response/length", "the whole response, replies included, mean per episode", "tokens"),
    Metric("response/turns", "model turns, mean per episode", "turns"),
    Metric(
        "response/segments",
        "token streams, mean per episode: more than 1 where history was rewritten",
        "streams",
    ),
    Metric("rollout/seconds", "wall time of the rollout", "s"),
    Metric("rollout/KIND_seconds", "time one episode waited for KIND, mean per episode", "s"),
    Metric("rollout/tokens", "tokens sampled, all episodes together", "tokens"),
    Metric("rollout/tokens_per_second", "rollout/tokens over rollout/seconds", "tokens/s"),
    Metric("rollout/episodes", "episodes, failed ones included", "episodes"),
    Metric("rollout/groups", "groups: one visit to one task each", "groups"),
    Metric("rollout/failed", "episodes that failed", "episodes"),
    Metric("rollout/failed/BOUNDARY", "episodes that failed at one boundary", "episodes"),
    Metric("rollout/aborted", "episodes that were aborted", "episodes"),
    Metric("rollout/truncated", "episodes that a limit cut short", "episodes"),
    Metric("rollout/masked", "finished episodes that nothing is trained on", "episodes"),
    Metric(
        "rollout/zero_variance_groups",
        "groups whose valid rewards, as trained on, are all equal, so that they teach nothing",
        "groups",
    ),
    Metric("rollout/dropped", "groups that the filter dropped", "groups"),
    Metric("rollout/dropped/REASON", "groups that the filter dropped for one reason", "groups"),
    Metric(
        "rollout/fallback",
        "groups of the batch that the filter refused, where too few were left",
        "groups",
    ),
    Metric(
        "rollout/carried",
        "groups left half played, or finished and not needed yet, for the next iteration",
        "groups",
    ),
    Metric("rollout/unfinished", "groups given up half played, as none may go on", "groups"),
    Metric("rollout/restarted", "groups begun again: too stale, or thrown away by slime", "groups"),
    Metric(
        "rollout/continued", "episodes that went on from where a restart stopped them", "episodes"
    ),
    Metric("rollout/replaced", "visits that failed and gave way to another task", "groups"),
    Metric("rollout/stale_tokens", "sampled tokens that older weights wrote", "tokens"),
    Metric(
        "rollout/staleness",
        "weight updates since those that wrote the oldest token of a batch collected ahead",
        "updates",
    ),
    Metric(
        "rollout/cached_tokens", "prompt tokens that the engine did not compute again", "tokens"
    ),
    Metric("train/loss", "loss, mean over the iteration's optimizer steps", "1"),
    Metric("train/grad_norm", "gradient norm before clipping, mean over optimizer steps", "1"),
    Metric("train/kl", "KL divergence from the reference policy, where it is in the loss", "nats"),
    Metric("train/entropy", "entropy of the policy on trained tokens", "nats"),
    Metric("train/clip_fraction", "share of trained tokens whose ratio was clipped", "share"),
    Metric(
        "train/logprob_abs_diff",
        "mean |trainer's - engine's logprob| over trained tokens, before the first update",
        "nats",
    ),
    Metric(
        "train/logprob_abs_diff_current",
        "the same over the tokens that the present weights wrote, where older ones wrote others",
        "nats",
    ),
    Metric("train/learning_rate", "learning rate of the last optimizer step", "1"),
    Metric("train/seconds", "wall time of the optimizer steps", "s"),
    Metric("eval/success", "success on held-out tasks", "share"),
    Metric("eval/pass@K", "chance that one of K samples solves a held-out task", "share"),
    Metric("eval/reward/mean", "reward/mean on held-out tasks", "1"),
)
"""Every canonical name, with its meaning and unit."""


def metric_named(name: str) -> Metric | None:
    """The row that documents a metric; None where none does.

    Args:
        name: A name as it stands in metrics.jsonl, such as "eval/rollout/failed/tool".
    """
    found = next((row for row in METRICS if row.name == name), None)
    found = found or next((row for row in METRICS if _pattern(row.name).fullmatch(name)), None)
    evaluated = name.removeprefix("eval/")
    return found or (metric_named(evaluated) if evaluated != name else None)


def meaning_of(name: str) -> str | None:
    """What a metric says, with its unit; None where it is not documented."""
    row = metric_named(name)
    if row is None:
        return None
    return row.meaning if row.unit == "1" else f"{row.meaning} ({row.unit})"


@cache
def _pattern(name: str) -> re.Pattern[str]:
    """A name whose parts in capitals stand for any name; a COUNT may have a kind of its own."""
    words = re.split(r"([A-Z]{2,}|(?<=@)K)", name)
    anything = {"COUNT": "[^/]+(?:/[^/]+)?", "K": "[0-9]+"}
    return re.compile(
        "".join(
            anything.get(word, "[^/]+") if place % 2 else re.escape(word)
            for place, word in enumerate(words)
        )
    )
