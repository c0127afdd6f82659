"""`KeptEpisode`: an episode that is over while others of its group still play, for a restart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from bridges.records import read_row
from retrain.environment.base import ToolSchema
from retrain.rollout.executors.world import RemoteWorld, captured_by
from retrain.types import Message, Task, Trajectory, Witness

_MARK = "trajectory"


@dataclass(frozen=True, slots=True)
class KeptEpisode:
    """An episode that is over and not scored yet, with what reward functions may read of it.

    Attributes:
        trajectory: The episode.
        said: The messages of the first prompt and of each reply; empty where it never began.
        tools: The environment's tools.
        world: The environment's attributes, where it ran in a worker; None where none are kept.
    """

    trajectory: Trajectory
    said: tuple[tuple[Message, ...], ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    world: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, trajectory: Trajectory, *, worlds: bool) -> KeptEpisode | None:
        """Take an episode.

        Args:
            trajectory: The episode.
            worlds: Whether reward functions may read the environment's attributes.

        Returns:
            None where they may, and the environment itself is in this process: it dies with it.
        """
        witness = trajectory.witness
        if witness is None:
            return cls(trajectory)
        world = captured_by(witness.environment.world) if worlds else None
        if worlds and world is None:
            return None
        said, tools = (witness.prompt, *witness.replies), tuple(witness.environment.tools)
        return cls(trajectory, said, tools, world)

    def restored(self, task: Task) -> Trajectory:
        """The episode, ready to be scored.

        Args:
            task: Its task, as the prompt source has it.
        """
        witness = None
        if self.said:
            environment = EndedEnvironment(self.tools, RemoteWorld(self.world))
            witness = Witness(environment, self.said[0], self.said[1:])
        return replace(self.trajectory, task=task, witness=witness)

    def to_json(self) -> dict[str, Any]:
        """The episode as JSON values."""
        row: dict[str, Any] = _episodes().dump_python(
            self, mode="json", exclude={_MARK: {"witness"}}
        )
        return row

    @classmethod
    def of_json(cls, row: Mapping[str, Any]) -> KeptEpisode:
        """Read what `to_json` gave.

        Raises:
            DataError: It is damaged.
        """
        return read_row(_episodes(), row, "an episode of a half-played group")


@dataclass(frozen=True, slots=True)
class EndedEnvironment:
    """What is left of an environment whose process has ended, for reward functions.

    Attributes:
        tools: Its tools.
        world: A copy of its attributes.
    """

    tools: Sequence[ToolSchema]
    world: RemoteWorld


def is_kept(row: Mapping[str, Any]) -> bool:
    """Whether a row of a saved group is of an episode that was over."""
    return _MARK in row


@cache
def _episodes() -> TypeAdapter[KeptEpisode]:
    return TypeAdapter(KeptEpisode)
