"""What a batch says of each agent, in an environment of several."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from retrain.report.attempts import FINISHED, reports_success, success_of
from retrain.sample import Status
from retrain.types import Trajectory


def agent_metrics(episodes: Sequence[Trajectory]) -> dict[str, float]:
    """Reward, success and turns of each agent; a mean over nothing is left out.

    Args:
        episodes: All episodes of the batch; those without an agent say nothing.

    Returns:
        Means by `agent/AGENT/reward`, `agent/AGENT/success` and `agent/AGENT/turns`.
    """
    agents = sorted({episode.agent for episode in episodes if episode.agent is not None})
    reported = reports_success(episodes)
    return {
        f"agent/{agent}/{name}": fmean(values)
        for agent in agents
        for name, values in _values([e for e in episodes if e.agent == agent], reported).items()
        if values
    }


def _values(episodes: Sequence[Trajectory], reported: bool) -> dict[str, list[float]]:
    rewards = [e.reward for e in episodes if e.valid]
    finished = [_success(e, reported) for e in episodes if e.status in FINISHED]
    return {
        "reward": [reward for reward in rewards if reward is not None],
        "success": [success for success in finished if success is not None],
        "turns": [len(e.turns) for e in episodes if e.turns],
    }


def _success(episode: Trajectory, reported: bool) -> float | None:
    """As the batch's `success` has it: one that was cut before the report is not successful."""
    cut = reported and episode.status is Status.TRUNCATED
    found = success_of(episode)
    return 0.0 if found is None and cut else found
