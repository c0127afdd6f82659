"""The metrics that follow from a batch of groups, the same on every backend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean, stdev

from retrain.report.agent_metrics import agent_metrics
from retrain.report.attempts import FINISHED, stands_in, success_of
from retrain.report.evaluation import pass_metrics
from retrain.report.scoring_metrics import component_metric, scoring_metrics
from retrain.reward.advantages import by_agent
from retrain.sample import Status
from retrain.types import Group, Trajectory

EVALUATION = "eval/"
"""In front of the names of an evaluation, which have pass@k too."""


def batch_metrics(
    groups: Sequence[Group], *, seconds: float | None = None, prefix: str = ""
) -> dict[str, float]:
    """Compute what a batch of episodes says about itself.

    A mean over nothing is left out. Failed, aborted and masked episodes are counted, and leave the
    reward's mean and standard deviation, as they leave the advantages.

    Args:
        groups: The batch.
        seconds: Wall time of the rollout, where the caller measured it.
        prefix: Put in front of every name: "eval/" for an evaluation, which has pass@k too.

    Returns:
        Numbers by canonical name (`retrain.report.metric_names.METRICS`).
    """
    episodes = [trajectory for group in groups for trajectory in group.trajectories]
    metrics = {
        **_rewards(groups, episodes),
        **scoring_metrics(episodes),
        **_success(episodes),
        **agent_metrics(episodes),
        **(pass_metrics(groups) if prefix == EVALUATION else {}),
        **_responses(episodes),
        **_counts(groups, episodes),
        **_waits(episodes),
        **_speed(episodes, seconds),
    }
    return {prefix + name: value for name, value in metrics.items()}


def sampled_tokens(trajectory: Trajectory) -> int:
    """How many tokens the policy sampled in an episode."""
    return sum(len(turn.output_ids) for turn in trajectory.turns)


def _rewards(groups: Sequence[Group], episodes: Sequence[Trajectory]) -> dict[str, float]:
    valid = [episode for episode in episodes if episode.valid]
    by_group = [_valid_rewards(group) for group in groups]
    compared = [[t.reward or 0.0 for t in same] for group in groups for same in _compared(group)]
    spreads = [stdev(rewards) for rewards in compared if len(rewards) > 1]
    components = sorted({name for episode in valid for name in episode.rewards})
    return {
        **_mean("reward/mean", (reward for rewards in by_group for reward in rewards)),
        **_mean("reward/std", spreads),
        **{
            key: value
            for name in components
            for key, value in _mean(
                component_metric(name), (e.rewards[name] for e in valid if name in e.rewards)
            ).items()
        },
    }


def _valid_rewards(group: Group) -> list[float]:
    return [t.reward for t in group.trajectories if t.valid and t.reward is not None]


def _success(episodes: Sequence[Trajectory]) -> dict[str, float]:
    """Share of finished episodes that succeeded.

    An episode that a limit cut short never reached the turn that reports success. Where the
    environment reports success at all, it counts as not successful; leaving it out would raise the
    share just when episodes stop finishing. Those of `policy` players are out.
    """
    finished = [e for e in episodes if e.status in FINISHED and not stands_in(e)]
    reported = [(episode.status, success_of(episode)) for episode in finished]
    if all(success is None for _, success in reported):
        return {}
    known = (
        success or 0.0
        for status, success in reported
        if success is not None or status is Status.TRUNCATED
    )
    return _mean("success", known)


def _responses(episodes: Sequence[Trajectory]) -> dict[str, float]:
    begun = [episode for episode in episodes if episode.turns]
    return {
        **_mean("response/tokens", (sampled_tokens(episode) for episode in begun)),
        **_mean("response/length", (_response_length(episode) for episode in begun)),
        **_mean("response/turns", (len(episode.turns) for episode in begun)),
        **_mean("response/segments", (len(episode.segments) for episode in begun)),
    }


def _response_length(trajectory: Trajectory) -> int:
    return sum(len(turn.output_ids) + len(turn.env_ids) for turn in trajectory.turns)


def _counts(groups: Sequence[Group], episodes: Sequence[Trajectory]) -> dict[str, float]:
    statuses = Counter(episode.status for episode in episodes)
    failed = [episode for episode in episodes if episode.status is Status.FAILED]
    boundaries = Counter(str(e.error.boundary) if e.error else "unknown" for e in failed)
    masked = sum(episode.status in FINISHED and not episode.valid for episode in episodes)
    return {
        "rollout/episodes": len(episodes),
        "rollout/groups": len(groups),
        "rollout/failed": len(failed),
        **{f"rollout/failed/{name}": count for name, count in sorted(boundaries.items())},
        "rollout/aborted": statuses[Status.ABORTED],
        "rollout/truncated": statuses[Status.TRUNCATED],
        "rollout/masked": masked,
        "rollout/zero_variance_groups": sum(_teaches_nothing(group) for group in groups),
        "rollout/cached_tokens": sum(turn.cached_tokens for e in episodes for turn in e.turns),
    }


def _teaches_nothing(group: Group) -> bool:
    compared = [[t.trained_reward or 0.0 for t in same] for same in _compared(group)]
    known = [rewards for rewards in compared if len(rewards) > 1]
    same = all(min(rewards) == max(rewards) for rewards in known)
    return bool(known) and same and not any(group.advantages)


def _compared(group: Group) -> list[list[Trajectory]]:
    """The valid episodes of a group, those of each agent together."""
    valid = [trajectory for trajectory in group.trajectories if trajectory.valid]
    parts = by_agent([trajectory.agent for trajectory in valid])
    return [[valid[slot] for slot in slots] for slots in parts]


def _waits(episodes: Sequence[Trajectory]) -> dict[str, float]:
    kinds = sorted({timing.kind for episode in episodes for timing in episode.timings})
    return {
        f"rollout/{kind}_seconds": fmean(episode.seconds(kind) for episode in episodes)
        for kind in kinds
    }


def _speed(episodes: Sequence[Trajectory], seconds: float | None) -> dict[str, float]:
    tokens = sum(sampled_tokens(episode) for episode in episodes)
    if not seconds:
        return {"rollout/tokens": tokens}
    return {
        "rollout/tokens": tokens,
        "rollout/seconds": seconds,
        "rollout/tokens_per_second": tokens / seconds,
    }


def _mean(name: str, values: Iterable[float]) -> dict[str, float]:
    known = list(values)
    return {name: fmean(known)} if known else {}
