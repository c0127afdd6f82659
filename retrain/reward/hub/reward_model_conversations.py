"""What a reward model reads: the conversation of an episode, or a prompt and its response."""

from __future__ import annotations

from typing import Any, TypeAlias

from retrain.reward.hub.cases import Case, response_of
from retrain.rows import chat_dict
from retrain.types import Message, Trajectory, Turn

Chat: TypeAlias = "list[dict[str, Any]]"
"""Messages as chat templates take them; the last is the assistant's."""


def episode_chat(trajectory: Trajectory) -> Chat:
    """The conversation of an episode, without the model's reasoning.

    Where the environment rewrote the history, it goes on from the new one. An episode that was read
    from a file has no replies of its environment: there it is the prompt and the last turn.
    """
    witness, turns = trajectory.witness, trajectory.turns
    if witness is None:
        return [*map(chat_dict, trajectory.task.messages), chat_dict(_said(turns[-1]))]
    messages = [*witness.prompt]
    begins = _first_turns(trajectory)
    for position, turn in enumerate(turns):
        if position in begins:
            messages = [*witness.replies[position - 1]]
        messages.append(_said(turn))
        if position + 1 < len(turns):
            messages += witness.replies[position]
    return [*map(chat_dict, messages)]


def case_chat(case: Case) -> Chat | None:
    """A prompt and the response to it, without its reasoning; None where there is no prompt.

    Raises:
        RewardFailure: The response is something else than text.
    """
    prompt = case.prompt
    if isinstance(prompt, str):
        prompt = [{"role": "user", "content": prompt}]
    if not isinstance(prompt, list | tuple) or not all(map(_is_message, prompt)):
        return None
    answer = response_of(case).rpartition("</think>")[2].lstrip("\n")
    chat = [chat_dict(one) if isinstance(one, Message) else dict(one) for one in prompt]
    return [*chat, {"role": "assistant", "content": answer}]


def _is_message(one: Any) -> bool:
    return isinstance(one, Message) or (isinstance(one, dict) and {"role", "content"} <= one.keys())


def _said(turn: Turn) -> Message:
    return Message("assistant", turn.action.text, tool_calls=turn.action.tool_calls)


def _first_turns(trajectory: Trajectory) -> set[int]:
    """The turns before which the history was rewritten."""
    begins, position = set(), 0
    for segment in trajectory.segments:
        begins.add(position)
        position += len(segment.turns)
    return begins - {0}
