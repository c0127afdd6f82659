"""The trainer's weights in vLLM: TRL sends them, at its own condition, before every collection.

TRL syncs where `state.global_step` is not the step that it synced last (grpo_trainer.py,
`_generate`). The keepers do the same a moment earlier, so that TRL finds it done, that evaluation
between two steps is in sync too, and that a failure is told on every process. Written for TRL
1.16; colocated mode and the server's endpoints have run with vLLM 0.31 on a CPU. Sleep mode, NCCL,
FSDP and DeepSpeed need GPUs: they follow TRL's source and have not been run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from backends.trl.vllm_movement import PROBE, PROBE_PARAMS, PROBE_SEED, WeightMovement
from retrain.engine.vllm_engine import VLLMEngine
from retrain.engine.vllm_local import LocalVLLMEngine
from retrain.errors import BackendFailure, RetrainError
from retrain.launch import Launch
from retrain.runtime import EventLoopThread

_PROBE_SESSION = "weight-probe"


class VLLMWeights(ABC):
    """What both modes share."""

    def __init__(
        self, engine: VLLMEngine | LocalVLLMEngine, loop: EventLoopThread, launch: Launch, name: str
    ) -> None:
        """Make a keeper.

        Args:
            engine: Writes the turns.
            loop: Runs it.
            launch: Which process this is.
            name: The engine, for messages.
        """
        self._engine = engine
        self._loop = loop
        self._launch = launch
        self._name = name
        self._movement = WeightMovement(name)
        self._trainer: Any = None
        self._probed: int | None = None

    def attach(self, trainer: Any) -> None:
        """See `WeightKeeper`."""
        self._trainer = trainer

    @property
    def due(self) -> bool:
        """See `WeightKeeper`."""
        return bool(self._trainer.state.global_step != self._trainer._last_loaded_step)

    def sync(self) -> None:
        """See `WeightKeeper`.

        Raises:
            RetrainError: What failed on this process, or which rank failed.
        """
        trainer = self._trainer
        if not self.due:
            return
        self._launch.agree(self._failure(self._require_ready))
        failure = self._failure(self._send)
        if failure is not None and self._sharded:
            raise failure  # the others are in a gather, and cannot be told
        self._launch.agree(failure)
        trainer._last_loaded_step = trainer.state.global_step

    @contextmanager
    def current(self) -> Iterator[None]:
        """See `WeightKeeper`."""
        self.sync()
        with self._awake():
            self._engine.weights_changed(str(self._trainer.state.global_step))
            self._launch.agree(self._failure(self._probe))
            yield

    def measured(self, gap: float) -> None:
        """See `WeightKeeper`."""
        self._movement.measured(gap)

    def drifted(self, gap: float) -> None:
        """See `WeightKeeper`."""
        self._movement.drifted(gap)

    @property
    def _sharded(self) -> bool:
        parts = self._trainer.vllm_generation._dist
        return bool(parts.is_zero3 or parts.is_fsdp)

    def _send(self) -> None:
        try:
            self._trainer.vllm_generation.sync_weights()
        except Exception as error:
            raise BackendFailure(
                f"TRL could not send the weights to {self._name}: {type(error).__name__}: {error}"
            ) from error
        self._forget()

    def _probe(self) -> None:
        """Ask what other weights would answer otherwise, once per sync."""
        step = self._trainer.state.global_step
        if step == self._probed:
            return
        ask = self._engine.generate(PROBE, PROBE_PARAMS, session_id=_PROBE_SESSION, seed=PROBE_SEED)
        self._movement.synced(self._loop.run(ask))
        self._loop.run(self._engine.release(_PROBE_SESSION))
        self._probed = step

    @staticmethod
    def _failure(work: Callable[[], None]) -> RetrainError | None:
        try:
            work()
        except RetrainError as error:
            return error
        return None

    @abstractmethod
    def _require_ready(self) -> None:
        """See that a sync can be begun: whoever waits in it for the other end waits for ever."""

    @abstractmethod
    def _forget(self) -> None:
        """Drop what was computed with older weights; TRL asks for it and does not look."""

    @abstractmethod
    @contextmanager
    def _awake(self) -> Iterator[None]:
        """Hold what generating takes."""
        yield


class ServerWeights(VLLMWeights):
    """The keeper of a vLLM server, to which the main process sends the weights over NCCL."""

    _engine: VLLMEngine

    def _require_ready(self) -> None:
        self._loop.run(self._engine.require_up())

    def _forget(self) -> None:
        if self._launch.first:
            self._loop.run(self._engine.forget_prefixes())

    @contextmanager
    def _awake(self) -> Iterator[None]:
        yield


class ColocatedWeights(VLLMWeights):
    """The keeper of vLLM in each training process, which sleeps between collections if asked to."""

    @property
    def llm(self) -> Any:
        """TRL's `LLM` object."""
        return self._trainer.vllm_generation.llm

    def _require_ready(self) -> None:
        """Nothing to wait for: it is the same process."""

    def _forget(self) -> None:
        if not self.llm.reset_prefix_cache():
            raise BackendFailure(f"{self._name} still holds the KV cache of older weights")

    @contextmanager
    def _awake(self) -> Iterator[None]:
        """Wake vLLM as `VLLMGeneration.generate` does; level 2 has dropped its weights."""
        generation = self._trainer.vllm_generation
        if not generation.enable_sleep_mode:
            yield
            return
        if generation._llm_weights_sleeping:
            self._send()
        self.llm.wake_up(tags=["kv_cache"])
        try:
            yield
        finally:
            self.llm.sleep(level=2)
            generation._llm_weights_sleeping = True
