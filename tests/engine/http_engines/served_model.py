"""The demo's tiny model with an in-process engine over it: what the test servers serve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import torch

from retrain.engine.base import Generation, SamplingParams
from retrain.engine.transformers_engine import TransformersEngine
from retrain.types import FinishReason

EOS = 2
VOCABULARY = 354
_ONE_AT_A_TIME = Lock()


def load_model(path: str) -> Any:
    """Load a model, one thread at a time.

    transformers switches the tying of weights off for all models while it loads one; where two
    threads do so at once, it stays off for the rest of the process.
    """
    from transformers import AutoModelForCausalLM

    with _ONE_AT_A_TIME:
        return AutoModelForCausalLM.from_pretrained(path)


@dataclass
class Served:
    """A model, its tokenizer and its engine."""

    path: str
    model: Any
    tokenizer: Any
    engine: TransformersEngine

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def logprobs(
        self, prompt: Sequence[int], output: Sequence[int], temperature: float
    ) -> list[float]:
        """Logprobs by one plain forward."""
        logits = self._logits([*prompt, *output])[len(prompt) - 1 : -1] / temperature
        return torch.log_softmax(logits, -1)[range(len(output)), list(output)].tolist()

    def top(self, prompt: Sequence[int], temperature: float) -> tuple[int, float]:
        """The likeliest next token and its logprob."""
        logprobs = torch.log_softmax(self._logits(list(prompt))[-1] / temperature, -1)
        best = int(logprobs.argmax())
        return best, float(logprobs[best])

    def load(self, path: str) -> None:
        """Take over other weights."""
        self.model.load_state_dict(load_model(path).state_dict())
        self.path = path

    def _logits(self, ids: list[int]) -> torch.Tensor:
        with torch.no_grad():
            return self.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float()


def stopped(
    served: Served, answer: Generation, strings: Sequence[str], window: int | None = None
) -> tuple[Generation, str | None]:
    """A turn as a server ends it that stops behind a string, and which string it was.

    Args:
        served: Whose tokenizer decodes.
        answer: What was written without regard to them.
        strings: The texts.
        window: The tokens at the end that are looked at, as SGLang does; None looks at all.
    """
    ids = answer.output_ids
    for end in range(1, len(ids) + 1):
        start = 0 if window is None else max(0, end - window)
        text = served.tokenizer.decode(ids[start:end])
        found = next((one for one in strings if one in text), None)
        if found is not None:
            kept = {"output_ids": ids[:end], "logprobs": answer.logprobs[:end]}
            return replace(answer, finish_reason=FinishReason.STOP, **kept), found
    return answer, None


async def generate(
    served: Served, ids: Sequence[int], params: SamplingParams, session: str, seed: int, mode: str
) -> Generation:
    """Write a turn; `mode` raw gives untempered logprobs."""
    answer = await served.engine.generate(ids, params, session_id=session, seed=seed)
    if mode == "raw" and params.temperature not in (0, 1) and answer.output_ids:
        return replace(answer, logprobs=tuple(served.logprobs(ids, answer.output_ids, 1.0)))
    return answer
