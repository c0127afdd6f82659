"""Whether a final answer is the task's label, for tool environments without their own score."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from retrain.errors import ConfigError, nearest
from retrain.reward.answers import last_number, number_of, same_number
from retrain.types import Task


def _number(answer: str, label: Any) -> bool:
    given, wanted = last_number(answer), number_of(label)
    return given is not None and wanted is not None and same_number(given, wanted)


def _exact(answer: str, label: Any) -> bool:
    return answer.strip() == str(label).strip()


def _contains(answer: str, label: Any) -> bool:
    return str(label).strip().casefold() in answer.casefold()


_CHECKS: Mapping[str, Callable[[str, Any], bool]] = {
    "number": _number,
    "exact": _exact,
    "contains": _contains,
}


class AnswerCheck:
    """Compares answers with labels.

    Args:
        name: "number" (the answer's last number is the label), "exact" (the answer is the label,
            white space around it aside) or "contains" (the label stands in the answer, in upper or
            lower case).

    Raises:
        ConfigError: There is no such check.
    """

    def __init__(self, name: str) -> None:
        if name not in _CHECKS:
            raise ConfigError(
                f"environment.env_specific_config.check_answer: there is no {name!r}; "
                f"{nearest(name, _CHECKS)}"
            )
        self._name = name
        self._holds = _CHECKS[name]

    def labels_of(self, task: Task) -> tuple[Any, ...]:
        """The labels of a task, any of which is right.

        Raises:
            ValueError: It has none, or one that is no number where numbers are compared.
        """
        label = task.label
        labels = tuple(label) if isinstance(label, list | tuple) else (label,)
        if not labels or any(one is None or str(one).strip() == "" for one in labels):
            raise ValueError(f"task {task.id!r}: check_answer needs a label, got {label!r}")
        if self._name == "number" and any(number_of(one) is None for one in labels):
            raise ValueError(f"task {task.id!r}: the label must be a number, got {label!r}")
        return labels

    def right(self, answer: str, task: Task) -> bool:
        """Whether an answer is one of the task's labels."""
        return any(self._holds(answer, label) for label in self.labels_of(task))
