"""Workers in Ray actors, over the nodes of a cluster."""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from retrain.errors import ConfigError, MissingDependency, WorkerLost
from retrain.rollout.executors.ray_actor import HostActor

_CALLS_PER_EPISODE = 3
"""At most: a call, its withdrawal, and the wait for what lingers."""

_KEPT = 16


@dataclass(frozen=True, slots=True)
class ActorOptions:
    """What Ray keeps for one actor.

    Attributes:
        cpus: CPUs.
        resources: Custom resources by name.
        episodes: Most episodes at a time.
    """

    cpus: float = 1.0
    resources: Mapping[str, float] = field(default_factory=dict)
    episodes: int = 16


class RayLauncher:
    """Starts actors in the Ray that runs, or else in one that is joined or started here.

    A Ray that another part of this process is connected to (slime's own, in its rollout manager) is
    used as it is and left as it is.
    """

    def __init__(
        self, options: ActorOptions, *, address: str | None = None, workers: int | None = None
    ) -> None:
        """Start nothing yet.

        Args:
            options: What an actor needs.
            address: The cluster, where this process is not connected yet; None is $RAY_ADDRESS, or
                a Ray of our own on this machine.
            workers: How many actors a Ray of our own must have room for; None is one per CPU.
        """
        self._options = options
        self._address = address
        self._workers = workers
        self._connected = False

    async def open(self) -> int:
        """Connect to Ray, unless this process is connected.

        Returns:
            How many actors its nodes have room for.

        Raises:
            ConfigError: There is no cluster at the address.
            MissingDependency: Ray is not installed.
        """
        await asyncio.to_thread(self._connect)
        nodes = _ray().nodes()
        return sum(self._room(node["Resources"]) for node in nodes if node["Alive"])

    async def launch(self) -> RayLink:
        """Create an actor; Ray starts it as soon as a node has room for it."""
        options = self._options
        actors = _actor_class().options(
            num_cpus=options.cpus,
            resources=dict(options.resources) or None,
            max_concurrency=options.episodes * _CALLS_PER_EPISODE + _KEPT,
            max_restarts=0,
            scheduling_strategy="SPREAD",
        )
        return RayLink(actors.remote())

    def lacking(self) -> str:
        """What an actor asks for, and what the nodes have."""
        wanted = {"CPU": self._options.cpus, **self._options.resources}
        nodes = [node for node in _ray().nodes() if node["Alive"]]
        have = "; ".join(_shown(node["Resources"], wanted) for node in nodes)
        return f"an actor asks for {_shown(wanted, wanted)}; the nodes have {have}"

    def close(self) -> None:
        """Disconnect from Ray, and end it, where it was connected to here."""
        if self._connected:
            self._connected = False
            _ray().shutdown()

    def _connect(self) -> None:
        ray = _ray()
        if ray.is_initialized():
            return
        address = self._address or os.environ.get("RAY_ADDRESS") or "local"
        own: dict[str, Any] = {}
        if address == "local":
            own["include_dashboard"] = False
            if self._workers is not None:
                needed = math.ceil(self._workers * self._options.cpus)
                own["num_cpus"] = max(needed, os.cpu_count() or 1)
        try:
            ray.init(address, logging_level=logging.WARNING, **own)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"rollout.executor.address: no Ray cluster answers at {address!r}: {error}"
            ) from error
        self._connected = True

    def _room(self, resources: Mapping[str, float]) -> int:
        wanted = {"CPU": self._options.cpus, **self._options.resources}
        shares = [resources.get(name, 0.0) / n for name, n in wanted.items() if n > 0]
        return int(min(shares, default=resources.get("CPU", 1.0)))


class RayLink:
    """The connection to one actor."""

    def __init__(self, actor: Any) -> None:
        """Take an actor, which may not have started yet."""
        self._actor = actor
        self._stay = actor.stay.remote()
        self._name = f"actor {actor._actor_id.hex()[:12]}"

    @property
    def name(self) -> str:
        """The actor."""
        return self._name

    async def exchange(self, number: int, message: bytes) -> bytes:
        """Send a message and wait for its answer.

        Raises:
            WorkerLost: The actor or its node ended.
        """
        try:
            answer: bytes = await self._actor.serve.remote(number, message)
        except _ray().exceptions.RayError as error:
            raise WorkerLost(_first_line(error)) from error
        return answer

    async def ended(self) -> str:
        """Wait for the actor's end."""
        try:
            await self._stay
        except _ray().exceptions.RayError as error:
            return _first_line(error)
        return "it ended"

    def dismiss(self) -> None:
        """Let Ray end the actor."""
        self.kill()

    def kill(self, *, patience: float = 0.0) -> None:
        """Let Ray end the actor now."""
        ray = _ray()
        if ray.is_initialized():
            with suppress(ray.exceptions.RayError, ValueError):
                ray.kill(self._actor)


def _ray() -> Any:
    try:
        import ray
        import ray.exceptions
    except ModuleNotFoundError as error:
        raise MissingDependency(
            "rollout.executor: ray needs Ray, which is not installed; install it with: "
            "pip install 'retrain[ray]'"
        ) from error
    return ray


@cache
def _actor_class() -> Any:
    return _ray().remote(HostActor)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _shown(resources: Mapping[str, float], names: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {resources.get(name, 0):g}" for name in names)
