"""What a batch says of each agent, in an environment of several."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from retrain.report.attempts import FINISHED, success_of
from retrain.types import Trajectory


def agent_metrics(episodes: Sequence[Trajectory]) -> dict[str, float]:
    """Reward, success and turns of each agent; a mean over nothing is left out.

    Args:
        episodes: All episodes of the batch; those without an agent say nothing.

    Returns:
        Means by `agent/AGENT/reward`, `agent/AGENT/success` and `agent/AGENT/turns`.
    """
    agents = sorted({episode.agent for episode in episodes if episode.agent is not None})
    return {
        f"agent/{agent}/{name}": fmean(values)
        for agent in agents
        for name, values in _values([e for e in episodes if e.agent == agent]).items()
        if values
    }


def _values(episodes: Sequence[Trajectory]) -> dict[str, list[float]]:
    rewards = [e.reward for e in episodes if e.valid]
    finished = [success_of(e) for e in episodes if e.status in FINISHED]
    return {
        "reward": [reward for reward in rewards if reward is not None],
        "success": [success for success in finished if success is not None],
        "turns": [len(e.turns) for e in episodes if e.turns],
    }
