"""The tokens that end a turn, and the token to pad with."""

from __future__ import annotations

from collections.abc import Iterable

from retrain.errors import ConfigError
from retrain.rendering.template import ChatTokenizer
from retrain.rendering.terminator import Vocabulary


def stop_set(
    tokenizer: ChatTokenizer,
    generation_config_eos: int | Iterable[int] | None = None,
    extra: Iterable[int] = (),
) -> frozenset[int]:
    """The stop set: what the generation config, the tokenizer and the user name.

    Args:
        tokenizer: Its eos token is one.
        generation_config_eos: `eos_token_id` of the model's generation config, in any form.
        extra: `rendering.stop_token_ids` of the configuration.

    Raises:
        ConfigError: No stop token is known.
    """
    configured = generation_config_eos
    listed = [configured] if isinstance(configured, int) else list(configured or ())
    eos = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    stops = frozenset((*listed, *eos, *extra))
    if not stops:
        raise ConfigError(
            "no stop token is known: the tokenizer has no eos_token and the generation config no "
            "eos_token_id; set tokenizer.eos_token, or rendering.stop_token_ids"
        )
    return stops


def pad_token(tokenizer: ChatTokenizer) -> int:
    """The tokenizer's pad token, else its eos token.

    Raises:
        ConfigError: It has neither.
    """
    for token in (tokenizer.pad_token_id, tokenizer.eos_token_id):
        if token is not None:
            return token
    raise ConfigError(
        "the tokenizer has neither a pad_token nor an eos_token: set tokenizer.pad_token (any "
        "token that the model never writes) and save the tokenizer into the model's folder"
    )


def vocabulary(tokenizer: ChatTokenizer, stops: frozenset[int]) -> Vocabulary:
    """The tokens by which a terminator is found."""
    added = tokenizer.added_tokens_decoder
    stop_texts = {str(added[index].content): index for index in stops if index in added}
    special = {str(token.content): index for index, token in added.items() if token.special}
    return Vocabulary(stop_texts, {**special, **stop_texts})
