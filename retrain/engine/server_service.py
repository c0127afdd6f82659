"""What the server does: turns, pauses, new weights and memory, over one in-process engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from retrain.engine.base import SamplingParams
from retrain.engine.server_errors import RequestRefused
from retrain.engine.server_protocol import UpdateBody
from retrain.engine.server_requests import Requests
from retrain.engine.server_turns import TurnWriter
from retrain.engine.server_weights import WeightFolders, WeightVersions
from retrain.engine.transformers_parking import ParkedWeights
from retrain.engine.transformers_serving import LoadedModel
from retrain.engine.transformers_weights import check_vocabulary, put_weights, read_weights
from retrain.errors import ConfigError, EngineFailure

HEALTH_SECONDS = 20.0
"""How long the engine's thread may take to answer before the server counts as ill."""
ABORT_SECONDS = 1.0
"""How long an abort waits for the aborted answers; it holds without them too."""
_PAUSED, _CHANGING = "paused", "changing"


class ModelService:
    """One model, served; all methods belong to one event loop.

    Attributes:
        loaded: The model and its engine.
        requests: The requests in the house.
        turns: Writes turns.
        versions: What the weights are called.
        model_path: Where the weights came from.
    """

    def __init__(self, loaded: LoadedModel, folders: WeightFolders, *, seed: int | None) -> None:
        """Take a loaded model.

        Args:
            loaded: The model and its engine.
            folders: Where new weights may come from.
            seed: Seeds the requests that bring no sampling_seed; None draws from the system.
        """
        self.loaded = loaded
        self.requests = Requests()
        self.turns = TurnWriter(loaded, self.requests, seed=seed)
        self.versions = WeightVersions(loaded.engine.weight_version)
        self.model_path = loaded.path
        self._folders = folders
        self._changing = asyncio.Lock()
        self._held = False
        self._parked: ParkedWeights | None = None
        self._kv_released = False

    async def abort(self, rid: str | None) -> None:
        """End one request, or all of them where `rid` is None; each answers what it has."""
        for session in await self.requests.abort(rid):
            await self.loaded.engine.abort(session)

    async def abort_and_wait(self, rid: str | None) -> None:
        """`abort`, and wait a moment for the answers: slime looks at the load right afterwards."""
        await self.abort(rid)
        with suppress(TimeoutError):
            async with asyncio.timeout(ABORT_SECONDS):
                await self.requests.answered()

    async def pause(self, mode: str) -> None:
        """Stop generating; requests that arrive from now on wait.

        Args:
            mode: "abort" ends what runs, "retract" keeps it and drops its keys and values,
                "in_place" keeps those too.
        """
        async with self._changing:
            self.requests.shut(_PAUSED)
            engine = self.loaded.engine
            if mode == "abort":
                for ticket in self.requests.running:
                    await self.abort(ticket.rid)
                await self.requests.drained()
                return
            self._hold(True)
            if mode == "retract":
                engine.weights_changed(self.versions.current)
            await engine.between_steps(_nothing)

    async def resume(self) -> None:
        """Generate again."""
        async with self._changing:
            self._hold(False)
            await self.requests.reopen(_PAUSED)

    async def flush(self) -> bool:
        """Drop all keys and values that are kept; False while requests run."""
        if self.requests.running:
            return False
        self.loaded.engine.weights_changed(self.versions.current)
        await self.loaded.engine.between_steps(_nothing)
        return True

    async def update(self, body: UpdateBody) -> str:
        """Load new weights: all of them, or none.

        They are read beside the old ones first. Then, unless generation is paused, requests that
        run are waited for and new ones wait.

        Returns:
            What happened, in words.

        Raises:
            RequestRefused: They cannot be loaded; the old ones still serve.
        """
        folder = self._folders.resolve(body.model_path)
        async with self._changing:
            if self._parked is not None:
                raise RequestRefused("the weights are released: resume the memory first")
            if body.abort_all_requests:
                await self.abort(None)
            new = await asyncio.to_thread(self._read, folder)
            async with self._shut():
                if not self._held:
                    await self.requests.drained()
                model, engine = self.loaded.model, self.loaded.engine
                try:
                    changed = await engine.between_steps(lambda: put_weights(model, new))
                except RuntimeError as error:
                    raise RequestRefused(f"{folder}: does not fit: {error}") from error
                version = self.versions.next_after(body.weight_version)
                warning = self.versions.take(version, changed=changed)
                engine.weights_changed(version)
                self.model_path = body.model_path
        said = f"Succeeded to update model weights. Weight version updated to {version}."
        return f"{said} {warning}".strip()

    async def release_memory(self, tags: Sequence[str] | None) -> None:
        """Give memory back.

        Raises:
            RequestRefused: Requests run, or the weights cannot be put away.
        """
        async with self._changing, self._shut():
            if self.requests.running:
                raise RequestRefused("requests are running: pause the generation first")
            engine = self.loaded.engine
            if self._parked is None and (tags is None or "weights" in tags):
                try:
                    self._parked = await engine.between_steps(
                        lambda: ParkedWeights(self.loaded.model)
                    )
                except OSError as error:
                    raise RequestRefused(f"the weights cannot be put away: {error}") from error
            self._kv_released = self._kv_released or tags is None or "kv_cache" in tags
            await engine.release_memory()
            self.turns.usable = self._parked is None and not self._kv_released

    async def resume_memory(self, tags: Sequence[str] | None) -> None:
        """Take the memory again."""
        async with self._changing:
            parked = self._parked
            if parked is not None and (tags is None or "weights" in tags):
                await self.loaded.engine.between_steps(parked.put_back)
                self._parked = None
            if tags is None or "kv_cache" in tags:
                self._kv_released = False
            self.turns.usable = self._parked is None and not self._kv_released

    async def healthy(self) -> bool:
        """Whether the engine answers: with a token where nothing else is going on."""
        idle = self.requests.open and not self.requests.running and self.turns.usable
        try:
            async with asyncio.timeout(HEALTH_SECONDS):
                if idle:
                    await self._write_one_token()
                else:
                    await self.loaded.engine.between_steps(_nothing)
        except (TimeoutError, EngineFailure):
            return False
        return True

    async def stop(self) -> None:
        """Take no more requests, end those in the house, and wait until they have answered."""
        self.requests.stopping = True
        await self.abort(None)
        self._hold(False)
        await self.requests.emptied()

    async def _write_one_token(self) -> None:
        engine, params = self.loaded.engine, SamplingParams(1, temperature=0.0)
        async with self.requests.enter(f"HEALTH_CHECK_{uuid4().hex}", None) as ticket:
            await engine.generate([0], params, session_id=ticket.session, seed=0)
            await engine.release(ticket.session)

    @asynccontextmanager
    async def _shut(self) -> AsyncIterator[None]:
        """Let no request pass meanwhile."""
        self.requests.shut(_CHANGING)
        try:
            yield
        finally:
            await self.requests.reopen(_CHANGING)

    def _hold(self, held: bool) -> None:
        self._held = held
        self.loaded.engine.hold(held)

    def _read(self, folder: Path) -> Any:
        tokenizer = self.loaded.tokenizer
        try:
            check_vocabulary(folder, None if tokenizer is None else tokenizer.get_vocab())
            return read_weights(folder, self.loaded.model)
        except ConfigError as error:
            raise RequestRefused(str(error)) from error


def _nothing() -> None:
    """What the engine's thread answers to show that it is between two steps."""
