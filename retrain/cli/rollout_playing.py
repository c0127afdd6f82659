"""Playing groups for `retrain rollout`: with an engine, or from a tape."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrain.compose import load_engine
from retrain.rollout.request import GroupRequest
from retrain.rollout.tape import (
    Departure,
    RecordingEngine,
    TapeEngine,
    TapeGroup,
    TapeHeader,
    TapeRecorder,
    departures,
    recording_tape,
)
from retrain.rollout.tape.header import make_header
from retrain.runtime import EventLoopThread

if TYPE_CHECKING:
    from bridges import RolloutBridge
    from retrain.compose import Composition
    from retrain.engine.base import InferenceEngine
    from retrain.types import Group

OnGroup = Callable[["Group"], None]


def play_configured(
    composition: Composition,
    spec: str | Mapping[str, Any],
    requests: Sequence[GroupRequest],
    samples: int,
    *,
    tape: Path | None = None,
    model_dir: Path | None = None,
) -> tuple[list[Group], float]:
    """Play groups with a configured engine, onto a tape where one is named.

    Args:
        composition: The bridges.
        spec: The engine, as `rollout.engine`.
        requests: What to play.
        samples: Episodes of each group.
        tape: Where to record; None records nothing.
        model_dir: The engine's weights; None is `model.name_or_path`.

    Returns:
        The groups in the order asked for, and the seconds that they took.
    """
    name = spec if isinstance(spec, str) else str(spec.get("name"))
    with _recorder(tape, make_header(composition.config, name)) as recorder:
        loaded = load_engine(spec, composition, model_dir=model_dir)
        try:
            if recorder is None:
                return play(composition, loaded, requests, samples)
            listening = RecordingEngine(loaded)
            return play(
                composition,
                listening,
                requests,
                samples,
                lambda group: recorder.add(group, listening),
            )
        finally:
            loaded.close()
            composition.close()


@contextmanager
def _recorder(path: Path | None, header: TapeHeader) -> Iterator[TapeRecorder | None]:
    if path is None:
        yield None
        return
    with recording_tape(path, header) as recorder:
        yield recorder


def play(
    composition: Composition,
    engine: InferenceEngine,
    requests: Sequence[GroupRequest],
    samples: int,
    on_group: OnGroup | None = None,
) -> tuple[list[Group], float]:
    """Play groups, failed episodes included, whatever the policy of training is.

    Args:
        composition: The bridges.
        engine: Writes the turns.
        requests: What to play.
        samples: Episodes of each group.
        on_group: Takes every group as soon as it is finished.

    Returns:
        The groups in the order asked for, and the seconds that they took.
    """
    bridge = _bridge(composition, engine, samples)
    began = time.perf_counter()
    with EventLoopThread() as loop:
        groups = loop.run(_collect(bridge, requests, on_group))
    return groups, time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class Replayed:
    """One group of a tape, played again.

    Attributes:
        episodes: How many it has.
        turns: Turns of the recording.
        tokens: Tokens of the recorded streams: prompts, sampled tokens and replies.
        departures: Where the replay departs from it.
    """

    episodes: int
    turns: int
    tokens: int
    departures: tuple[Departure, ...]


def replay(composition: Composition, recorded: Iterator[TapeGroup]) -> Iterator[Replayed]:
    """Play recorded groups again, one at a time, and compare each with its recording.

    Args:
        composition: The bridges, of the present code.
        recorded: The groups; only one is held in memory.
    """
    with closing(composition), EventLoopThread() as loop:
        for former in recorded:
            group = former.group
            bridge = _bridge(composition, TapeEngine([former]), len(group.trajectories))
            request = GroupRequest(group.index, group.task, group.visit)
            (played,) = loop.run(bridge.collect([request]))
            yield _compared(group, played, composition)


def _compared(recorded: Group, played: Group, composition: Composition) -> Replayed:
    streams = [segment for t in recorded.trajectories for segment in t.segments]
    return Replayed(
        episodes=len(recorded.trajectories),
        turns=sum(len(segment.turns) for segment in streams),
        tokens=sum(len(segment.ids) for segment in streams),
        departures=tuple(departures(recorded, played, composition.renderer.decode)),
    )


def _bridge(composition: Composition, engine: InferenceEngine, samples: int) -> RolloutBridge:
    bridge = composition.rollouts(engine)
    policy = replace(bridge.settings.policy, actions={}, max_failure_rate=1.0)
    return bridge.with_settings(replace(bridge.settings, n_samples=samples, policy=policy))


async def _collect(
    bridge: RolloutBridge, requests: Sequence[GroupRequest], on_group: OnGroup | None
) -> list[Group]:
    async def one(request: GroupRequest) -> Group:
        (group,) = await bridge.collect([request])
        if on_group is not None:
            on_group(group)
        return group

    return list(await asyncio.gather(*map(one, requests)))
