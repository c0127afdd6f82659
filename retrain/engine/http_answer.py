"""What a server must serve, and what an answer must hold before it is believed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from retrain.engine.base import Generation, SamplingParams
from retrain.errors import ConfigError, EngineFailure
from retrain.types import FinishReason

SAMPLE_TEXT = "Prüfung №7:\n\tdef f(x): return x**2  # 1234567890, 日本語, 🙂 don't naïve"
"""A text that vocabularies split differently."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What a server must serve; None where it is not known and so not checked.

    Attributes:
        name: The model's name or folder, for messages.
        vocab_size: Ids that the model knows are below it.
        encode: Our tokenizer, without special tokens added.
    """

    name: str = "the model"
    vocab_size: int | None = None
    encode: Callable[[str], Sequence[int]] | None = None

    def check_tokens(self, url: str, tokens: object, served: str) -> None:
        """Compare a server's tokens of `SAMPLE_TEXT` with ours.

        Args:
            url: The server's base URL, for the message.
            tokens: What its /tokenize gave.
            served: What the server says that it serves, for the message.

        Raises:
            ConfigError: They differ.
        """
        if self.encode is None:
            return
        ours = list(self.encode(SAMPLE_TEXT))
        if tokens != ours:
            raise ConfigError(
                f"{url}: the server ({served}) has another vocabulary than {self.name}: it splits "
                f"a sample text into {_some(tokens)}, our tokenizer into {_some(ours)}; start it "
                "with the same model and tokenizer, or name its model in model.name_or_path"
            )


def check_answer(
    generation: Generation, params: SamplingParams, model: ServedModel, url: str
) -> None:
    """Refuse an answer that would train on something that nobody sampled.

    Raises:
        EngineFailure: Lengths differ, an id or a logprob cannot be, or tokens are missing.
    """
    ids, logprobs = generation.output_ids, generation.logprobs
    if len(ids) != len(logprobs):
        raise EngineFailure(f"{url}: {len(ids)} tokens with {len(logprobs)} logprobs")
    if len(ids) > params.max_tokens:
        raise EngineFailure(f"{url}: {len(ids)} tokens, asked for at most {params.max_tokens}")
    if not ids and generation.finish_reason is not FinishReason.ABORT:
        raise EngineFailure(
            f"{url}: no token, finished with {generation.finish_reason.value}: the server must "
            "return the stop token too"
        )
    if generation.finish_reason is FinishReason.LENGTH and len(ids) < params.max_tokens:
        raise EngineFailure(
            f"{url}: {len(ids)} tokens, finished with length although {params.max_tokens} were "
            "allowed: the server's context is shorter than ours; lower "
            "algorithm.hyperparameters.max_context_len to its own"
        )
    limit = model.vocab_size
    if ids and (min(ids) < 0 or (limit is not None and max(ids) >= limit)):
        raise EngineFailure(
            f"{url}: token ids up to {max(ids)}, and {model.name} knows 0 to "
            f"{'?' if limit is None else limit - 1}: the server serves another model"
        )
    if not math.isfinite(sum(logprobs)) or max(logprobs, default=0.0) > 1e-3:
        raise EngineFailure(f"{url}: a logprob is positive or not finite")


def finish_reason(name: object, url: str) -> FinishReason:
    """Read a finish reason.

    Raises:
        EngineFailure: It is none of stop, length and abort.
    """
    try:
        return FinishReason(str(name))
    except ValueError:
        raise EngineFailure(
            f"{url}: finish reason {name!r}; expected stop, length or abort"
        ) from None


def check_prompt_tokens(url: str, sent: int, computed: Any) -> None:
    """Refuse an answer to another prompt than ours.

    Args:
        url: The server's base URL.
        sent: How many tokens the prompt has.
        computed: How many the server says that it had; None where it does not say.

    Raises:
        EngineFailure: The server cut the prompt or added to it.
    """
    if computed is not None and computed != sent:
        raise EngineFailure(
            f"{url}: the server answered a prompt of {computed} tokens, {sent} were sent: it must "
            "neither truncate prompts nor add tokens to them"
        )


def check_stop_kept(url: str, ids: Sequence[int], matched: object) -> None:
    """Refuse an answer whose stop token was trimmed.

    Args:
        url: The server's base URL.
        ids: What it wrote.
        matched: The stop token that it says ended the turn, where it says so.

    Raises:
        EngineFailure: The stop token does not end `ids`.
    """
    if isinstance(matched, int) and (not ids or ids[-1] != matched):
        raise EngineFailure(
            f"{url}: the turn ended on the stop token {matched}, which is not its last token: the "
            "server trims stop tokens, so they could not be trained on"
        )


def _some(tokens: object) -> str:
    if not isinstance(tokens, list):
        return repr(tokens)[:80]
    shown = ", ".join(str(token) for token in tokens[:8])
    return f"[{shown}{', …' if len(tokens) > 8 else ''}]"
