"""The turn-by-turn behaviour of `ToolEnvironment`."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from retrain.environment import ToolEnvironment, ToolError, make_environment_factory, tool
from retrain.errors import ConfigError, ToolFailure
from retrain.types import Action, Message, StepResult, Task, ToolCall

TASK = Task("t", "Go.", label="north")


def ask(*calls: tuple[str, dict[str, Any]]) -> Action:
    return Action(tool_calls=tuple(ToolCall(n, a, f"c{i}") for i, (n, a) in enumerate(calls)))


class Maze(ToolEnvironment):
    def __init__(self, depth: int = 3, **options: Any) -> None:
        super().__init__(**options)
        self.depth = depth
        self.path: list[str] = []

    @tool
    def walk(self, direction: str) -> str:
        """Walk on."""
        if direction == "up":
            raise ToolError("there is a ceiling")
        self.path.append(direction)
        return f"{len(self.path)} of {self.depth}"

    async def score(self, action: Action) -> tuple[float, dict[str, Any]]:
        found = action.text == self.task.label
        return float(found), {"success": found, "steps": len(self.path)}


@tool
async def echo(text: str, wait: float = 0.0) -> str:
    """Say it again."""
    await asyncio.sleep(wait)
    return text


def shout(text: str) -> str:
    """Say it louder."""
    return text.upper()


async def test_each_call_is_answered_in_order_by_a_tool_message() -> None:
    maze = Maze()
    await maze.reset(TASK, 0)

    result = await maze.step(ask(("walk", {"direction": "north"}), ("walk", {"direction": "up"})))

    assert result == StepResult(result.observation)
    assert result.observation.messages == (
        Message("tool", "1 of 3", tool_call_id="c0", name="walk"),
        Message("tool", "Error: there is a ceiling", tool_call_id="c1", name="walk"),
    )


async def test_calls_of_one_action_run_together_and_answers_keep_their_order() -> None:
    world = ToolEnvironment([echo])
    loop = asyncio.get_running_loop()
    began = loop.time()

    calls = [("echo", {"text": str(i), "wait": 0.3 - 0.05 * i}) for i in range(5)]
    result = await world.step(ask(*calls))

    assert [m.content for m in result.observation.messages] == ["0", "1", "2", "3", "4"]
    assert loop.time() - began < 0.8


async def test_no_more_calls_run_at_once_than_allowed() -> None:
    running, most = 0, 0

    @tool
    async def count() -> str:
        """Count."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return ""

    world = ToolEnvironment([count], max_parallel_calls=2)
    await world.step(ask(*[("count", {})] * 6))

    assert most == 2


async def test_an_unknown_tool_is_told_to_the_model_with_the_known_ones() -> None:
    world = ToolEnvironment([echo, shout])

    (message,) = (await world.step(ask(("ehco", {})))).observation.messages

    assert message.role == "tool"
    assert message.content == "Error: there is no tool 'ehco'. Tools: echo, shout"


async def test_a_call_that_cannot_be_read_is_answered_by_a_user_message() -> None:
    maze = Maze()
    await maze.reset(TASK, 0)

    result = await maze.step(Action(parse_error="no JSON", tool_calls=(ToolCall("walk"),)))

    (message,) = result.observation.messages
    assert (message.role, message.tool_call_id) == ("user", None)
    assert "no JSON" in message.content
    assert not result.terminated
    assert maze.path == []


async def test_an_answer_without_a_call_ends_the_episode_with_its_score() -> None:
    maze = Maze()
    await maze.reset(TASK, 0)
    await maze.step(ask(("walk", {"direction": "north"})))

    result = await maze.step(Action("north"))

    assert (result.reward, result.terminated, result.truncated) == (1.0, True, False)
    assert result.info == {"success": True, "steps": 1}


async def test_without_a_score_of_its_own_the_reward_is_zero() -> None:
    result = await ToolEnvironment([echo]).step(Action("done"))

    assert (result.reward, result.terminated, result.info) == (0.0, True, {})


@pytest.mark.parametrize("last", [ask(("walk", {"direction": "east"})), Action(parse_error="bad")])
async def test_the_last_turn_is_answered_and_truncates_the_episode(last: Action) -> None:
    maze = Maze(max_turns=2)
    await maze.reset(TASK, 0)

    first = await maze.step(ask(("walk", {"direction": "north"})))
    second = await maze.step(last)

    assert not first.truncated
    assert (second.terminated, second.truncated, second.reward) == (False, True, 0.0)
    assert second.info["success"] is False
    assert len(second.observation.messages) == 1


async def test_a_final_answer_in_the_last_turn_is_not_truncated() -> None:
    maze = Maze(max_turns=1)
    await maze.reset(TASK, 0)

    result = await maze.step(Action("north"))

    assert (result.terminated, result.truncated, result.reward) == (True, False, 1.0)


async def test_reset_starts_a_new_count_of_turns() -> None:
    maze = Maze(max_turns=2)
    for _ in range(3):
        await maze.reset(TASK, 0)
        assert not (await maze.step(ask(("walk", {"direction": "east"})))).truncated


