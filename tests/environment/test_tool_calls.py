"""What happens when the model calls a tool."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
import time
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

import pytest

from retrain.environment import ToolError, tool
from retrain.environment.tool_errors import ToolErrors
from retrain.errors import Boundary, ConfigError, ToolFailure

USER = contextvars.ContextVar("user", default="nobody")


@dataclass
class Point:
    x: int


@tool
def add(x: int, y: int = 1) -> int:
    """Add."""
    return x + y


@tool
async def later(text: str) -> str:
    """Answer later."""
    await asyncio.sleep(0)
    return text


async def test_arguments_are_converted_before_the_call() -> None:
    @tool
    def shift(points: list[Point]) -> list[int]:
        """Shift."""
        return [point.x + 1 for point in points]

    assert await shift.run({"points": [{"x": "1"}, {"x": 2}]}) == "[2, 3]"


async def test_bad_arguments_are_told_to_the_model() -> None:
    text = await add.run({"x": "one", "z": 3})

    assert text.startswith("Error: bad arguments for add: x: ")
    assert "'one'" in text
    assert "z: there is no such argument" in text
    assert (await add.run({})) == "Error: bad arguments for add: x: missing"


async def test_results_become_text() -> None:
    @tool
    def give(what: str) -> Any:
        """Give."""
        return {"text": "é", "none": None, "point": Point(1), "flag": True}[what]

    texts = [await give.run({"what": what}) for what in ("text", "none", "point", "flag")]

    assert texts == ["é", "", '{"x": 1}', "true"]


async def test_a_tool_error_is_told_to_the_model() -> None:
    @tool
    def divide(x: int) -> float:
        """Divide."""
        if x == 0:
            raise ToolError("division by zero")
        return 1 / x

    @tool
    async def fail() -> str:
        """Fail."""
        raise ToolError("not today")

    assert await divide.run({"x": 0}) == "Error: division by zero"
    assert await fail.run({}) == "Error: not today"


def raising(error: BaseException) -> Any:
    @tool
    def broken() -> str:
        """Break."""
        raise error

    return broken


@pytest.mark.filterwarnings("ignore:tool broken raised")
@pytest.mark.parametrize(
    ("policy", "said"),
    [("message", "Error: OSError: no such disk"), ("type", "Error: OSError")],
)
async def test_an_exception_is_told_to_the_model_in_the_detail_that_is_chosen(
    policy: str, said: str
) -> None:
    assert await raising(OSError("no such disk")).run({}, errors=ToolErrors(policy)) == said


async def test_an_exception_that_only_the_model_would_read_is_warned_of() -> None:
    with pytest.warns(UserWarning, match=r"tool broken raised KeyError; .* tool_errors: fail"):
        await raising(KeyError("x")).run({})


async def test_an_exception_fails_the_episode_where_that_is_chosen() -> None:
    with pytest.raises(ToolFailure, match=r"tool broken: ValueError: odd") as failure:
        await raising(ValueError("odd")).run({}, errors=ToolErrors.FAIL)

    assert failure.value.boundary is Boundary.TOOL
    told = await raising(ToolError("as meant")).run({}, errors=ToolErrors.FAIL)
    assert told == "Error: as meant"


@pytest.mark.parametrize(
    "raised",
    [
        ConnectionResetError("peer"),
        TimeoutError("slow"),
        MemoryError("full"),
        BrokenProcessPool("died"),
        SystemExit(3),
        ToolFailure("tool broken: the sandbox is gone"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("policy", list(ToolErrors))
async def test_a_failure_of_the_infrastructure_is_never_told_to_the_model(
    raised: BaseException, policy: ToolErrors
) -> None:
    with pytest.raises(ToolFailure, match=r"^tool broken: ") as failure:
        await raising(raised).run({}, timeout=5, errors=policy)

    assert failure.value.boundary is Boundary.TOOL
    assert type(failure.value) is ToolFailure


async def test_a_tool_failure_that_a_tool_raises_keeps_its_words_whatever_caused_it() -> None:
    @tool
    def sandboxed() -> str:
        """Run."""
        try:
            raise ValueError("bad page")
        except ValueError as error:
            raise ToolFailure("the sandbox is gone") from error

    with pytest.raises(ToolFailure, match=r"^the sandbox is gone$"):
        await sandboxed.run({})


async def test_a_limit_of_a_tool_holds_over_all_its_callers() -> None:
    running, most = 0, 0

    @tool(limit=3)
    async def count() -> str:
        """Count."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        return ""

    await asyncio.gather(*(count.run({}) for _ in range(20)))

    assert most == 3


