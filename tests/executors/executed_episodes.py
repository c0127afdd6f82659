"""Groups played by one executor or another, and their bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter
from seeded_episodes import SeededModel, make_rollouts

from bridges import RolloutBridge
from retrain.environment import make_environment_factory
from retrain.environment.base import Environment
from retrain.rendering import DeltaRenderer
from retrain.rollout.executors.base import Origin
from retrain.rollout.executors.crew import CrewSettings
from retrain.rollout.executors.link import Launcher
from retrain.rollout.executors.making import make_origin
from retrain.rollout.executors.pool import WorkerPool
from retrain.rollout.executors.process import ProcessLauncher
from retrain.rollout.request import GroupRequest
from retrain.types import Group, Task

_GROUP = TypeAdapter(Group)
_LEFT_OUT = {
    "trajectories": {"__all__": {"witness": True, "timings": True, "error": {"traceback"}}}
}


def requests(number: int, prompt: str = "begin") -> list[GroupRequest]:
    metadata = {"row": [1, 2], "nothing": None, "wide": {"ü": 1e-300}}
    tasks = [Task(f"task {i}", f"{prompt} {i}", label=i, metadata=metadata) for i in range(number)]
    return [GroupRequest(index, task, 0) for index, task in enumerate(tasks)]


def make_pool(
    path: str,
    config: Mapping[str, Any] | None = None,
    *,
    launcher: Launcher | None = None,
    origin: Origin | None = None,
    worlds: bool = False,
    tell: Callable[[str], None] = lambda message: None,
    **settings: Any,
) -> WorkerPool:
    return WorkerPool(
        launcher or ProcessLauncher(),
        origin or make_origin(path, config or {}),
        CrewSettings(**{"workers": 2, **settings}),
        make_environment_factory(path, config),
        worlds=worlds,
        tell=tell,
    )


def rollouts(
    renderer: DeltaRenderer, make: Callable[[], Environment], **limits: Any
) -> RolloutBridge:
    bridge = make_rollouts(renderer, SeededModel(renderer), world=make)
    bridge.environment.limits = replace(bridge.environment.limits, **limits)
    return bridge


def as_bytes(groups: Sequence[Group]) -> list[bytes]:
    """Everything of the groups but how long it took and where the traceback comes from."""
    return [_GROUP.dump_json(group, exclude=_LEFT_OUT) for group in groups]


async def local_bytes(
    renderer: DeltaRenderer, path: str, config: Mapping[str, Any], asked: Sequence[GroupRequest]
) -> list[bytes]:
    factory = make_environment_factory(path, config)
    return as_bytes(await rollouts(renderer, factory).collect(asked))
