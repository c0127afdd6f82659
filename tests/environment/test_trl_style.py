"""Environments written for TRL's `environment_factory`, brought unchanged."""

from __future__ import annotations

import asyncio
import gc
import pickle
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import trl_style_environments as written

from retrain.environment import make_environment_factory
from retrain.environment.argument_types import typed_arguments
from retrain.environment.tool_methods_class import has_tool_methods
from retrain.errors import ConfigError, EnvironmentFailure, ToolFailure
from retrain.types import Action, Message, Task, ToolCall

pytest.importorskip("transformers", reason="describes the tools")

TASK = Task(
    "t", (Message("system", "Be good."), Message("user", "Go.")), 7, {"start": 1, "goal": 5}
)


class Named:
    """A `reset` without `**kwargs`, and a tool that returns what it is told to."""

    returned: Any = None

    async def reset(self, color: str, size: int = 3) -> str:
        self.thread = threading.get_ident()
        return f" {color} {size}"

    def give(self) -> Any:
        """Give something."""
        self.thread = threading.get_ident()
        return self.returned


class Timed:
    """A tool that limits its time by a signal, as scripts do."""

    def reset(self, **kwargs: Any) -> None: ...

    def slow(self) -> str:
        """Take long."""
        signal.signal(signal.SIGALRM, lambda *_: None)
        return "done"


class Made:
    """Remembers the thread that made it."""

    def __init__(self, start: int = 0) -> None:
        self.start, self.threads = start, {threading.get_ident()}

    def reset(self, **kwargs: Any) -> None:
        self.row = kwargs
        self.threads.add(threading.get_ident())

    async def wait(self) -> None:
        """Wait for ever."""
        await asyncio.Event().wait()

    def get_reward(self) -> Any:
        return self.row.get("worth")


class Undocumented:
    def reset(self, **kwargs: Any) -> None: ...

    def press(self, button: str) -> None: ...


class Stepping(written.Library):
    def step(self, action: Action) -> None: ...


class Native:
    def reset(self, task: Task) -> str:
        return ""

    def render(self) -> str:
        return ""


class Pure:
    def reset(self, **kwargs: Any) -> None: ...

    def _hidden(self) -> None: ...


def path(thing: Any) -> str:
    return f"{thing.__module__}:{thing.__qualname__}"


def make(cls: type, **arguments: Any) -> Any:
    return make_environment_factory(path(cls), arguments)()


def calling(name: str, **arguments: Any) -> Action:
    return Action(tool_calls=(ToolCall(name, arguments),))


async def answer(environment: Any, action: Action) -> str:
    (message,) = (await environment.step(action)).observation.messages
    return str(message.content)


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (written.Account, True),
        (written.Library, True),
        (Made, True),
        (Named, True),
        (Stepping, False),
        (Native, False),
        (Pure, False),
    ],
)
def test_a_class_is_known_by_its_methods(cls: type, expected: bool) -> None:
    assert has_tool_methods(cls) is expected


async def test_reset_gets_all_columns_and_its_text_ends_the_last_message() -> None:
    environment = make(written.Account)

    observation = await environment.reset(TASK, 0)

    system, user = observation.messages
    assert system == Message("system", "Be good.")
    assert user == Message("user", "Go. Reach 5; the account holds 1.")
    assert environment.world.row == {
        "prompt": [
            {"role": "system", "content": "Be good."},
            {"role": "user", "content": "Go."},
        ],
        "id": "t",
        "label": 7,
    }


async def test_a_reset_without_open_arguments_gets_those_that_it_names() -> None:
    observation = await make(Named).reset(Task("t", "A", metadata={"color": "red", "x": 1}), 0)

    assert observation.messages == (Message("user", "A red 3"),)


async def test_a_column_that_is_missing_is_named() -> None:
    with pytest.raises(EnvironmentFailure, match="reset needs color; task 't' has the columns"):
        await make(Named).reset(Task("t", "A", metadata={"colour": "red"}), 0)


async def test_the_task_cannot_be_changed_through_its_columns() -> None:
    task = Task("t", "A", metadata={"list": [1]})
    environment = make(Made)
    await environment.reset(task, 0)

    environment.world.row["list"].append(2)

    assert task.metadata == {"list": [1]}


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ("plain", "plain"),
        (None, "None"),
        ({"a": 1}, "{'a': 1}"),
        ([(1, 2)], "[(1, 2)]"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab"),
    ],
)
async def test_what_a_tool_returns_becomes_text(returned: Any, text: str) -> None:
    environment = make(Named)
    await environment.reset(Task("t", "A", metadata={"color": "red"}), 0)
    environment.world.returned = returned

    assert await answer(environment, calling("give")) == text