def test_a_limited_tool_can_be_used_from_one_event_loop_after_another() -> None:
    @tool(limit=1)
    async def once() -> str:
        """Once."""
        await asyncio.sleep(0)
        return "done"

    async def twice() -> list[str]:
        return await asyncio.gather(once.run({}), once.run({}))

    assert [asyncio.run(twice()) for _ in range(2)] == [["done", "done"]] * 2


async def test_the_wait_for_room_does_not_count_towards_the_time_limit() -> None:
    @tool(limit=1, timeout=2.0)
    async def slow() -> str:
        """Be slow."""
        await asyncio.sleep(0.6)
        return "done"

    assert await asyncio.gather(*(slow.run({}) for _ in range(4))) == ["done"] * 4


@pytest.mark.parametrize("option", ["timeout", "limit"])
def test_limits_of_a_tool_must_be_positive(option: str) -> None:
    with pytest.raises(ConfigError, match=f"@tool: {option} must be positive: 0"):
        tool(**{option: 0})(len)  # type: ignore[call-overload]


async def test_a_result_that_is_no_json_fails_the_episode() -> None:
    @tool
    def odd() -> object:
        """Odd."""
        return object()

    with pytest.raises(ToolFailure, match="tool odd: its result"):
        await odd.run({})


async def test_a_tool_that_hangs_fails_the_episode_and_frees_its_thread() -> None:
    release = threading.Event()

    @tool(timeout=0.05)
    def hang() -> str:
        """Hang."""
        release.wait(20)
        return "late"

    @tool
    async def sleep() -> str:
        """Sleep."""
        await asyncio.sleep(20)
        return "late"

    try:
        calls = [hang.run({}, timeout=20) for _ in range(100)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        with pytest.raises(ToolFailure, match=r"no answer within 0.05 s"):
            await sleep.run({}, timeout=0.05)
        assert await add.run({"x": 1}, timeout=5) == "2"
    finally:
        release.set()

    assert {str(outcome) for outcome in outcomes} == {"tool hang: no answer within 0.05 s"}


async def test_a_synchronous_tool_leaves_the_event_loop_free_and_keeps_the_context() -> None:
    @tool
    def slow() -> str:
        """Be slow."""
        time.sleep(0.2)
        return f"{USER.get()} {threading.current_thread() is threading.main_thread()}"

    USER.set("ada")
    ticks = 0
    running = asyncio.ensure_future(slow.run({}))
    while not running.done():
        await asyncio.sleep(0.01)
        ticks += 1

    assert await running == "ada False"
    assert ticks > 5


async def test_calling_a_tool_object_calls_the_function() -> None:
    assert add(1, y=2) == 3
    assert await later("x") == "x"


async def test_a_hung_tool_does_not_keep_the_process_alive() -> None:
    program = (
        "import asyncio, time\n"
        "from retrain.environment import tool\n"
        "@tool(timeout=0.05)\n"
        "def hang() -> str:\n    'Hang.'\n    time.sleep(60)\n"
        "async def main():\n"
        "    try: await hang.run({})\n"
        "    except Exception as error: print(error)\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await asyncio.wait_for(process.communicate(), 30)

    assert output.decode().strip() == "tool hang: no answer within 0.05 s"