async def test_the_system_prompt_comes_first_unless_the_task_has_its_own() -> None:
    world = ToolEnvironment(system_prompt="Be brief.")
    own = Task("u", (Message("system", "Be long."), Message("user", "Go.")))

    plain = await world.reset(TASK, 0)
    kept = await world.reset(own, 0)

    assert plain.messages == (Message("system", "Be brief."), Message("user", "Go."))
    assert kept.messages == own.messages


async def test_a_broken_tool_fails_the_step_after_all_calls_have_ended() -> None:
    ended = []

    @tool
    async def good() -> str:
        """Good."""
        await asyncio.sleep(0.02)
        ended.append(True)
        return ""

    @tool
    def bad() -> str:
        """Bad."""
        raise ConnectionError("gone")

    with pytest.raises(ToolFailure, match=r"tool bad: ConnectionError: gone"):
        await ToolEnvironment([bad, good]).step(ask(("bad", {}), ("good", {})))

    assert ended == [True]


async def test_the_environments_limit_holds_for_tools_without_their_own() -> None:
    world = ToolEnvironment([echo], tool_timeout=0.05)

    with pytest.raises(ToolFailure, match=r"tool echo: no answer within 0.05 s"):
        await world.step(ask(("echo", {"text": "x", "wait": 10})))


async def test_subclasses_inherit_and_replace_tools() -> None:
    class Deep(Maze):
        @tool
        def walk(self, direction: str) -> str:
            """Fall."""
            return f"fell {direction}"

        @tool
        def dig(self) -> str:
            """Dig."""
            return "sand"

    world = Deep(tools=[shout])

    assert [s["function"]["name"] for s in world.tools] == ["walk", "dig", "shout"]
    (message,) = (await world.step(ask(("walk", {"direction": "down"})))).observation.messages
    assert message.content == "fell down"


async def test_tools_can_be_named_by_import_path_in_the_configuration() -> None:
    config = {"tools": ["textwrap:shorten"], "max_turns": 2}
    with pytest.raises(ConfigError, match=r"tool 'shorten'"):
        make_environment_factory("tools", config)().tools  # noqa: B018 - it has no type hints

    world = make_environment_factory("tools", {"tools": ["posixpath:nothing"]})
    with pytest.raises(ConfigError, match="posixpath"):
        world()


def test_a_tool_may_stand_in_a_file_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tools_beside_the_configuration.py").write_text(
        'def convert(amount: float) -> float:\n    """Convert it."""\n    return amount\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [entry for entry in sys.path if entry])
    environment = ToolEnvironment(tools=["tools_beside_the_configuration:convert"])
    assert [schema["function"]["name"] for schema in environment.tools] == ["convert"]


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="two tools are named 'echo'"):
        ToolEnvironment([echo, echo])


@pytest.mark.parametrize(
    "option",
    ["max_turns", "max_tool_calls", "tool_timeout", "max_parallel_calls", "max_result_chars"],
)
def test_limits_must_be_positive(option: str) -> None:
    with pytest.raises(ConfigError, match=f"{option}: must be positive"):
        ToolEnvironment(**{option: 0})


async def test_an_exception_in_a_tool_is_an_answer_unless_it_is_to_fail() -> None:
    @tool
    def bad() -> str:
        """Bad."""
        raise LookupError("no such page")

    with pytest.warns(UserWarning, match="tool bad raised LookupError"):
        (message,) = (await ToolEnvironment([bad]).step(ask(("bad", {})))).observation.messages
    assert message.content == "Error: LookupError: no such page"

    with pytest.raises(ToolFailure, match="no such page"):
        await ToolEnvironment([bad], tool_errors="fail").step(ask(("bad", {})))


class Ledger(ToolEnvironment):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.busy = 0
        self.most = 0

    @tool
    def write(self, line: str) -> str:
        """Write a line."""
        self.busy += 1
        self.most = max(self.most, self.busy)
        time.sleep(0.02 if line == "0" else 0.0)
        self.lines.append(line)
        self.busy -= 1
        return f"line {len(self.lines)}"


async def test_synchronous_methods_of_one_turn_run_in_the_order_written() -> None:
    ledger = Ledger()
    await ledger.reset(TASK, 0)

    result = await ledger.step(ask(*(("write", {"line": str(i)}) for i in range(6))))

    assert [m.content for m in result.observation.messages] == [f"line {i}" for i in range(1, 7)]
    assert ledger.lines == list("012345")
    assert ledger.most == 1


async def test_no_serial_call_begins_after_one_that_failed() -> None:
    class Chain(Ledger):
        @tool
        def write(self, line: str) -> str:
            """Write a line."""
            self.lines.append(line)
            raise ConnectionError("the pen broke")

    chain = Chain()
    await chain.reset(TASK, 0)
    with pytest.raises(ToolFailure, match="the pen broke"):
        await chain.step(ask(("write", {"line": "a"}), ("write", {"line": "b"})))

    assert chain.lines == ["a"]


