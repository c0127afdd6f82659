from __future__ import annotations

import asyncio
import json
import pickle

import pytest

from retrain import errors
from retrain.errors import (
    Boundary,
    ConfigError,
    EngineFailure,
    EnvironmentFailure,
    EpisodeError,
    MissingDependency,
    RetrainError,
    boundary,
    nearest,
)

CLASSES = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, RetrainError)
]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_survives_pickling(kind: type[RetrainError]) -> None:
    copy = pickle.loads(pickle.dumps(kind("what happened")))
    assert (type(copy), str(copy), copy.boundary) == (kind, "what happened", kind.boundary)


def test_errors_are_the_standard_type_that_a_caller_would_catch() -> None:
    assert issubclass(ConfigError, ValueError)
    assert issubclass(MissingDependency, ImportError)
    assert issubclass(EngineFailure, RuntimeError)


async def test_boundary_names_the_operation_and_keeps_the_cause() -> None:
    with pytest.raises(EnvironmentFailure, match=r"^step: KeyError: 'x'$") as caught:
        async with boundary(EnvironmentFailure, "step"):
            raise KeyError("x")
    assert isinstance(caught.value.__cause__, KeyError)


async def test_the_place_of_a_failure_is_the_innermost_line_of_the_users_own_code() -> None:
    def reads() -> None:
        json.loads("{")

    with pytest.raises(EnvironmentFailure) as caught:
        async with boundary(EnvironmentFailure, "step"):
            reads()
    line = reads.__code__.co_firstlineno + 1
    assert EpisodeError.of(caught.value).place == f"{__file__}:{line}"
    assert EpisodeError.of(EngineFailure("gone")).place == ""


async def test_failure_is_attributed_once() -> None:
    with pytest.raises(EngineFailure, match=r"^gone$"):
        async with boundary(EnvironmentFailure, "step"):
            raise EngineFailure("gone")


async def test_hang_is_told_from_a_timeout_of_the_code_itself() -> None:
    with pytest.raises(EnvironmentFailure, match=r"^step: no answer within 0.01 s$"):
        async with boundary(EnvironmentFailure, "step", timeout=0.01):
            await asyncio.sleep(5)
    with pytest.raises(EnvironmentFailure, match=r"^step: TimeoutError: the database$"):
        async with boundary(EnvironmentFailure, "step", timeout=5):
            raise TimeoutError("the database")


async def test_cancellation_of_the_task_passes_through() -> None:
    async def work() -> None:
        async with boundary(EnvironmentFailure, "step", timeout=5):
            await asyncio.sleep(5)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("raised", [asyncio.CancelledError(), SystemExit(3)])
async def test_what_would_end_the_loop_is_a_failure(raised: BaseException) -> None:
    """A client that cancels itself, or code that exits, fails its episode and nothing else."""
    with pytest.raises(EnvironmentFailure, match=rf"^step: {type(raised).__name__}: "):
        async with boundary(EnvironmentFailure, "step", timeout=5):
            raise raised


def test_failure_becomes_data() -> None:
    try:
        raise EngineFailure("no memory")
    except EngineFailure as failure:
        error = EpisodeError.of(failure)
    assert (error.boundary, error.reason) == (Boundary.ENGINE, "no memory")
    assert "test_failure_becomes_data" in error.traceback


def test_nearest_name_is_suggested() -> None:
    assert nearest("lerning_rate", ["learning_rate", "seed"]) == "did you mean 'learning_rate'?"
    assert nearest("zzz", ["b", "a"]) == "known: a, b"
    assert nearest("zzz", []) == "none is known"
