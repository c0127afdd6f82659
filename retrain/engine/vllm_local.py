"""`LocalVLLMEngine`: turns written by a vLLM `LLM` object that lives in this process.

Read and run with vLLM 0.31.0, the newest that TRL 1.16 takes (0.22.0 to 0.31.0).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

from retrain.engine.base import EngineCapabilities, Generation, SamplingParams
from retrain.engine.http_answer import ServedModel, check_answer
from retrain.engine.http_logprobs import LogprobMode, why_not_exact
from retrain.engine.request_checks import check_request
from retrain.engine.stop_strings import StopStrings
from retrain.engine.vllm_loop import HERE, LocalTurn, StepLoop
from retrain.errors import ConfigError, EngineFailure


class LocalVLLMEngine:
    """An `InferenceEngine` over one `LLM`, which nobody else may have generate meanwhile.

    - Length, seed and stop tokens are those of the request; the KV cache of a conversation's
      earlier turns is found again by vLLM's prefix cache.
    - Tensor parallelism must be 1: with more, all processes must take the same steps together,
      and conversations of different lengths would wait for each other for ever.
    - Weights are the trainer's: others load them into the `LLM`, and reset its prefix cache, while
      no turn is being written; then `weights_changed` is called.
    """

    def __init__(
        self,
        llm: Callable[[], Any],
        *,
        model: ServedModel | None = None,
        enter: Callable[[], None] = lambda: None,
        weight_version: str = "0",
    ) -> None:
        """Take the object; nothing is asked of it before the first turn.

        Args:
            llm: Gives the `LLM`.
            model: What it serves; None checks no ids.
            enter: Called first in the thread that steps the engine, to choose its CUDA device.
            weight_version: The weights to begin with.
        """
        self.weight_version = weight_version
        self._llm = llm
        self._model = model or ServedModel()
        self._enter = enter
        self._loop: StepLoop | None = None
        self._mode = LogprobMode.TEMPERED
        self._sessions: dict[str, str] = {}

    @property
    def capabilities(self) -> EngineCapabilities:
        """Seeded and abortable."""
        return EngineCapabilities(seeded=True, abortable=True)

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

        Raises:
            EngineFailure: The request cannot be served, or a step failed.
            ConfigError: The object's logprobs are not those of the sampled distribution.
        """
        if images:
            raise EngineFailure(f"{HERE}: retrain gives it no images")
        if session_id in self._sessions:
            raise EngineFailure(f"session {session_id!r} already has a running request")
        served = self._model
        check_request(input_ids, params, vocab_size=served.vocab_size, model=served.name)
        loop = self._started()
        wrong = why_not_exact(self._mode, params, truncated=True)
        if wrong is not None:
            raise ConfigError(
                f"{HERE}: {wrong}; make it with logprobs_mode='processed_logprobs', or set "
                "temperature: 1, top_p: 1 and top_k: -1 under algorithm.hyperparameters"
            )
        request_id = uuid4().hex
        self._sessions[session_id] = request_id
        sampling = vllm_params(params, seed)
        turn = LocalTurn(request_id, list(input_ids), sampling, self.weight_version)
        try:
            generation = await loop.run(turn)
        finally:
            del self._sessions[session_id]
        check_answer(generation, params, self._model, HERE)
        return generation

    async def abort(self, session_id: str) -> None:
        """End the session's running request with what it has written so far, if it has one."""
        request_id = self._sessions.get(session_id)
        if request_id is not None and self._loop is not None:
            self._loop.abort(request_id)

    async def release(self, session_id: str) -> None:
        """Forget the session; its running request, if it has one, is aborted."""
        await self.abort(session_id)

    def weights_changed(self, version: str) -> None:
        """Say that the object has new weights: `version` stands on the turns from now on."""
        self.weight_version = version

    def close(self) -> None:
        """Stop the thread; the object itself is left to its owner."""
        if self._loop is not None:
            self._loop.close()

    def _started(self) -> StepLoop:
        if self._loop is None:
            engine = self._llm().llm_engine
            processed = engine.model_config.logprobs_mode == "processed_logprobs"
            self._mode = LogprobMode.TEMPERED if processed else LogprobMode.RAW
            self._loop = StepLoop(engine, self._enter)
        return self._loop


def vllm_params(params: SamplingParams, seed: int) -> Any:
    """Our sampling parameters as vLLM's.

    Everything that a model's generation_config.json could change is said. Only the sampled token's
    logprob is asked for (`logprobs=0`), and each step tells only what is new.
    """
    from vllm import SamplingParams as VLLMParams
    from vllm.sampling_params import RequestOutputKind

    strings = params.stop_strings
    return VLLMParams(
        n=1,
        max_tokens=params.max_tokens,
        temperature=params.temperature,
        top_p=params.top_p,
        top_k=params.top_k,
        min_p=0.0,
        repetition_penalty=1.0,
        presence_penalty=0.0,
        frequency_penalty=0.0,
        seed=seed,
        stop_token_ids=sorted(params.stop_token_ids),
        ignore_eos=True,
        logprobs=0,
        detokenize=strings is not None,
        output_kind=RequestOutputKind.DELTA,
        **({} if strings is None else _stopping_behind(strings)),
    )


def _stopping_behind(strings: StopStrings) -> dict[str, Any]:
    """What makes vLLM look for strings in a turn's text, which it must decode for that."""
    return {
        "stop": list(strings.texts),
        "include_stop_str_in_output": True,
        "skip_special_tokens": False,
        "spaces_between_special_tokens": False,
    }
