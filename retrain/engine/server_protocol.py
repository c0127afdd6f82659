"""What SGLang's native protocol asks: bodies of requests, checked field by field.

The protocol is that of SGLang 0.5.15: `srt/managers/io_struct.py` and
`srt/sampling/sampling_params.py`. What this server cannot do is refused under its name, never
ignored; a field that asks for nothing passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from retrain.engine.base import SamplingParams
from retrain.engine.stop_strings import StopStrings

GREEDY_BELOW = 1e-6
"""SGLang samples greedily below this temperature."""
TokenId = Annotated[int, Field(ge=0)]
NOTHING: tuple[Any, ...] = (None, False, "", [], {})
"""Values by which a field asks for nothing."""


class Body(BaseModel):
    """A request's JSON: unknown fields and wrong types are refused.

    Attributes:
        unsupported: Fields of SGLang's to the values that ask for nothing special; any other value
            is refused.
    """

    model_config = ConfigDict(extra="forbid", strict=True)
    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = {}

    @model_validator(mode="before")
    @classmethod
    def _refuse_unsupported(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        for name, neutral in cls.unsupported.items():
            if name in given and given[name] not in neutral:
                shown = repr(given[name])[:60]
                raise ValueError(f"{name}: {shown} is not supported by this server; leave it out")
        return {name: value for name, value in given.items() if name not in cls.unsupported}


class SamplingBody(Body):
    """`sampling_params` of /generate, with SGLang's defaults; null means the default."""

    unsupported = {
        "min_p": (None, 0),
        "frequency_penalty": (None, 0),
        "presence_penalty": (None, 0),
        "repetition_penalty": (None, 1),
        "min_new_tokens": (None, 0),
        "n": (None, 1),
        "stop_regex": (None, "", []),
        "json_schema": (None,),
        "regex": (None,),
        "ebnf": (None,),
        "structural_tag": (None,),
        "custom_params": (None, {}),
        "logit_bias": (None, {}),
        "stream_interval": (None,),
    }

    max_new_tokens: Annotated[int, Field(ge=1)] | None = 128
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] | None = 1.0
    top_k: Annotated[int, Field(ge=-1)] | None = -1
    stop: str | list[str] | None = None
    stop_token_ids: list[TokenId | None] | None = None
    ignore_eos: bool | None = False
    skip_special_tokens: bool | None = True
    spaces_between_special_tokens: bool | None = True
    no_stop_trim: bool | None = False
    sampling_seed: int | None = None

    @model_validator(mode="after")
    def _check_top_k(self) -> SamplingBody:
        if self.top_k == 0:
            raise ValueError("top_k: 0, expected -1 (off) or at least 1")
        return self

    @property
    def stop_texts(self) -> tuple[str, ...]:
        """Texts that end the turn; empty ones are none."""
        given = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return tuple(filter(None, given))

    def sampling(
        self, *, room: int, eos_ids: frozenset[int], strings: StopStrings | None
    ) -> SamplingParams:
        """What the engine is asked.

        Args:
            room: How many tokens fit after the prompt; written where max_new_tokens is null.
            eos_ids: What ends a turn of this model; `ignore_eos` switches all stop tokens off.
            strings: `stop_texts`, with what decodes; None where there are none.
        """
        stops = {token for token in self.stop_token_ids or () if token is not None}
        temperature = 1.0 if self.temperature is None else self.temperature
        return SamplingParams(
            max_tokens=room if self.max_new_tokens is None else self.max_new_tokens,
            temperature=0.0 if temperature < GREEDY_BELOW else temperature,
            top_p=1.0 if self.top_p is None else self.top_p,
            top_k=-1 if self.top_k is None else self.top_k,
            stop_token_ids=frozenset() if self.ignore_eos else frozenset(stops) | eos_ids,
            stop_strings=strings,
        )


class GenerateBody(Body):
    """POST /generate: one request, answered at once and whole."""

    unsupported = {
        "stream": NOTHING,
        "image_data": NOTHING,
        "video_data": NOTHING,
        "audio_data": NOTHING,
        "input_embeds": NOTHING,
        "logprob_start_len": (None, -1),
        "token_ids_logprob": NOTHING,
        "return_text_in_logprobs": NOTHING,
        "return_hidden_states": NOTHING,
        "return_routed_experts": NOTHING,
        "custom_logit_processor": NOTHING,
        "session_params": NOTHING,
        "lora_path": NOTHING,
    }

    rid: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    input_ids: list[TokenId] | None = None
    text: str | None = None
    sampling_params: SamplingBody | None = None
    return_logprob: bool | None = False
    top_logprobs_num: Annotated[int, Field(ge=0)] | None = 0
    routing_key: str | None = None

    @model_validator(mode="after")
    def _one_prompt(self) -> GenerateBody:
        if (self.input_ids is None) == (self.text is None):
            raise ValueError("give the prompt once: either input_ids or text")
        if self.top_logprobs_num and not self.return_logprob:
            raise ValueError("top_logprobs_num: needs return_logprob: true")
        single = self.sampling.max_new_tokens == 1
        if (self.top_logprobs_num or 0) > 1 or (self.top_logprobs_num and not single):
            raise ValueError("top_logprobs_num: only 1 is supported, with max_new_tokens: 1")
        return self

    @property
    def sampling(self) -> SamplingBody:
        """`sampling_params`, or the defaults."""
        return self.sampling_params or SamplingBody()


class AbortBody(Body):
    """POST /abort_request."""

    unsupported = {"finished_reason": NOTHING}

    rid: str | None = None
    abort_all: bool = False
    abort_message: str | None = None


class PauseBody(Body):
    """POST /pause_generation."""

    mode: Literal["abort", "retract", "in_place"] = "abort"


class ContinueBody(Body):
    """POST /continue_generation."""

    torch_empty_cache: bool = True


class UpdateBody(Body):
    """POST /update_weights_from_disk."""

    unsupported = {
        "load_format": (None, "auto", "safetensors"),
        "is_async": (False,),
        "keep_pause": (False,),
        "recapture_cuda_graph": (False,),
        "flush_cache": (True,),
        "manifest": (None,),
    }

    model_path: Annotated[str, Field(min_length=1)]
    weight_version: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    abort_all_requests: bool = False
    torch_empty_cache: bool = False
    token_step: int = 0

    @model_validator(mode="before")
    @classmethod
    def _number_to_text(cls, given: Any) -> Any:
        """Take a version that is a whole number, as trainers count their steps."""
        if not isinstance(given, dict) or type(given.get("weight_version")) is not int:
            return given
        return {**given, "weight_version": str(given["weight_version"])}


class MemoryBody(Body):
    """POST /release_memory_occupation and /resume_memory_occupation; no tags mean all of it."""

    tags: list[Literal["weights", "kv_cache", "cuda_graph"]] | None = None


class WorkerBody(Body):
    """POST /workers, as sglang-router takes it."""

    url: Annotated[str, Field(min_length=1)]
    worker_type: Literal["regular"] = "regular"


class TokenizeBody(Body):
    """POST /tokenize."""

    prompt: str
    model: str | None = None
    add_special_tokens: bool = True
