"""What happens when the model calls a tool."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

import pytest

from retrain.environment import ToolError, tool
from retrain.errors import Boundary, ToolFailure

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


@pytest.mark.parametrize("raised", [ValueError, StopIteration, SystemExit, OSError])
async def test_any_other_exception_fails_the_episode(raised: type[BaseException]) -> None:
    @tool
    def broken() -> str:
        """Break."""
        raise raised("disk full")

    with pytest.raises(ToolFailure, match=r"tool broken: .*disk full") as failure:
        await broken.run({}, timeout=5)

    assert failure.value.boundary is Boundary.TOOL


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
