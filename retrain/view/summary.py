"""`EpisodeSummary`: what a list shows of an episode, and what is found by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from retrain.sample import Status
from retrain.view.fields import Fields, column, mapping, number, numbers, objects, text, whole
from retrain.view.lines import BrokenLine, Place
from retrain.view.mask_check import mask_faults

NOTES = "retrain"
"""Where a sample's metadata keeps what the conversion knew of the episode."""

_PREVIEW = 100
_LONGEST_NAME = 300
_LONGEST_ERROR = 2000


class Flag(StrEnum):
    """What makes an episode worth a look."""

    FAILED = "failed"
    ABORTED = "aborted"
    TRUNCATED = "truncated"
    MASKED = "masked"
    ZERO_VARIANCE = "zero-variance"
    PARSE_ERROR = "parse-error"
    MASK_FAULT = "mask-fault"


_BY_STATUS = {
    Status.FAILED: Flag.FAILED,
    Status.ABORTED: Flag.ABORTED,
    Status.TRUNCATED: Flag.TRUNCATED,
}


@dataclass(frozen=True, slots=True)
class EpisodeSummary:
    """One episode in a list.

    Attributes:
        id: FILE.LINE: "12.3" is the episode whose first row is line 3 of samples/12.jsonl.
        split: "train", or the evaluation's name.
        iteration: The iteration; 0 is before training.
        group: The group's number in the run; None where it is not known.
        slot: Which sample of its group, from 0.
        agent: Whose episode of a match it is; None where the environment has one agent.
        task_id: The task's id, or the beginning of the prompt where it has none; at most 300
            characters.
        status: How it ended, in slime's words.
        stop_reason: Why it ended.
        reward: The combined raw reward; None where it is not known.
        trained_reward: What the advantage was computed from.
        rewards: Raw reward by component.
        advantage: The advantage of its trained tokens.
        success: What the environment said about success.
        turns: Model turns, all segments together.
        tokens: Tokens, prompts included, all segments together.
        trained: Tokens with mask 1.
        seconds: Seconds from its beginning to the end of its last wait; 0 where nothing is known.
        error: The failure's boundary and reason; at most 2000 characters.
        preview: The beginning of the model's last words.
        flags: What makes it worth a look.
        mask_faults: What is wrong with its masks.
        places: Where its rows stand, one per segment.
    """

    id: str
    split: str
    iteration: int
    group: int | None
    slot: int
    agent: str | None
    task_id: str
    status: str
    stop_reason: str | None
    reward: float | None
    trained_reward: float | None
    rewards: Mapping[str, float]
    advantage: float
    success: float | None
    turns: int
    tokens: int
    trained: int
    seconds: float
    error: str | None
    preview: str
    flags: frozenset[Flag]
    mask_faults: tuple[str, ...]
    places: tuple[Place, ...]

    @property
    def valid(self) -> bool:
        """Whether it counts in its group's statistics."""
        lost = {Flag.FAILED, Flag.ABORTED, Flag.MASKED} & self.flags
        return not lost and self.trained_reward is not None


def summarise(id: str, split: str, iteration: int, place: Place, row: Fields) -> EpisodeSummary:
    """Summarise the first row of an episode.

    Args:
        id: What the episode is called.
        split: Which split the file is of.
        iteration: Which iteration the file is of.
        place: Where the row stands.
        row: The row.

    Raises:
        BrokenLine: It is no sample.
    """
    tokens, mask = column(row, "tokens"), column(row, "loss_mask")
    status = text(row, "status")
    if status is None:
        raise BrokenLine("'status' is missing; was it written by another version of retrain?")
    notes = mapping(mapping(row, "metadata"), NOTES)
    turns = objects(notes, "turns")
    faults = mask_faults(row, turns)
    reward = number(row, "reward")
    trained_reward = number(row, "reward_trained")
    return EpisodeSummary(
        id=id,
        split=split,
        iteration=iteration,
        group=whole(row, "group_index"),
        slot=whole(mapping(row, "seed"), "sample_index") or 0,
        agent=agent[:_LONGEST_NAME] if (agent := _agent(notes)) else None,
        task_id=(text(row, "task_id") or _prompt_text(row)[:_PREVIEW])[:_LONGEST_NAME],
        status=status,
        stop_reason=text(row, "stop_reason"),
        reward=reward,
        trained_reward=reward if trained_reward is None else trained_reward,
        rewards=numbers(row, "rewards"),
        advantage=number(row, "advantage") or 0.0,
        success=_success(turns),
        turns=len(turns),
        tokens=len(tokens),
        trained=mask.count(1),
        seconds=_seconds(notes),
        error=error[:_LONGEST_ERROR] if (error := text(row, "error")) else None,
        preview=_preview(row, turns),
        flags=_flags(status, row, turns, faults),
        mask_faults=faults,
        places=(place,),
    )


def _flags(
    status: str, row: Fields, turns: list[Fields], faults: tuple[str, ...]
) -> frozenset[Flag]:
    found = {
        Flag.MASKED: row.get("remove_sample") is True and status not in ("failed", "aborted"),
        Flag.PARSE_ERROR: any(mapping(turn, "action").get("parse_error") for turn in turns),
        Flag.MASK_FAULT: bool(faults),
    }
    by_status = {flag for name, flag in _BY_STATUS.items() if name == status}
    return frozenset(by_status | {flag for flag, is_so in found.items() if is_so})


def _success(turns: list[Fields]) -> float | None:
    if not turns:
        return None
    said = mapping(turns[-1], "info").get("success")
    return float(said) if isinstance(said, bool) else number(mapping(turns[-1], "info"), "success")


def _agent(notes: Fields) -> str | None:
    return text(mapping(notes, "trajectory"), "agent")


def _seconds(notes: Fields) -> float:
    timings = objects(mapping(notes, "trajectory"), "timings")
    ends = [(number(t, "start") or 0.0) + (number(t, "seconds") or 0.0) for t in timings]
    return max(ends, default=0.0)


def _preview(row: Fields, turns: list[Fields]) -> str:
    answer = text(mapping(turns[-1], "action"), "text") if turns else None
    said = [text(turn, "text") for turn in objects(row, "turns") if turn.get("from") == "model"]
    last = answer or (said[-1] if said else None) or text(row, "response") or ""
    return " ".join(last[: 8 * _PREVIEW].split())[:_PREVIEW]


def _prompt_text(row: Fields) -> str:
    prompt = row.get("prompt")
    if isinstance(prompt, str):
        return prompt
    messages = objects(row, "prompt")
    return text(messages[-1], "content") or "" if messages else ""
