"""`TransformersEngine`: writes turns with the very model that is being trained, in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import nn

from retrain.engine.base import EngineCapabilities, Generation, SamplingParams
from retrain.engine.request_checks import check_request
from retrain.engine.transformers_architectures import slot_bytes, why_no_slots
from retrain.engine.transformers_forward import Forward, SingleRowForward, SlotForward
from retrain.engine.transformers_memory import give_back_cached, slots_advice
from retrain.engine.transformers_mode import GenerationMode
from retrain.engine.transformers_requests import Request
from retrain.engine.transformers_scheduler import Scheduler
from retrain.engine.transformers_worker import Worker
from retrain.errors import ConfigError, EngineFailure
from retrain.vision.base import VisionProcessor, refuse_forged

T = TypeVar("T")


class TransformersEngine:
    """An `InferenceEngine` over a plain transformers causal language model.

    Every episode has a KV slot that stays over its turns, so that a turn computes its new tokens
    only; requests join the running batch between two steps. A token depends on its turn's seed and
    its position in the turn, not on what runs beside it (up to the float noise of another batch
    shape). Models that cannot run on slots compute their whole history every turn, one row at a
    time; `fallback_reason` says why.

    All forwards run in one thread. Do not change the weights while a request runs, and call
    `weights_changed` afterwards.

    Attributes:
        weight_version: Stands on the generations of requests made from now on.
        fallback_reason: Why the model does not run on slots; None where it does.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        max_slots: int,
        max_seq_len: int,
        autocast_dtype: torch.dtype | None = None,
        prefill_chunk: int = 1024,
        eviction_grace: float = 0.05,
        weight_version: str = "0",
        vision: VisionProcessor | None = None,
    ) -> None:
        """Take a model and start the engine's thread; KV memory is taken when it is needed.

        Args:
            model: A causal language model of transformers, or one that peft has wrapped.
            max_slots: Most requests that run together, and most episodes whose keys and values
                are kept; `slots_that_fit` computes it.
            max_seq_len: Most tokens of an episode, what is still to be written included.
            autocast_dtype: What to compute in, and what to keep keys and values in; None computes
                in the model's own type.
            prefill_chunk: Most prompt tokens that are computed between two decoding steps.
            eviction_grace: Seconds for which an episode keeps its slot after a turn although
                another one waits for a slot.
            weight_version: The weights to begin with.
            vision: The model's image processor; None takes no images.

        Raises:
            ConfigError: A size that cannot be; the message names it.
        """
        config: Any = model.config
        _check_sizes(config, max_slots, max_seq_len, prefill_chunk)
        self.weight_version = weight_version
        self.fallback_reason = why_no_slots(config)
        self._max_seq_len = max_seq_len
        self._vocabulary = int(config.get_text_config().vocab_size)
        self._vision = vision
        forward: Forward = SingleRowForward(model, vision)
        one: int | None = None
        if self.fallback_reason is None:
            one = slot_bytes(config, max_seq_len, autocast_dtype or _type_of(model))
            forward = SlotForward(
                model, max_slots=max_slots, max_seq_len=max_seq_len, dtype=autocast_dtype
            )
        scheduler = Scheduler(
            forward,
            max_slots=max_slots,
            prefill_chunk=prefill_chunk,
            eviction_grace=eviction_grace,
            weight_version=weight_version,
        )
        self._scheduler = scheduler
        self._worker = Worker(
            scheduler,
            GenerationMode(model, autocast_dtype),
            when_out_of_memory=slots_advice(max_slots, max_seq_len, one),
        )

    @property
    def capabilities(self) -> EngineCapabilities:
        """Seeded and abortable; with images where there is an image processor."""
        seen = self._vision is not None
        return EngineCapabilities(seeded=True, abortable=True, images=seen)

    async def generate(
        self,
        input_ids: Sequence[int],
        params: SamplingParams,
        *,
        session_id: str,
        seed: int,
        images: Sequence[str] | None = None,
    ) -> Generation:
        """Continue `input_ids`.

        `meta` of the answer holds `prompt_tokens` and `cached_tokens`: how many of them did not
        have to be computed.

        Raises:
            EngineFailure: The request cannot be served, a step failed, or the engine is closed.
        """
        if images and self._vision is None:
            raise EngineFailure("the in-process engine takes no images with this model")
        request = Request(session_id, list(input_ids), params, seed, tuple(images or ()))
        self._check(request)
        generation = await self._worker.run(request)
        refuse_forged(generation.output_ids, self._vision)
        return generation

    async def abort(self, session_id: str) -> None:
        """End the session's running request with what it has written so far, if it has one."""
        self._worker.post(lambda: self._scheduler.abort(session_id))

    async def release(self, session_id: str) -> None:
        """Forget the session and free its slot; the last session to go frees all KV memory."""
        self._worker.post(lambda: self._scheduler.release(session_id))

    def weights_changed(self, version: str) -> None:
        """Say that the model's weights are new: everything computed with the old ones is dropped.

        May be called from any thread.

        Args:
            version: Stands on the generations of requests made from now on. A request that runs
                meanwhile computes its stream again and keeps the older version.
        """
        self.weight_version = version
        self._worker.post(lambda: self._scheduler.weights_changed(version))

    async def release_memory(self) -> None:
        """Drop what is kept between turns, and give its memory to others on the device.

        A request that runs computes its stream again.

        Raises:
            EngineFailure: The engine is closed.
        """
        self.weights_changed(self.weight_version)
        await self.between_steps(give_back_cached)

    def hold(self, held: bool) -> None:
        """Stop computing between two steps, or go on; requests wait meanwhile."""
        self._worker.post(lambda: self._scheduler.hold(held))

    async def between_steps(self, change: Callable[[], T]) -> T:
        """Call a function in the engine's thread while no forward runs: it may change the weights.

        Call `weights_changed` afterwards if it does.

        Args:
            change: Called without arguments; generation waits for it.

        Returns:
            What it returns.

        Raises:
            EngineFailure: The engine is closed.
        """
        return await self._worker.between_steps(change)

    def close(self) -> None:
        """Stop the thread; whoever still waits gets an `EngineFailure`."""
        self._worker.close()

    def _check(self, request: Request) -> None:
        prompt, params = request.prompt, request.params
        check_request(prompt, params, vocab_size=self._vocabulary)
        if len(prompt) + params.max_tokens > self._max_seq_len:
            raise EngineFailure(
                f"{len(prompt)} prompt tokens + {params.max_tokens} to write = "
                f"{len(prompt) + params.max_tokens} > max_seq_len {self._max_seq_len}"
            )


def _type_of(model: nn.Module) -> torch.dtype:
    return next(model.parameters()).dtype


def _check_sizes(config: Any, max_slots: int, max_seq_len: int, prefill_chunk: int) -> None:
    sizes = {"max_slots": max_slots, "max_seq_len": max_seq_len, "prefill_chunk": prefill_chunk}
    for name, size in sizes.items():
        if size < 1:
            raise ConfigError(f"{name} is {size}, expected at least 1")
    known = getattr(config.get_text_config(), "max_position_embeddings", None)
    if known is not None and max_seq_len > known:
        raise ConfigError(
            f"max_seq_len is {max_seq_len}, the model knows {known} positions "
            "(max_position_embeddings of its configuration)"
        )
