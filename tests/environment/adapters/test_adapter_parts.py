"""What the adapters share: prompts, observations as text, actions of a space, retold histories."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from retrain.environment import ENVIRONMENTS
from retrain.environment.adapters.actions import actions_of
from retrain.environment.adapters.chat import as_chat, raw_text
from retrain.environment.adapters.openenv_actions import ServerActions, actions_for
from retrain.environment.adapters.retold import Retold
from retrain.environment.adapters.text import first_prompt, observation_text, small_seed
from retrain.environment.messages import as_message
from retrain.errors import EnvironmentFailure
from retrain.types import Action, Message, Task, ToolCall

ADAPTERS = {"function", "gem", "gymnasium", "openenv", "reasoning_gym", "skyrl_gym"}
ADAPTERS |= {"textarena", "verifiers"}
LIBRARIES = ADAPTERS - {"function"} | {"aiohttp", "numpy", "torch"}
CALL = ToolCall("look", {"at": [1, "é"]}, "id-1")


class Discrete(SimpleNamespace):
    """As Gymnasium's."""


def test_naming_an_adapter_imports_no_library() -> None:
    program = (
        "import sys; from retrain.environment import ENVIRONMENTS\n"
        f"for name in {sorted(ADAPTERS)}: ENVIRONMENTS.get(name)\n"
        f"print(*({LIBRARIES!r} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("", "")
    assert set(ENVIRONMENTS.names()) >= ADAPTERS


@pytest.mark.parametrize(
    ("value", "entry", "text"),
    [
        ("as it is\n", None, "as it is\n"),
        (7, None, "7"),
        ({"text": "a"}, None, "a"),
        ({"text": "a", "legal": ["é", 1]}, None, 'text: a\nlegal: ["é", 1]'),
        ({"text": "a", "legal": [1]}, "legal", "[1]"),
        ({"text": "a", "done": False}, None, "a"),
        ({}, None, ""),
    ],
)
def test_an_observation_as_text(value: Any, entry: str | None, text: str) -> None:
    assert observation_text(value, entry, without=("done",)) == text


@pytest.mark.parametrize("value", [None, "text", {"b": 1}])
def test_an_observation_without_the_entry_fails(value: Any) -> None:
    with pytest.raises(EnvironmentFailure, match="observation"):
        observation_text(value, "a")


@pytest.mark.parametrize(
    ("prompt", "system", "expected"),
    [
        ("", None, [("user", "x")]),
        ("", "S", [("system", "S"), ("user", "x")]),
        ("Play.", None, [("user", "Play.\n\nx")]),
        ((Message("system", "T"),), "S", [("system", "T"), ("user", "x")]),
        (
            (Message("user", "a"), Message("assistant", "b")),
            None,
            [("user", "a"), ("assistant", "b"), ("user", "x")],
        ),
    ],
)
def test_the_task_s_prompt_comes_first(prompt: Any, system: str | None, expected: Any) -> None:
    said = first_prompt(Task("t", prompt), "x", system).messages

    assert [(message.role, message.content) for message in said] == expected


def test_seeds_are_small_and_keep_apart() -> None:
    seeds = {small_seed(2**62 + number) for number in range(100)}

    assert len(seeds) == 100
    assert max(seeds) < 2**31


@pytest.mark.parametrize(
    ("names", "text", "action"),
    [
        ([], "2", 2),
        ([], "from 1 I go to 3.", 3),
        ([], "1 or -1", None),
        ([], "4", None),
        ([], "3.5 or v2", None),
        (["up", "up-left", "down"], "UP-LEFT!", 2),
        (["up", "up-left", "down"], "down, no: up", 1),
        (["up", "up-left", "down"], "upper", None),
    ],
)
def test_a_discrete_action_in_a_text(names: list[str], text: str, action: int | None) -> None:
    assert actions_of(Discrete(start=1, n=3), names).read(text) == action


def test_messages_survive_as_chat() -> None:
    messages = (
        Message("user", "hi"),
        Message("assistant", "", "hm", (CALL,)),
        Message("tool", "seen", tool_call_id="id-1", name="look"),
    )
    assert tuple(map(as_message, as_chat(messages))) == messages
    assert raw_text(Action("so", "hm")) == "<think>\nhm\n</think>\n\nso"


async def test_actions_of_a_server_are_found_in_its_schema() -> None:
    text = {"message": {"type": "string"}, "note": {"type": "string"}, "metadata": {}}
    one = await actions_for({"properties": text, "required": ["message"]}, None, None)  # type: ignore[arg-type]
    two = await actions_for({"properties": text, "required": []}, None, None)  # type: ignore[arg-type]
    named = await actions_for({"properties": text}, "note", None)  # type: ignore[arg-type]

    assert one == ServerActions(field="message")
    assert named == ServerActions(field="note")
    assert list(two.tools[0]["function"]["parameters"]["properties"]) == ["message", "note"]
    assert two.read(Action(parse_error="odd")) == "Error: the tool call could not be read: odd"
    assert two.read(Action(tool_calls=(CALL,))) == [(CALL, {"at": [1, "é"]})]


def retold(*turns: tuple[list[dict[str, Any]], Action]) -> tuple[Retold, list[dict[str, Any]]]:
    """A conversation so far, as a loop keeps it."""
    compare, said = Retold(), []
    for messages, action in turns:
        said += messages
        compare.observe(said)
        said = [*said, compare.answer(action)]
    return compare, said


def test_what_is_added_is_the_reply() -> None:
    user = {"role": "user", "content": [{"type": "text", "text": "a"}]}
    compare, said = retold(([user], Action("b", "hm")))
    said[-1].pop("reasoning_content")
    observation = compare.observe([*said, {"role": "user", "content": "c"}])

    assert (observation.messages, observation.rewrite) == ((Message("user", "c"),), False)


def test_a_call_keeps_its_own_id_and_name() -> None:
    plain = ToolCall("look", {"at": 1})
    compare, said = retold(([{"role": "user", "content": "a"}], Action("", "", (CALL, plain))))
    ids = [call["id"] for call in said[-1]["tool_calls"]]
    results = [{"role": "tool", "tool_call_id": id, "content": "x"} for id in ids]
    observation = compare.observe([*json.loads(json.dumps(said)), *results])

    assert not observation.rewrite
    assert [(m.tool_call_id, m.name) for m in observation.messages] == [
        ("id-1", "look"),
        (None, "look"),
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda said: [{"role": "user", "content": "another"}, *said[1:]],
        lambda said: said[:1],
        lambda said: said,
        lambda said: [*said, {"role": "assistant", "content": "made up"}],
    ],
    ids=["changed", "dropped", "asked again", "words put in"],
)
def test_another_history_is_told_whole(change: Any) -> None:
    compare, said = retold(([{"role": "user", "content": "a"}], Action("b")))
    told = change(said)
    observation = compare.observe(told)

    assert observation.rewrite
    assert len(observation.messages) == len(told)


def test_what_is_no_text_fails() -> None:
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
    for wrong in (image, {"role": "narrator", "content": "x"}):
        with pytest.raises(EnvironmentFailure, match="a message"):
            Retold().observe([wrong])
