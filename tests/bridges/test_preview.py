from __future__ import annotations

from typing import Any, Literal

import pytest

from bridges import EnvironmentBridge, EpisodeLimits
from bridges.preview import preview_episode
from retrain.environment import Environment, ToolEnvironment, tool
from retrain.errors import EnvironmentFailure, RenderingFailure
from retrain.rendering import DeltaRenderer
from retrain.sample import Status
from retrain.types import Action, Message, Observation, StepResult, StopReason, Task

LIMITS = EpisodeLimits(max_response_len=200)


class Booking(ToolEnvironment):
    booked: tuple[object, ...] = ()

    @tool
    async def book(
        self,
        city: str,
        nights: int,
        price: float,
        kind: Literal["single", "double"],
        tags: list[str],
    ) -> str:
        """Book a room."""
        Booking.booked = (city, nights, price, kind, tags)
        return "booked"


class Talk(Environment):
    async def reset(self, task: Task, seed: int) -> Observation:
        return Observation(task.messages)

    async def step(self, action: Action) -> StepResult:
        return StepResult(Observation((Message("user", f"{action.text}?"),)))


class TurnsRefused(DeltaRenderer):
    def turn(self, *arguments: Any, **options: Any) -> list[int]:
        raise RenderingFailure("no such turn")


async def test_a_tool_is_called_with_arguments_of_the_right_types(renderer: DeltaRenderer) -> None:
    episode = await preview_episode(Task("a", "A room.", "yes"), renderer, Booking, LIMITS)
    assert Booking.booked == ("1", 1, 1.0, "single", [])
    call, answer = episode.turns
    assert call.action.tool_calls[0].name == "book"
    assert "booked" in renderer.decode(call.env_ids)
    assert answer.action.text == "yes"
    assert (episode.status, episode.stop_reason) == (Status.COMPLETED, StopReason.TERMINATED)


async def test_an_endless_environment_is_left_after_two_turns(renderer: DeltaRenderer) -> None:
    episode = await preview_episode(Task("a", "Hello."), renderer, Talk, LIMITS)
    assert [turn.action.text for turn in episode.turns] == ["An answer."] * 2
    assert episode.stop_reason is StopReason.MAX_TURNS


async def test_a_template_that_writes_no_such_turn_gets_an_empty_one(tokenizer: Any) -> None:
    renderer = TurnsRefused(tokenizer)
    episode = await preview_episode(Task("a", "Hello."), renderer, Talk, LIMITS)
    assert episode.error is None
    assert all(set(turn.output_ids) <= renderer.stop_token_ids for turn in episode.turns)


async def test_the_tools_of_a_fresh_environment_are_read(renderer: DeltaRenderer) -> None:
    (schema,) = await EnvironmentBridge(renderer, Booking, LIMITS).tools()
    assert schema["function"]["name"] == "book"


async def test_an_environment_that_cannot_be_made_has_no_tools(renderer: DeltaRenderer) -> None:
    def fail() -> Environment:
        raise KeyError("no world")

    with pytest.raises(EnvironmentFailure, match="environment constructor: KeyError: 'no world'"):
        await EnvironmentBridge(renderer, fail, LIMITS).tools()
