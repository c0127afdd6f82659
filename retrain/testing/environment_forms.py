"""Tests about what an environment says: its types, its tools, its answers to odd actions."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Sequence
from typing import Any

import pytest

from retrain.compose import compose_with
from retrain.engine.base import SamplingParams
from retrain.environment.base import ToolSchema
from retrain.environment.registry import EnvironmentFactory
from retrain.environment.synchronous import adapt
from retrain.sample import Status
from retrain.seeds import EpisodeSeed
from retrain.testing.canned.cases import BROKEN_CALL, Said
from retrain.testing.canned.engine import CannedEngine, generation_of
from retrain.testing.canned.playing import MAX_RESPONSE_LEN, MAX_TURNS, canned_config
from retrain.testing.environment_hooks import SCRIPT_NAMES, EnvironmentHooks, PlayScript, finish
from retrain.testing.environment_playing import Episode, MakeEnvironment, is_tool, play
from retrain.testing.tokenizer import kit_renderer, kit_tokenizer
from retrain.testing.wording import fail, raised, require
from retrain.types import Action, FinishReason


class FormTests(EnvironmentHooks):
    """One episode: what is said in it, and whether it can be played at all."""

    @pytest.mark.parametrize("script", SCRIPT_NAMES)
    def test_every_answer_can_be_read(
        self, fresh_environment: MakeEnvironment, script: str
    ) -> None:
        """`reset` and `step` return what the episode loop reads, and nothing raises."""
        finish(
            script,
            play(fresh_environment(), script, self.answer, copy.deepcopy(self.task), self.seed),
        )

    def test_the_first_prompt_asks_something(self, played: PlayScript) -> None:
        """The prompt ends with a message that the model is to answer."""
        last = played("answer").prompt[-1]
        require(
            last.role in ("user", "tool", "system"),
            "the first prompt ends with a message of the model's own",
            expected="a user, tool or system message",
            came=last,
        )

    def test_tools_are_schemas(self, played: PlayScript) -> None:
        """Every tool is a JSON schema as chat templates take it, under a name of its own."""
        tools = played("answer").tools
        for tool in tools:
            _check_tool(tool)
        names = [tool["function"]["name"] for tool in tools]
        require(
            len(set(names)) == len(names),
            "two tools have one name",
            expected="one each",
            came=names,
        )

    @pytest.mark.parametrize("script", SCRIPT_NAMES)
    def test_tool_messages_answer_calls(self, played: PlayScript, script: str) -> None:
        """Tool messages are as many as the calls of the turn, or none; others reply as users."""
        episode = played(script)
        for action, reply in zip(episode.actions, episode.replies, strict=True):
            answers = sum(message.role == "tool" for message in reply.messages)
            require(
                reply.rewrite or answers in (0, len(action.tool_calls)),
                f"a turn with {len(action.tool_calls)} tool calls has {answers} tool messages",
                expected="one for each call, or user messages only",
                came=reply.messages,
            )

    def test_a_parse_error_is_answered_by_a_user_message(self, played: PlayScript) -> None:
        """Templates raise on, or drop, a tool message without a call that could be read."""
        reply = played("parse_error").replies[0]
        roles = [message.role for message in reply.messages]
        require(
            reply.terminated or reply.truncated or (bool(roles) and set(roles) == {"user"}),
            "a call that could not be read is not answered by a user message",
            expected="user messages, or the end of the episode",
            came=reply.messages,
        )

    def test_rewriting_is_announced(
        self, fresh_environment: MakeEnvironment, played: PlayScript
    ) -> None:
        """A history is rewritten only where `rewrites_history` says so: some backends refuse it."""
        announced = adapt(fresh_environment()).rewrites_history
        for script in SCRIPT_NAMES:
            for reply in played(script).replies:
                require(
                    announced or not reply.rewrite,
                    f"the script {script!r} was answered by a rewritten history",
                    expected="rewrites_history = True on the environment",
                    came="rewrites_history is False",
                )

    @pytest.mark.parametrize("script", SCRIPT_NAMES)
    def test_an_episode_plays_through(
        self, fresh_environment: MakeEnvironment, script: str
    ) -> None:
        """The real episode loop renders every reply and ends without a failure."""
        actions = finish(script, self._actions(fresh_environment(), script))
        seed = EpisodeSeed(0, "train", self.task.id, 0, 0)
        bridges = compose_with(
            canned_config(),
            kit_renderer(),
            make_environment=EnvironmentFactory(fresh_environment, {}),
        )
        trajectory = asyncio.run(
            bridges.environment.run(
                copy.deepcopy(self.task),
                engine=_engine(actions, seed),
                params=SamplingParams(MAX_RESPONSE_LEN),
                seed=seed,
            )
        )
        if trajectory.status is Status.FAILED and trajectory.error is not None:
            fail(
                f"the episode {script!r} fails in the episode loop",
                expected="an episode that ends",
                came=f"{trajectory.error.boundary}: {trajectory.error.reason}",
            )

    @pytest.mark.parametrize("after", ["nothing", "reset", "step"])
    def test_it_can_be_closed_at_any_time(
        self, fresh_environment: MakeEnvironment, after: str
    ) -> None:
        """An episode may be given up before its prompt, and in its middle."""

        async def give_up() -> None:
            episode = Episode(fresh_environment(), "tool_call", self.answer)
            if after != "nothing":
                await episode.reset(copy.deepcopy(self.task), self.seed)
            if after == "step":
                await episode.step()
            await episode.environment.close()

        finish(f"closed after {after}", give_up())

    async def _actions(self, environment: Any, script: str) -> tuple[Action, ...]:
        """The script's actions, which hang on the environment's tools."""
        episode = Episode(environment, script, self.answer)
        try:
            await episode.reset(copy.deepcopy(self.task), self.seed)
        finally:
            await episode.environment.close()
        return episode.left


def _engine(actions: Sequence[Action], seed: EpisodeSeed) -> CannedEngine:
    """Writes the actions as turns, the last one as often as it is asked for."""
    turns = [*map(_said, actions), *[_said(actions[-1])] * MAX_TURNS]
    encode = kit_tokenizer().encode
    answers = {
        seed.turn(number): generation_of(said, kit_renderer(), encode, number)
        for number, said in enumerate(turns)
    }
    return CannedEngine(answers)


def _said(action: Action) -> Said:
    if action.parse_error is not None:
        return Said(BROKEN_CALL)
    finish = FinishReason.LENGTH if action.truncated else FinishReason.STOP
    return Said(action.text, action.tool_calls, finish)


def _check_tool(tool: ToolSchema) -> None:
    __tracebackhide__ = True
    form = '{"type": "function", "function": {"name": …, "parameters": {"type": "object", …}}}'
    try:
        text = json.dumps(tool)
    except (TypeError, ValueError) as error:
        raised("a tool is no JSON", error, expected=form)
    require(
        is_tool(tool), "a tool has another form than chat templates take", expected=form, came=text
    )
