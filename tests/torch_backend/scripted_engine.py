"""An engine that writes by seed alone, and takes weights as servers do: from a folder, whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from retrain.engine.factory import EngineContext
from retrain.engine.scripted import ScriptedEngine
from retrain.errors import EngineFailure
from retrain.seeds import derive_seed


class SeededEngine(ScriptedEngine):
    """Writes one to six tokens by seed; its logprobs are the script's."""

    def __init__(self, fail_at: int) -> None:
        super().__init__(self.write)
        self._fail_at = fail_at
        self._names: frozenset[str] = frozenset()

    def write(self, ids: Any, params: Any, session: str, seed: int) -> list[int]:
        if self.weight_version.partition("-")[0] == str(self._fail_at):
            raise EngineFailure("the server fell off the network")
        length = 1 + derive_seed("length", seed) % 6
        tokens = [20 + derive_seed("token", seed, place) % 200 for place in range(length)]
        return [*tokens, min(params.stop_token_ids)]

    async def update_weights_from_checkpoint(self, path: str, version: str) -> None:
        names = frozenset(load_file(Path(path) / "model.safetensors"))
        assert not any("lora" in name or "base_layer" in name for name in names)
        assert names == (self._names or names), "whole weights, under the model's own names"
        self._names = names
        self.weight_version = version

    def close(self) -> None:
        """Nothing runs."""


def seeded(context: EngineContext, fail_at: int = -1) -> SeededEngine:
    """Make the engine.

    Args:
        context: Of the run; not needed.
        fail_at: Fails with the weights of this optimizer step.
    """
    return SeededEngine(fail_at)
