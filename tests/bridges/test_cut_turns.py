"""A turn that the length limit cuts is no final answer."""

from __future__ import annotations

from typing import Any

import pytest
from echo_environment import PARAMS, SEED

from bridges import DataFormatBridge
from retrain.engine.scripted import ScriptedEngine
from retrain.environment.calculator import CalculatorEnvironment
from retrain.sample import Status
from retrain.types import Action, StopReason, Task, ToolCall

TASK = Task("t", "What is 2 + 2?", label="4")
STOP = "<|im_end|>"
CALL = '<tool_call>\n{"name": "calculator", "arguments": {"expression": "2 + 2"}}\n</tool_call>'


async def play(bridge: Any, encode: Any, limit: int, *turns: str) -> Any:
    engine = ScriptedEngine(list(turns), encode=encode)
    episodes = bridge(CalculatorEnvironment, max_tokens_per_turn=limit)
    return await episodes.run(TASK, engine=engine, params=PARAMS, seed=SEED)


async def test_a_cut_turn_is_not_scored_as_the_answer(
    bridge: Any, encode: Any, renderer: Any
) -> None:
    text = "It is 4, or rather the number that comes after"
    cut = await play(bridge, encode, 4, f"{text}{STOP}")
    assert cut.turns[-1].action.truncated and "4" in cut.turns[-1].action.text
    assert (cut.status, cut.stop_reason) == (Status.TRUNCATED, StopReason.ENVIRONMENT_TRUNCATED)
    assert (cut.turns[-1].reward, cut.turns[-1].info["success"]) == (0.0, False)

    whole = await play(bridge, encode, 100, f"It is 4{STOP}")
    assert not whole.turns[-1].action.truncated
    assert (whole.status, whole.turns[-1].reward) == (Status.COMPLETED, 1.0)

    formats = DataFormatBridge(renderer)
    for episode in (cut, whole):
        assert formats.to_trajectory(formats.to_samples(episode)) == episode


async def test_a_stop_token_that_just_fits_is_not_cut(bridge: Any, encode: Any) -> None:
    text = f"It is 4{STOP}"
    whole = await play(bridge, encode, len(encode(text)), text)
    assert (whole.status, whole.turns[-1].reward) == (Status.COMPLETED, 1.0)


async def test_calls_before_the_cut_are_run(bridge: Any, encode: Any) -> None:
    limit = len(encode(CALL)) + 1
    played = await play(bridge, encode, limit, f"{CALL} and so on{STOP}", f"4{STOP}")
    first, last = played.turns
    assert first.action.truncated and first.action.tool_calls
    assert (played.status, last.reward) == (Status.COMPLETED, 1.0)


async def test_a_call_cut_in_half_is_told_to_the_model(bridge: Any, encode: Any) -> None:
    played = await play(bridge, encode, 12, f"{CALL}{STOP}", f"4{STOP}")
    first, last = played.turns
    assert first.action.truncated and first.action.parse_error is not None
    assert (played.status, last.reward) == (Status.COMPLETED, 1.0)


@pytest.mark.parametrize(
    ("action", "final"),
    [
        (Action("4"), True),
        (Action(""), True),
        (Action("4", truncated=True), False),
        (Action("4", parse_error="no JSON"), False),
        (Action("4", tool_calls=(ToolCall("calculator"),)), False),
    ],
)
def test_only_a_whole_turn_without_a_call_is_final(action: Action, final: bool) -> None:
    assert action.final is final
