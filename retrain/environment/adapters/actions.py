"""What the model wrote as an action of a Gymnasium action space."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_NUMBER = re.compile(r"(?<![\w.-])-?\d+(?!\w|\.\d)")


class TextActions:
    """Spaces of text, and environments that say nothing of a space: the text itself."""

    expected = "text"

    def read(self, text: str) -> Any:
        """The action."""
        return text


class NumberedActions:
    """A `Discrete` space: the last number, or the last name of an action, that the text holds.

    Args:
        start: The first action.
        count: How many there are.
        names: Their names, in order; none where the model writes numbers.

    Raises:
        ValueError: There are more names than actions, or fewer.
    """

    def __init__(self, start: int, count: int, names: Sequence[str] = ()) -> None:
        if names and len(names) != count:
            raise ValueError(f"{len(names)} names for {count} actions")
        self._range = range(start, start + count)
        self._numbers = {name.casefold(): start + n for n, name in enumerate(names)}
        self._pattern = _any_of(names) if names else _NUMBER
        numbers = f"a number from {start} to {start + count - 1}"
        self.expected = f"one of {', '.join(names)}" if names else numbers

    def read(self, text: str) -> int | None:
        """The action; None where the text holds none."""
        found = self._pattern.findall(text)
        if not found:
            return None
        if self._numbers:
            return self._numbers[found[-1].casefold()]
        number = int(found[-1])
        return number if number in self._range else None


def _any_of(names: Sequence[str]) -> re.Pattern[str]:
    """Finds whole names, the longest where one is the beginning of another."""
    alternatives = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)", re.IGNORECASE)


def actions_of(space: Any, names: Sequence[str]) -> TextActions | NumberedActions:
    """How actions of a space are written.

    Args:
        space: `env.action_space`; None where the environment has none.
        names: Names of the actions of a `Discrete` space.

    Raises:
        ValueError: The space is neither `Discrete` nor text, or the names do not fit it.
    """
    kind = type(space).__name__
    if kind == "Discrete":
        return NumberedActions(int(space.start), int(space.n), names)
    if names:
        raise ValueError(f"names of actions need a Discrete action space, not {kind}")
    if space is None or kind == "Text":
        return TextActions()
    raise ValueError(f"the action space {space} is neither Text nor Discrete")
