"""How the trainer's weights come to the engines that write the turns."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from backends.torch.protocol import TrainingBackend
from retrain.errors import EngineFailure


@runtime_checkable
class SharesWeights(Protocol):
    """An engine that writes with the very weights that are trained: nothing is copied."""

    def weights_changed(self, version: str) -> None:
        """Say that the weights are new: `version` stands on the turns from now on."""
        ...


@runtime_checkable
class LoadsWeights(Protocol):
    """An engine whose servers load weights from a folder, such as `SGLangEngine`."""

    async def update_weights_from_checkpoint(self, path: str, version: str) -> None:
        """Load them, and check that every server has them.

        Raises:
            EngineFailure: A server did not; it writes nothing until it has them.
        """
        ...


class Engines:
    """The engines of a run, which get the weights together."""

    def __init__(
        self, engines: Sequence[SharesWeights | LoadsWeights], folder: Path | None = None
    ) -> None:
        """Take the engines.

        Args:
            engines: Each shares the trainer's weights, or loads them from a folder.
            folder: Where weights are written for those that load them: a folder that the servers
                see under the same path. Only the newest ones stay there.

        Raises:
            ValueError: An engine loads weights, and there is no folder.
        """
        self._sharing = [engine for engine in engines if isinstance(engine, SharesWeights)]
        self._loading = [engine for engine in engines if not isinstance(engine, SharesWeights)]
        if self._loading and folder is None:
            raise ValueError("engines that load weights need a folder to load them from")
        self._folder = folder
        self._life = secrets.token_hex(3)
        self._written: Path | None = None

    async def sync(self, backend: TrainingBackend) -> str:
        """Give every engine the trainer's present weights.

        A version that servers load is named after the step and this process's life, so that no
        name is used again after a restart: a server may still hold what a killed run sent.

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
        written = await backend.save_weights(self._folder / version)
        await sync_weights_to_engines(self._loading, written, version)
        if self._written is not None and self._written != written:
            shutil.rmtree(self._written, ignore_errors=True)
        self._written = written
        return version

    def forget(self) -> None:
        """Remove the weights that were written for the engines; the run has ended."""
        if self._written is not None:
            shutil.rmtree(self._written, ignore_errors=True)
            self._written = None


async def sync_weights_to_engines(
    engines: Sequence[LoadsWeights], path: Path, version: str
) -> list[EngineFailure | None]:
    """Have engines load weights, all at the same time.

    An engine that fails has left its server out, and tries again before it uses that server.

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
