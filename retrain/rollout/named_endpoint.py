"""`NamedEndpoint`: the engine of a manager that learns of it from the one who plays."""

from __future__ import annotations

from collections.abc import Sequence

from retrain.engine.base import EngineCapabilities, Generation, InferenceEngine, SamplingParams
from retrain.errors import ConfigError


class NamedEndpoint:
    """The engine that `generate_fn` names when it is called."""

    def __init__(self) -> None:
        """Begin with none."""
        self._engine: InferenceEngine | None = None

    def take(self, engine: InferenceEngine) -> None:
        """Take the engine; a manager has one.

        Raises:
            ConfigError: It has another one already.
        """
        if self._engine is not None and engine is not self._engine:
            raise ConfigError("generate_fn: uses several endpoints in one manager; make one each")
        self._engine = engine

    @property
    def capabilities(self) -> EngineCapabilities:
        """What the engine can do."""
        return self._known().capabilities

    async def generate(
        self,
        input_ids: Sequence[int],
        params: SamplingParams,
        *,
        session_id: str,
        seed: int,
        images: Sequence[str] | None = None,
    ) -> Generation:
        """Continue `input_ids`."""
        return await self._known().generate(
            input_ids, params, session_id=session_id, seed=seed, images=images
        )

    async def abort(self, session_id: str) -> None:
        """End the session's running request."""
        await self._known().abort(session_id)

    async def release(self, session_id: str) -> None:
        """Forget the session."""
        await self._known().release(session_id)

    def _known(self) -> InferenceEngine:
        if self._engine is None:
            raise ConfigError("generate_fn: has named no endpoint yet")
        return self._engine
