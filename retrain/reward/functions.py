"""Reward functions over a whole episode; the final action's text is the response.

Each takes the trajectory and keyword parameters from `reward_setup.rollout_reward_configs.NAME`.
A missing or unusable label is an error, never a reward of 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from retrain.reward import rules
from retrain.types import Trajectory


def exact_match(trajectory: Trajectory, *, ignore_case: bool = False) -> float:
    """1.0 where the response is the label, white space around both aside; else 0.0.

    Args:
        trajectory: The episode.
        ignore_case: Whether upper and lower case are the same.
    """
    return rules.exact_match(trajectory.response_text, trajectory.task.label, ignore_case)


def substring_match(
    trajectory: Trajectory, *, substring: str | None = None, ignore_case: bool = False
) -> float:
    """1.0 where the response contains the label; else 0.0.

    Args:
        trajectory: The episode.
        substring: What to look for instead of the label.
        ignore_case: Whether upper and lower case are the same.
    """
    expected = trajectory.task.label if substring is None else substring
    return rules.substring_match(trajectory.response_text, expected, ignore_case)


def numeric_match(trajectory: Trajectory, *, tolerance: float = 1e-6) -> float:
    """1.0 where the response's last number is the label's last number; else 0.0.

    Args:
        trajectory: The episode.
        tolerance: Relative difference allowed; two whole numbers must be equal.
    """
    return rules.numeric_match(trajectory.response_text, trajectory.task.label, tolerance)


def format_compliance(
    trajectory: Trajectory, *, pattern: str | None = None, tags: Sequence[str] = ()
) -> float:
    """1.0 where the response has the form asked for; else 0.0.

    Args:
        trajectory: The episode.
        pattern: A regular expression that must be found; a dot matches a new line too.
        tags: Names; each must stand exactly once as `<name>…</name>`, in this order.
    """
    return rules.format_compliance(trajectory.response_text, pattern, tags)


def tool_use(
    trajectory: Trajectory,
    *,
    tools: Sequence[str] | None = None,
    at_least: int = 1,
    at_most: int | None = None,
) -> float:
    """1.0 where the episode's tool calls are as many as asked for; else 0.0.

    Args:
        trajectory: The episode.
        tools: Which tools count; None counts all.
        at_least: Fewest calls.
        at_most: Most calls; None for no limit.
    """
    calls = [call for turn in trajectory.turns for call in turn.action.tool_calls]
    return rules.tool_use(calls, tools, at_least, at_most)
