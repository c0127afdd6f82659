"""`exact`, `regex` and `json_schema`: what a response is, as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retrain.errors import RewardFailure
from retrain.reward import rules
from retrain.reward.hub.cases import Case, answer_of, shown
from retrain.reward.hub.pool import text_pool

_SEARCH = "retrain.reward.hub.text_worker:search"
_CONFORMS = "retrain.reward.hub.text_worker:conforms"


def exact(case: Case, *, ignore_case: bool = False, ignore_space: bool = False) -> float:
    """1.0 where the answer is the label, or one of a list of labels; else 0.0.

    What follows `</think>` counts, white space around it aside.

    Args:
        case: The response and its label: text, a number, or a list of them.
        ignore_case: Whether upper and lower case are the same.
        ignore_space: Whether any stretch of white space is one space.

    Raises:
        RewardFailure: The label is missing or of a wrong kind.
    """
    labels = case.label if isinstance(case.label, list | tuple) else [case.label]
    if not labels or not all(isinstance(label, str | int | float) for label in labels):
        raise RewardFailure(
            f"exact needs a label that is text or a number, got {shown(case.label)}"
        )
    given, wanted = answer_of(case), [str(label) for label in labels]
    if ignore_space:
        given, wanted = " ".join(given.split()), [" ".join(label.split()) for label in wanted]
    return max(rules.exact_match(given, label, ignore_case) for label in wanted)


def regex(
    case: Case,
    *,
    pattern: str | None = None,
    whole: bool = False,
    ignore_case: bool = False,
    seconds: float = 1.0,
) -> float:
    """1.0 where the answer has a match of a regular expression; else 0.0.

    What follows `</think>` counts; a dot matches a new line too.

    Args:
        case: The response.
        pattern: The expression, as Python's `re` reads it; None for the label.
        whole: Whether it must match all of the answer, white space around it aside.
        ignore_case: Whether upper and lower case are the same.
        seconds: How long matching may take; it runs in a process that is ended then.

    Raises:
        RewardFailure: There is no pattern, it is no regular expression, or matching takes longer.
    """
    expression = case.label if pattern is None else pattern
    if not isinstance(expression, str) or not expression:
        raise RewardFailure(
            f"regex needs `pattern` or a label that is one, got {shown(expression)}"
        )
    args = (expression, answer_of(case), whole, ignore_case)
    return float(text_pool().call(_SEARCH, *args, seconds=seconds))


def json_schema(
    case: Case, *, schema: Mapping[str, Any] | None = None, seconds: float = 2.0
) -> float:
    """1.0 where the answer is JSON that a schema allows; else 0.0.

    What follows `</think>` counts: the whole of it, or else its last fenced block.

    Args:
        case: The response.
        schema: A JSON Schema; None for `schema` in the metadata, or else the label. References to
            other documents are not followed.
        seconds: How long checking may take; it runs in a process that is ended then.

    Raises:
        RewardFailure: There is no schema, it is none, or checking takes longer.
    """
    wanted = next(
        (s for s in (schema, (case.metadata or {}).get("schema"), case.label) if s is not None),
        None,
    )
    if not isinstance(wanted, Mapping | bool):
        raise RewardFailure(f"json_schema needs a schema (an object), got {shown(wanted)}")
    return float(text_pool().call(_CONFORMS, wanted, answer_of(case), seconds=seconds))