async def test_an_image_from_a_tool_is_shown(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("RETRAIN_IMAGES", str(tmp_path))
    environment = make(Named)
    await environment.reset(Task("t", "A", metadata={"color": "red"}), 0)
    png = b"\x89PNG\r\n\x1a\n..."
    environment.world.returned = [
        {"type": "image", "image": png},
        {"type": "text", "text": "Look."},
    ]

    (message,) = (await environment.step(calling("give"))).observation.messages
    assert message.content == "Look."
    assert Path(message.images[0].source).read_bytes() == png


async def test_what_is_no_image_fails_the_episode() -> None:
    environment = make(Named)
    await environment.reset(Task("t", "A", metadata={"color": "red"}), 0)
    environment.world.returned = [{"type": "image", "image": b"?"}]

    with pytest.raises(ToolFailure, match=r"tool give: 1 bytes that begin with .* are no PNG"):
        await environment.step(calling("give"))


async def test_a_signal_in_a_tool_is_our_failure_and_not_told_to_the_model() -> None:
    environment = make(Timed)
    await environment.reset(TASK, 0)

    with pytest.raises(ToolFailure, match=r"outside the main thread.*rollout\.step_timeout"):
        await environment.step(calling("slow"))


async def test_an_instance_lives_in_one_thread_and_is_used_again() -> None:
    factory = make_environment_factory(path(Made), {"start": 4})
    instances, threads = set(), set()
    for _ in range(3):
        environment = factory()
        await environment.reset(TASK, 0)
        instances.add(id(environment.world))
        threads |= environment.world.threads
        assert environment.world.start == 4
        del environment
        gc.collect()

    assert (len(instances), len(threads)) == (1, 1)
    assert threads != {threading.get_ident()}


async def test_episodes_at_the_same_time_have_instances_of_their_own() -> None:
    factory = make_environment_factory(path(Made))
    first, second = factory(), factory()
    await asyncio.gather(first.reset(TASK, 0), second.reset(TASK, 0))

    assert first.world is not second.world


async def test_an_instance_whose_call_was_broken_off_is_not_used_again() -> None:
    factory = make_environment_factory(path(Made))
    environment = factory()
    await environment.reset(TASK, 0)
    broken = environment.world
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(environment.step(calling("wait")), 0.01)
    del environment
    gc.collect()

    following = factory()
    await following.reset(TASK, 0)

    assert following.world is not broken


async def test_a_reward_that_is_no_number_fails_the_episode() -> None:
    environment = make(Made)
    await environment.reset(TASK, 0)

    with pytest.raises(EnvironmentFailure, match="final_reward returned None as reward"):
        await environment.final_reward()


async def test_success_is_told_where_the_class_exposes_it() -> None:
    environment = make(written.Account)
    await environment.reset(TASK, 0)
    await environment.step(calling("deposit", amount=4))

    result = await environment.step(Action("Done."))

    assert (result.terminated, dict(result.info)) == (True, {"success": True})
    assert await environment.final_reward() == 1.0


async def test_a_call_that_cannot_be_read_ends_the_episode() -> None:
    environment = make(written.Account)
    await environment.reset(TASK, 0)

    result = await environment.step(Action("?", parse_error="no JSON"))

    assert (result.terminated, result.observation.messages) == (True, ())


def test_a_tool_that_cannot_be_described_is_named_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match=r"environment\.type: Undocumented\.press: .*docstring"):
        make_environment_factory(path(Undocumented))


def test_its_own_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"env_specific_config\.stort: .*did you mean 'start'"):
        make_environment_factory(path(Made), {"stort": 1})


def test_a_factory_can_cross_a_process() -> None:
    factory = make_environment_factory(path(Made), {"start": 1})

    assert pickle.loads(pickle.dumps(factory)) == factory


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "integer"}, "7", 7),
        ({"type": "integer"}, "7.0", 7),
        ({"type": "integer"}, "7.5", "7.5"),
        ({"type": "number"}, "7", 7),
        ({"type": "number"}, "0.5", 0.5),
        ({"type": "number"}, "nan", "nan"),
        ({"type": "boolean"}, "True", True),
        ({"type": "boolean"}, "0", False),
        ({"type": "boolean"}, "yes", "yes"),
        ({"type": "string"}, "7", "7"),
        ({"type": "string", "nullable": True}, "None", None),
        ({"type": ["string", "integer"]}, "7", 7),
        ({"anyOf": [{"type": "array"}, {"type": "object"}]}, '{"a": 1}', {"a": 1}),
        ({"type": "array"}, "{}", "{}"),
        ({}, "7", "7"),
    ],
)
def test_arguments_are_typed_as_transformers_types_them(
    schema: dict[str, Any], text: str, value: Any
) -> None:
    tool = {"type": "function", "function": {"parameters": {"properties": {"x": schema}}}}

    assert typed_arguments(tool, {"x": text, "other": "1"}) == {"x": value, "other": "1"}
    theirs = pytest.importorskip(
        "transformers.utils.chat_parsing.response_parser",
        reason="the parser to compare with came with transformers 5.15",
    )
    assert theirs._coerce(text, theirs._schema_types(schema)) == value
