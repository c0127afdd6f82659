"""Turns of a served model: a request's JSON in, an answer's JSON out."""

from __future__ import annotations

import random
import time
from typing import Any
from uuid import uuid4

from retrain.engine.base import Generation, SamplingParams
from retrain.engine.server_answers import generation_answer
from retrain.engine.server_errors import RequestRefused
from retrain.engine.server_protocol import GenerateBody
from retrain.engine.server_requests import Requests, Ticket
from retrain.engine.stop_strings import StopStrings
from retrain.engine.transformers_serving import LoadedModel
from retrain.rendering.decoding import make_decode
from retrain.types import FinishReason

_SEED_BITS = 63


class TurnWriter:
    """Writes turns with one model.

    Attributes:
        usable: Whether the model is in memory.
    """

    def __init__(self, loaded: LoadedModel, requests: Requests, *, seed: int | None) -> None:
        """Take a loaded model.

        Args:
            loaded: The model and its engine.
            requests: Where each request is counted.
            seed: Seeds the requests that bring no sampling_seed; None draws from the system.
        """
        self.usable = True
        self._loaded = loaded
        self._requests = requests
        self._seeds = random.Random(seed)
        self._decode = None if loaded.tokenizer is None else make_decode(loaded.tokenizer)

    async def generate(self, body: GenerateBody, key: str | None) -> dict[str, Any]:
        """Write one turn.

        Args:
            body: The request.
            key: The session that it belongs to; None where it stands alone.

        Raises:
            RequestRefused: It cannot be served.
            EngineFailure: The engine failed.
        """
        began = time.monotonic()
        prompt = self._prompt(body)
        params = self._params(body, len(prompt))
        rid = body.rid or uuid4().hex
        async with self._requests.enter(rid, key) as ticket:
            written = await self._write(ticket, prompt, params, body.sampling.sampling_seed)
            top = await self._top(ticket, prompt, params) if body.top_logprobs_num else None
        matched = _matched(written, params)
        return generation_answer(
            rid,
            written,
            prompt_tokens=len(prompt),
            matched=matched,
            text=self._text(body, written, matched),
            logprobs=bool(body.return_logprob),
            top_logprob=top,
            seconds=time.monotonic() - began,
        )

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Tokens of a text.

        Raises:
            RequestRefused: There is no tokenizer.
        """
        if self._loaded.tokenizer is None:
            raise RequestRefused("the model's folder has no tokenizer: send input_ids")
        return list(self._loaded.tokenizer.encode(text, add_special_tokens=special))

    def _prompt(self, body: GenerateBody) -> list[int]:
        if body.input_ids is not None:
            prompt = body.input_ids
        else:
            prompt = self.encode(body.text or "", special=True)
        if not prompt:
            raise RequestRefused("input_ids: the prompt is empty: a model needs at least one token")
        stops = [t for t in body.sampling.stop_token_ids or () if t is not None]
        for name, ids in (("input_ids", prompt), ("stop_token_ids", stops)):
            if ids and max(ids) >= self._loaded.vocabulary:
                known = self._loaded.vocabulary - 1
                raise RequestRefused(f"{name}: {max(ids)}, the model knows 0 to {known}")
        return prompt

    def _params(self, body: GenerateBody, prompt: int) -> SamplingParams:
        room = self._loaded.context_length - prompt
        strings = self._strings(body.sampling.stop_texts)
        params = body.sampling.sampling(room=room, eos_ids=self._loaded.eos_ids, strings=strings)
        if params.max_tokens > room or room < 1:
            raise RequestRefused(
                f"{prompt} prompt tokens + max_new_tokens {params.max_tokens} are more than the "
                f"context length {self._loaded.context_length}; lower one, or start the server "
                "with a larger --context-length"
            )
        return params

    def _strings(self, texts: tuple[str, ...]) -> StopStrings | None:
        if not texts:
            return None
        if self._decode is None:
            raise RequestRefused("stop: the model's folder has no tokenizer; leave it out")
        return StopStrings(texts, self._decode)

    async def _write(
        self, ticket: Ticket, prompt: list[int], params: SamplingParams, seed: int | None
    ) -> Generation:
        if ticket.aborted:
            version = self._loaded.engine.weight_version
            return Generation((), (), FinishReason.ABORT, weight_version=version)
        if not self.usable:
            raise RequestRefused("the model's memory is released", status=503)
        drawn = self._seeds.getrandbits(_SEED_BITS) if seed is None else seed
        engine = self._loaded.engine
        try:
            return await engine.generate(prompt, params, session_id=ticket.session, seed=drawn)
        finally:
            if not ticket.keyed:
                await engine.release(ticket.session)

    async def _top(
        self, ticket: Ticket, prompt: list[int], params: SamplingParams
    ) -> tuple[int, float] | None:
        """The likeliest next token and its logprob at the request's temperature."""
        likeliest = SamplingParams(1, temperature=params.temperature, top_k=1)
        written = await self._write(ticket, prompt, likeliest, 0)
        if not written.output_ids:
            return None
        return written.output_ids[0], written.logprobs[0]

    def _text(self, body: GenerateBody, written: Generation, matched: int | str | None) -> str:
        if self._loaded.tokenizer is None:
            return ""
        ids = list(written.output_ids)
        trims = not body.sampling.no_stop_trim
        if trims and isinstance(matched, int):
            ids = ids[:-1]
        skip = body.sampling.skip_special_tokens is not False
        text: str = self._loaded.tokenizer.decode(ids, skip_special_tokens=skip)
        return text.partition(matched)[0] if trims and isinstance(matched, str) else text


def _matched(written: Generation, params: SamplingParams) -> int | str | None:
    """The stop token or the stop string that ended a generation; None where neither did."""
    if written.finish_reason is not FinishReason.STOP:
        return None
    last, strings = written.output_ids[-1], params.stop_strings
    if last in params.stop_token_ids or strings is None:
        return last
    text = strings.decode(written.output_ids)
    return next(one for one in strings.texts if one in text)
