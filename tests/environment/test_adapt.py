"""Objects that are no `Environment` run as one."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from typing import Any

import pytest

from retrain.environment import Environment, ToolEnvironment, adapt
from retrain.errors import ConfigError, EnvironmentFailure, ToolFailure
from retrain.types import Action, Message, Observation, StepResult, Task

TASK = Task("t", "Go.")
WHO = contextvars.ContextVar("who", default="nobody")


class Plain:
    """Everything synchronous, and no seed."""

    tools = ({"type": "function", "function": {"name": "look"}},)

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.closed = 0

    def reset(self, task: Task) -> str:
        self.threads.append(threading.current_thread())
        return task.prompt  # type: ignore[return-value]

    def step(self, action: Action) -> tuple[Any, ...]:
        self.threads.append(threading.current_thread())
        return f"You said {action.text}", 1, False, False, {}

    def close(self) -> None:
        self.threads.append(threading.current_thread())
        self.closed += 1


async def test_a_plain_class_runs_in_one_thread_of_its_own() -> None:
    plain = Plain()
    environment = adapt(plain)

    first = await environment.reset(TASK, 7)
    second = await environment.step(Action("hi"))
    await environment.close()

    assert isinstance(environment, Environment)
    assert first == Observation((Message("user", "Go."),))
    assert second == StepResult(Observation((Message("user", "You said hi"),)), 1.0)
    assert environment.tools == Plain.tools
    assert plain.closed == 1
    assert len(set(plain.threads)) == 1
    assert plain.threads[0] is not threading.main_thread()
    plain.threads[0].join(5)
    assert not plain.threads[0].is_alive()


async def test_the_seed_is_given_where_reset_takes_one() -> None:
    class Seeded(Plain):
        def reset(self, task: Task, seed: int) -> str:  # type: ignore[override]
            return f"seed {seed}"

    class KeywordOnly(Plain):
        def reset(self, task: Task, **options: int) -> str:  # type: ignore[override]
            return f"seed {options['seed']}"

    for cls in (Seeded, KeywordOnly):
        assert (await adapt(cls()).reset(TASK, 7)).messages[0].content == "seed 7"


async def test_one_object_of_a_class_may_have_a_reset_of_its_own() -> None:
    class Seeded(Plain):
        def reset(self, task: Task, seed: int) -> str:  # type: ignore[override]
            return f"seed {seed}"

    own = Seeded()
    own.reset = lambda task: "no seed"  # type: ignore[assignment,method-assign]
    for environment, said in ((Seeded(), "seed 7"), (own, "no seed"), (Plain(), "Go.")):
        assert (await adapt(environment).reset(TASK, 7)).messages[0].content == said


async def test_methods_may_be_synchronous_and_asynchronous_in_one_class() -> None:
    class Mixed(Plain):
        async def step(self, action: Action) -> StepResult:  # type: ignore[override]
            await asyncio.sleep(0)
            assert threading.current_thread() is threading.main_thread()
            return StepResult(Observation(), terminated=True)

    environment = adapt(Mixed())
    await environment.reset(TASK, 0)

    assert (await environment.step(Action())).terminated


async def test_a_synchronous_method_that_returns_a_coroutine_is_awaited() -> None:
    class Delegating(Plain):
        def step(self, action: Action) -> Any:
            async def answer() -> StepResult:
                return StepResult(Observation(), reward=2.0)

            return answer()

    assert (await adapt(Delegating()).step(Action())).reward == 2.0


async def test_a_slow_environment_leaves_the_event_loop_free() -> None:
    class Slow(Plain):
        def step(self, action: Action) -> tuple[Any, ...]:
            time.sleep(0.2)
            return super().step(action)

    environments = [adapt(Slow()) for _ in range(8)]
    began = time.monotonic()
    await asyncio.gather(*(environment.step(Action()) for environment in environments))

    assert time.monotonic() - began < 1.0


async def test_calls_of_one_environment_never_overlap() -> None:
    class Counting(Plain):
        running = 0

        def step(self, action: Action) -> tuple[Any, ...]:
            self.running += 1
            assert self.running == 1
            time.sleep(0.02)
            self.running -= 1
            return super().step(action)

    environment = adapt(Counting())
    outcomes = await asyncio.gather(
        *(environment.step(Action()) for _ in range(4)), return_exceptions=True
    )

    assert not any(isinstance(outcome, AssertionError) for outcome in outcomes)
    assert not any("assert" in str(outcome) for outcome in outcomes)


async def test_context_variables_pass_in_and_on_to_the_next_call() -> None:
    class Remembering(Plain):
        def reset(self, task: Task) -> str:
            seen = WHO.get()
            WHO.set("set in reset")
            return seen

        def step(self, action: Action) -> tuple[Any, ...]:
            return WHO.get(), 0.0, False, False, {}

    WHO.set("the caller")
    environment = adapt(Remembering())

    assert (await environment.reset(TASK, 0)).messages[0].content == "the caller"
    assert (await environment.step(Action())).observation.messages[0].content == "set in reset"
    assert WHO.get() == "the caller"


@pytest.mark.parametrize("raised", [ValueError, StopIteration, SystemExit])
async def test_an_exception_is_an_environment_failure(raised: type[BaseException]) -> None:
    class Broken(Plain):
        def step(self, action: Action) -> tuple[Any, ...]:
            raise raised("no board")

    with pytest.raises(EnvironmentFailure, match=r"step: .*no board"):
        await adapt(Broken()).step(Action())


async def test_a_tool_failure_stays_a_tool_failure() -> None:
    class Broken(ToolEnvironment):
        async def step(self, action: Action) -> StepResult:
            raise ToolFailure("tool x: gone")

    with pytest.raises(ToolFailure):
        await adapt(Broken()).step(Action())


async def test_after_a_step_that_hangs_close_waits_for_nothing_and_still_runs() -> None:
    release, closed = threading.Event(), threading.Event()

    class Hanging(Plain):
        def step(self, action: Action) -> tuple[Any, ...]:
            release.wait(20)
            return super().step(action)

        def close(self) -> None:
            closed.set()

    environment = adapt(Hanging())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(environment.step(Action()), 0.05)
    with pytest.raises(EnvironmentFailure, match="still running"):
        await environment.step(Action())
    await asyncio.wait_for(environment.close(), 1)

    assert not closed.is_set()
    release.set()
    assert await asyncio.to_thread(closed.wait, 5)


async def test_an_object_without_close_can_be_closed() -> None:
    class Bare:
        def reset(self, task: Task) -> str:
            return "x"

        def step(self, action: Action) -> tuple[Any, ...]:
            return "x", 0.0, True, False, {}

    await adapt(Bare()).close()


async def test_an_environment_is_adapted_once_and_its_answers_are_checked_too() -> None:
    class Nan(Environment):
        async def reset(self, task: Task, seed: int) -> Observation:
            return Observation(task.messages)

        async def step(self, action: Action) -> StepResult:
            return StepResult(Observation(), reward=float("nan"))

    environment = adapt(Nan())

    assert adapt(environment) is environment
    with pytest.raises(EnvironmentFailure, match="finite"):
        await environment.step(Action())


class NoStep:
    def reset(self, task: Task) -> str:
        return ""


class NoTask(NoStep):
    def reset(self) -> str:  # type: ignore[override]
        return ""

    def step(self, action: Action) -> None: ...


class TwoActions(NoStep):
    def step(self, action: Action, other: Action) -> None: ...


@pytest.mark.parametrize(
    ("cls", "said"),
    [
        (NoStep, r"NoStep has no step; expected step\(action\)"),
        (NoTask, r"NoTask\.reset cannot be called: .*expected reset\(task\)"),
        (TwoActions, r"TwoActions\.step cannot be called: .*'other'"),
    ],
)
def test_a_class_with_other_methods_is_refused(cls: type, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        adapt(cls())
