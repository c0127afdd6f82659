"""Reward functions over one turn, under the same names as those over an episode.

Each takes the turn, its trajectory and keyword parameters from
`reward_setup.step_reward_configs.NAME`; an episode's step reward is the sum over its turns.
"""

from __future__ import annotations

from collections.abc import Sequence

from retrain.reward import rules
from retrain.types import Trajectory, Turn


def exact_match(turn: Turn, trajectory: Trajectory, *, ignore_case: bool = False) -> float:
    """1.0 for a turn whose text is the label, white space around both aside; else 0.0.

    Args:
        turn: The turn.
        trajectory: Its episode.
        ignore_case: Whether upper and lower case are the same.
    """
    return rules.exact_match(turn.action.text, trajectory.task.label, ignore_case)


def substring_match(
    turn: Turn,
    trajectory: Trajectory,
    *,
    substring: str | None = None,
    ignore_case: bool = False,
) -> float:
    """1.0 for a turn whose text contains the label; else 0.0.

    Args:
        turn: The turn.
        trajectory: Its episode.
        substring: What to look for instead of the label.
        ignore_case: Whether upper and lower case are the same.
    """
    expected = trajectory.task.label if substring is None else substring
    return rules.substring_match(turn.action.text, expected, ignore_case)


def numeric_match(turn: Turn, trajectory: Trajectory, *, tolerance: float = 1e-6) -> float:
    """1.0 for a turn whose text's last number is the label's last number; else 0.0.

    Args:
        turn: The turn.
        trajectory: Its episode.
        tolerance: Relative difference allowed; two whole numbers must be equal.
    """
    return rules.numeric_match(turn.action.text, trajectory.task.label, tolerance)


def format_compliance(
    turn: Turn, trajectory: Trajectory, *, pattern: str | None = None, tags: Sequence[str] = ()
) -> float:
    """1.0 for a turn whose text has the form asked for; else 0.0.

    Args:
        turn: The turn.
        trajectory: Its episode.
        pattern: A regular expression that must be found; a dot matches a new line too.
        tags: Names; each must stand exactly once as `<name>…</name>`, in this order.
    """
    return rules.format_compliance(turn.action.text, pattern, tags)


def tool_use(
    turn: Turn,
    trajectory: Trajectory,
    *,
    tools: Sequence[str] | None = None,
    at_least: int = 1,
    at_most: int | None = None,
) -> float:
    """1.0 for a turn with as many tool calls as asked for; else 0.0.

    Args:
        turn: The turn.
        trajectory: Its episode.
        tools: Which tools count; None counts all.
        at_least: Fewest calls.
        at_most: Most calls; None for no limit.
    """
    return rules.tool_use(turn.action.tool_calls, tools, at_least, at_most)
