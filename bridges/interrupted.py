"""`Interrupted`: the episodes of a group over a restart: what was recorded, and what is in play."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from bridges.continuing import record_episode, resume
from bridges.environment import EnvironmentBridge
from bridges.episode import Episode
from bridges.kept import KeptEpisode, is_kept
from bridges.records import EpisodeRecord
from retrain.engine.base import InferenceEngine, SamplingParams
from retrain.rollout.playing import Written
from retrain.seeds import EpisodeSeed
from retrain.types import Task, Trajectory

Player = Callable[..., Awaitable[Trajectory]]
"""Plays an episode as `EnvironmentBridge.run` does."""


class Interrupted:
    """A group's episodes, by their place in it.

    Attributes:
        continued: How many went on from where they were recorded; the others begin afresh.
    """

    def __init__(self, records: Mapping[str, Any], *, worlds: bool = False) -> None:
        """Take the episodes of a group.

        Args:
            records: What `save` gave before the restart; empty for a group that begins.
            worlds: Whether reward functions may read the environments' attributes.
        """
        rows = {int(n): row for n, row in records.items()}
        self._records = {n: EpisodeRecord.of_json(r) for n, r in rows.items() if not is_kept(r)}
        self._over = {n: KeptEpisode.of_json(row) for n, row in rows.items() if is_kept(row)}
        self._live: dict[int, Episode] = {}
        self._worlds = worlds
        self.continued = 0

    def of_another_task(self) -> Interrupted:
        """The same, with another task in the group's place: nothing is recorded of it."""
        self._records.clear()
        self._over.clear()
        self._live.clear()
        return self

    async def save(self, written: Written) -> dict[str, Any]:
        """What is recorded of each episode now, as JSON values.

        An episode that cannot be restored from where it is now (its environment takes a step, or
        could not give its snapshot) goes back to where it was recorded before. One that gave
        way to another while its environment was asked is not recorded.

        Args:
            written: What the engine has written of a session's running turn.
        """
        playing = {n: episode for n, episode in self._live.items() if n not in self._over}
        stranded: dict[int, EpisodeRecord] = {}
        for number, episode in playing.items():
            record = await record_episode(episode, written)
            if record is not None and self._live.get(number) is episode:
                found = self._records if _has_a_way_back(episode, record) else stranded
                found[number] = record
        rows = {n: record.to_json() for n, record in (stranded | self._records).items()}
        rows |= {n: kept.to_json() for n, kept in self._over.items()}
        return {str(number): row for number, row in sorted(rows.items())}

    def end(self, number: int, trajectory: Trajectory) -> None:
        """Keep an episode that is over.

        Args:
            number: Its place in the group.
            trajectory: The episode, not yet scored.
        """
        kept = KeptEpisode.of(trajectory, worlds=self._worlds)
        if kept is not None:
            self._over[number] = kept

    def ended(self, number: int, task: Task) -> Trajectory | None:
        """An episode that was over before the restart; None where it is to be played.

        Args:
            number: Its place in the group.
            task: What it is about.
        """
        kept = self._over.get(number)
        return None if kept is None else kept.restored(task)

    def player(
        self, bridge: EnvironmentBridge, number: int
    ) -> Callable[..., Awaitable[Trajectory]]:
        """What plays an episode in place of `EnvironmentBridge.run`.

        Args:
            bridge: Plays episodes.
            number: The episode's place in the group.
        """

        def watch(episode: Episode) -> None:
            self._live[number] = episode

        async def play(
            task: Task,
            *,
            engine: InferenceEngine,
            params: SamplingParams,
            seed: EpisodeSeed,
            evaluation: bool,
        ) -> Trajectory:
            record = self._records.get(number)
            if record is not None and not seed.attempt:
                played = await resume(
                    bridge,
                    record,
                    task,
                    seed,
                    engine=engine,
                    params=params,
                    evaluation=evaluation,
                    watch=watch,
                )
                if played is not None:
                    self.continued += 1
                    return played
            self._records.pop(number, None)
            return await bridge.run(
                task, engine=engine, params=params, seed=seed, evaluation=evaluation, watch=watch
            )

        return play


def _has_a_way_back(episode: Episode, record: EpisodeRecord) -> bool:
    environment = episode.environment
    return record.snapshot is not None or (environment is not None and environment.replayable)
