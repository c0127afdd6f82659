"""Recording a tape: an engine that listens, and a file that takes whole groups."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

from retrain.engine.base import EngineCapabilities, Generation, InferenceEngine, SamplingParams
from retrain.errors import EngineFailure, RunFolderError
from retrain.report.atomic import replacing
from retrain.rollout.tape.format import (
    HEADER,
    TapeAnswer,
    TapeGroup,
    TapeHeader,
    group_name,
    write_group,
    write_header,
)
from retrain.types import Group, Trajectory


class RecordingEngine:
    """An `InferenceEngine` that keeps every answer of the engine behind it, by the turn's seed.

    A turn that is asked again after a failure keeps the last answer; a turn that failed for good
    keeps its failure.
    """

    def __init__(self, engine: InferenceEngine) -> None:
        """Listen to `engine`."""
        self._engine = engine
        self._answers: dict[int, TapeAnswer] = {}

    @property
    def capabilities(self) -> EngineCapabilities:
        """What the engine behind can do."""
        return self._engine.capabilities

    async def generate(
        self,
        input_ids: Sequence[int],
        params: SamplingParams,
        *,
        session_id: str,
        seed: int,
        images: Sequence[str] | None = None,
    ) -> Generation:
        """Continue `input_ids`; see `InferenceEngine.generate`."""
        asked = len(input_ids)
        try:
            generation = await self._engine.generate(
                input_ids, params, session_id=session_id, seed=seed, images=images
            )
        except EngineFailure as failure:
            self._answers[seed] = TapeAnswer(asked, None, str(failure))
            raise
        self._answers[seed] = TapeAnswer(asked, generation)
        return generation

    async def abort(self, session_id: str) -> None:
        """End the session's running request."""
        await self._engine.abort(session_id)

    async def release(self, session_id: str) -> None:
        """Forget the session."""
        await self._engine.release(session_id)

    def take(self, trajectory: Trajectory) -> dict[int, TapeAnswer]:
        """Hand over, and forget, the answers of an episode, its abandoned attempts included."""
        taken: dict[int, TapeAnswer] = {}
        for attempt in range(trajectory.seed.attempt + 1):
            episode = replace(trajectory.seed, attempt=attempt)
            for seed in map(episode.turn, count()):
                answer = self._answers.pop(seed, None)
                if answer is None:
                    break
                taken[seed] = answer
        return taken


class TapeRecorder:
    """Writes finished groups onto a tape that appears when the recording ends well."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        """Write to an open archive; `recording_tape` opens one."""
        self._archive = archive
        self._positions = count()

    def add(self, group: Group, engine: RecordingEngine) -> None:
        """Write a group with what `engine` answered in it.

        Raises:
            DataError: The group holds what JSON cannot.
        """
        answers: dict[int, TapeAnswer] = {}
        for trajectory in group.trajectories:
            answers.update(engine.take(trajectory))
        data = write_group(TapeGroup(group, answers))
        self._archive.writestr(group_name(next(self._positions)), data)


@contextmanager
def recording_tape(path: Path, header: TapeHeader) -> Iterator[TapeRecorder]:
    """Record a tape; where the block raises, nothing is left and an older tape stays.

    Args:
        path: The file.
        header: What the tape says about itself.

    Raises:
        RunFolderError: The file cannot be written.
    """
    try:
        with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(HEADER, write_header(header))
            yield TapeRecorder(archive)
    except OSError as error:
        if isinstance(error, RunFolderError):
            raise
        raise RunFolderError(f"{path}: cannot be written: {error.strerror or error}") from error