async def test_of_several_failures_the_first_call_is_named() -> None:
    @tool
    async def fail(text: str, wait: float) -> str:
        """Fail."""
        await asyncio.sleep(wait)
        raise ConnectionError(text)

    calls = [("fail", {"text": f"call {i}", "wait": 0.03 - 0.01 * i}) for i in range(3)]
    with pytest.raises(ToolFailure, match="call 0"):
        await ToolEnvironment([fail]).step(ask(*calls))


async def test_calls_beyond_the_budget_are_not_run_and_the_model_is_told() -> None:
    maze = Maze(max_tool_calls=3)
    await maze.reset(TASK, 0)
    walk = ("walk", {"direction": "east"})

    first = await maze.step(ask(walk, walk))
    second = await maze.step(ask(walk, walk))
    third = await maze.step(ask(walk))

    assert [m.content for m in first.observation.messages] == ["1 of 3", "2 of 3"]
    used_up = "Error: all 3 tool calls are used up; answer without one"
    assert [m.content for m in second.observation.messages] == ["3 of 3", used_up]
    assert [m.content for m in third.observation.messages] == [used_up]
    assert [m.tool_call_id for m in second.observation.messages] == ["c0", "c1"]
    assert len(maze.path) == 3
    await maze.reset(TASK, 0)
    again = await maze.step(ask(walk))
    assert again.observation.messages[0].content == "4 of 3"


async def test_a_task_offers_only_the_tools_that_it_names() -> None:
    world = ToolEnvironment([echo, shout])
    await world.reset(Task("t", "Go.", metadata={"tools": ["shout"]}), 0)

    assert [s["function"]["name"] for s in world.tools] == ["shout"]
    (message,) = (await world.step(ask(("echo", {"text": "x"})))).observation.messages
    assert message.content == "Error: there is no tool 'echo'. Tools: shout"

    await world.reset(TASK, 0)
    assert len(world.tools) == 2


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["shoot"], r"task 't': metadata.tools: there is no tool 'shoot'; did you mean 'shout'\?"),
        ("shout", "task 't': metadata.tools must be a list of tool names, got 'shout'"),
    ],
)
async def test_a_task_that_names_no_tool_of_the_environment_is_refused(
    names: Any, said: str
) -> None:
    world = ToolEnvironment([echo, shout])
    with pytest.raises(ValueError, match=said):
        await world.reset(Task("t", "Go.", metadata={"tools": names}), 0)


async def test_a_long_result_is_cut_and_the_cut_is_marked() -> None:
    world = ToolEnvironment([echo], max_result_chars=10)

    result = await world.step(ask(("echo", {"text": "x" * 25}), ("echo", {"text": "y" * 10})))

    cut, whole = (message.content for message in result.observation.messages)
    assert cut == "x" * 10 + "\n[cut: these are the first 10 of 25 characters]"
    assert whole == "y" * 10


@pytest.mark.parametrize(
    ("check", "label", "answer", "right"),
    [
        ("number", "42", "It is 41, no, 42.0", True),
        ("number", 42, "42 or 43", False),
        ("exact", "Paris", " Paris\n", True),
        ("exact", "Paris", "paris", False),
        ("contains", "Paris", "it is PARIS, I think", True),
        ("contains", ["Rome", "Paris"], "Paris", True),
        ("contains", ["Rome", "Paris"], "Oslo", False),
    ],
)
async def test_an_answer_is_compared_with_the_label(
    check: str, label: Any, answer: str, right: bool
) -> None:
    world = make_environment_factory("tools", {"check_answer": check})()
    await world.reset(Task("t", "Go.", label), 0)

    result = await world.step(Action(answer))

    assert (result.reward, result.info) == (float(right), {"success": right})


async def test_an_episode_that_was_cut_is_not_right_whatever_stands_in_it() -> None:
    world = ToolEnvironment([echo], check_answer="contains", max_turns=1)
    await world.reset(TASK, 0)

    result = await world.step(Action("north", tool_calls=(ToolCall("echo", {"text": "x"}),)))

    assert (result.reward, result.truncated) == (0.0, True)


@pytest.mark.parametrize(
    ("check", "label", "said"),
    [("number", "many", "the label must be a number"), ("exact", None, "needs a label")],
)
async def test_a_label_that_nothing_can_be_compared_with_is_refused(
    check: Any, label: Any, said: str
) -> None:
    world = ToolEnvironment(check_answer=check)
    with pytest.raises(ValueError, match=f"task 't': .*{said}"):
        await world.reset(Task("t", "Go.", label), 0)


def test_an_unknown_check_or_policy_is_refused_by_its_key() -> None:
    with pytest.raises(ConfigError, match=r"env_specific_config.check_answer"):
        make_environment_factory("tools", {"check_answer": "numbers"})
    with pytest.raises(ConfigError, match=r"env_specific_config.tool_errors"):
        make_environment_factory("tools", {"tool_errors": "hide"})


async def test_tools_are_discovered_without_an_episode() -> None:
    world = make_environment_factory("tools", {"tools": [f"{__name__}:shout"]})()

    assert [s["function"]["name"] for s in await world.discover_tools()] == ["shout"]
