"""How the trainer's weights come to the engines that write the turns, and who has the memory."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from backends.torch.protocol import TrainingBackend
from retrain.engine.weight_probe import PROMPTS, write_answers
from retrain.errors import EngineFailure


@runtime_checkable
class SharesWeights(Protocol):
    """An engine that writes with the very weights that are trained: nothing is copied."""

    def weights_changed(self, version: str) -> None:
        """Say that the weights are new: `version` stands on the turns from now on."""
        ...


@runtime_checkable
class LoadsWeights(Protocol):
    """An engine whose servers load weights from a folder: `SGLangEngine`, `VLLMEngine`."""

    async def update_weights_from_checkpoint(self, path: str, version: str) -> None:
        """Have every server load them, and check that it has them.

        A server that fails is left out, and loads the newest ones before it writes again. One whose
        memory was released takes it again on the way.

        Raises:
            EngineFailure: No server has them.
        """
        ...


@runtime_checkable
class ReleasesMemory(Protocol):
    """An engine that gives its memory to whoever trains on the same device."""

    async def release_memory(self) -> None:
        """Give it back; nothing is written until new weights come, or `resume_memory`.

        Raises:
            EngineFailure: No server could.
            ConfigError: A server was not started so that it can.
        """
        ...


@runtime_checkable
class ResumesMemory(Protocol):
    """An engine that has to be told when it can have its memory again."""

    async def resume_memory(self) -> None:
        """Take it again, with the newest weights.

        Raises:
            EngineFailure: No server could.
        """
        ...


Engine: TypeAlias = SharesWeights | LoadsWeights


class Engines:
    """The engines of a run, which get the weights together."""

    def __init__(
        self,
        engines: Sequence[Engine],
        folder: Path | None = None,
        *,
        colocated: bool = False,
        note: Callable[[str], None] | None = None,
    ) -> None:
        """Take the engines.

        Args:
            engines: Each loads weights from a folder, or shares the trainer's.
            folder: Where weights are written for those that load them: a folder that the servers
                see under the same path. Only the newest ones stay there.
            colocated: Whether servers stand on the trainer's device, and give their memory back
                while it trains. Then nothing is collected ahead.
            note: Is told of servers that are left out.

        Raises:
            ValueError: An engine loads weights, and there is no folder.
        """
        self._loading = [engine for engine in engines if isinstance(engine, LoadsWeights)]
        self._sharing = [engine for engine in engines if not isinstance(engine, LoadsWeights)]
        if self._loading and folder is None:
            raise ValueError("engines that load weights need a folder to load them from")
        self._folder = folder
        self._note = note
        self._life = secrets.token_hex(3)
        self._written: Path | None = None
        away: Sequence[Engine] = engines if colocated else self._sharing
        self._releasing = [engine for engine in away if isinstance(engine, ReleasesMemory)]

    async def sync(self, backend: TrainingBackend) -> str:
        """Give every engine the trainer's present weights; released memory is taken again.

        A version that servers load is named after the step and this process's life, so that no
        name is used again after a restart: a server may still hold what a killed run sent. What the
        trainer's model answers to a probe stands beside the weights, so that a server which keeps
        its old ones is noticed.

        Returns:
            The version.

        Raises:
            EngineFailure: No server took them.
        """
        version = str(backend.step)
        for engine in self._sharing:
            engine.weights_changed(version)
        if not self._loading:
            return version
        version = f"{backend.step}-{self._life}"
        assert self._folder is not None
        answers = await backend.likeliest(PROMPTS)
        written = await backend.save_weights(self._folder / version)
        await asyncio.to_thread(write_answers, written, answers)
        failures = await sync_weights_to_engines(self._loading, written, version)
        self._report(failures, version)
        if self._written is not None and self._written != written:
            shutil.rmtree(self._written, ignore_errors=True)
        self._written = written
        return version

    async def release(self) -> None:
        """Have engines on the trainer's device give their memory back; call it before training.

        An engine in this process does so always, and takes it again by itself.

        Raises:
            EngineFailure: An engine could not.
            ConfigError: A server was not started so that it can.
        """
        await asyncio.gather(*(engine.release_memory() for engine in self._releasing))

    async def resume(self) -> None:
        """Have those engines take their memory again where no new weights are sent.

        Raises:
            EngineFailure: An engine could not.
        """
        resuming = [engine for engine in self._releasing if isinstance(engine, ResumesMemory)]
        await asyncio.gather(*(engine.resume_memory() for engine in resuming))

    async def close(self) -> None:
        """The run has ended: leave servers awake, and nothing of what was written for them."""
        with suppress(EngineFailure):
            await self.resume()
        if self._written is not None:
            shutil.rmtree(self._written, ignore_errors=True)
            self._written = None

    def _report(self, failures: Sequence[EngineFailure | None], version: str) -> None:
        if self._note is None:
            return
        faults = [str(failure) for failure in failures if failure is not None]
        for engine in self._loading:
            faults += getattr(engine, "left_out", ())
        for fault in dict.fromkeys(faults):
            self._note(f"left out while it has not the weights {version}: {fault}")


async def sync_weights_to_engines(
    engines: Sequence[LoadsWeights], path: Path, version: str
) -> list[EngineFailure | None]:
    """Have engines load weights, all at the same time.

    An engine that fails has left its servers out, and tries again before it uses them.

    Args:
        engines: What loads.
        path: A Hugging Face folder, as the servers see it.
        version: The name of these weights.

    Returns:
        For each engine None, or why it failed.

    Raises:
        EngineFailure: All of them failed.
    """
    outcomes = await asyncio.gather(
        *(engine.update_weights_from_checkpoint(str(path), version) for engine in engines),
        return_exceptions=True,
    )
    failures: list[EngineFailure | None] = []
    for outcome in outcomes:
        if outcome is not None and not isinstance(outcome, EngineFailure):
            raise outcome
        failures.append(outcome)
    if failures and all(failure is not None for failure in failures):
        raise EngineFailure(f"no engine took the weights {version}: {failures[0]}")
    return failures
