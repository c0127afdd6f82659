"""Reads replies of /v1/completions that hold token ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from retrain.engine.base import Generation
from retrain.engine.http_answer import check_stop_kept, finish_reason
from retrain.errors import ConfigError, EngineFailure

_ID = "token_id:"


def read_completion(
    url: str, reply: Any, prompt: Sequence[int], version: str, remedy: str
) -> Generation:
    """Read the one choice of a reply.

    Args:
        url: The server's base URL, for messages.
        reply: The JSON.
        prompt: The prompt's ids: where the reply repeats the prompt, it must be this one.
        version: The weight version to put on it.
        remedy: What to use instead of a server that cannot answer in ids, for messages.

    Raises:
        EngineFailure: It holds no ids or no logprobs, or they do not belong together.
    """
    choice = _choice(url, reply)
    ids = _ids(url, choice, remedy)
    logprobs = _logprobs(url, choice, remedy)
    echoed = choice.get("prompt_token_ids")
    if echoed is not None and list(echoed) != list(prompt):
        raise EngineFailure(
            f"{url}: the server answered another prompt ({len(echoed)} tokens) than the one sent "
            f"({len(prompt)}): it must neither truncate prompts nor add tokens to them"
        )
    check_stop_kept(url, ids, choice.get("stop_reason"))
    details = (reply.get("usage") or {}).get("prompt_tokens_details") or {}
    return Generation(
        ids,
        logprobs,
        finish_reason(choice.get("finish_reason"), url),
        text=choice.get("text") or "",
        weight_version=version,
        meta={"cached_tokens": int(details.get("cached_tokens") or 0), "server": url},
    )


def top_logprob(url: str, reply: Any, remedy: str) -> float:
    """The logprob of the likeliest first token.

    Raises:
        ConfigError: The reply holds no such logprob.
    """
    try:
        choice = _choice(url, reply)
        return max(float(value) for value in choice["logprobs"]["top_logprobs"][0].values())
    except (EngineFailure, KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{url}: {_no_logprobs(remedy)}") from error


def _choice(url: str, reply: Any) -> Mapping[str, Any]:
    choices = reply.get("choices") if isinstance(reply, dict) else None
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise EngineFailure(f"{url}: /v1/completions answers without the one choice asked for")
    return choices[0]


def _ids(url: str, choice: Mapping[str, Any], remedy: str) -> tuple[int, ...]:
    given = choice.get("token_ids")
    tokens = (choice.get("logprobs") or {}).get("tokens") or []
    if not all(str(token).startswith(_ID) for token in tokens):
        tokens = []
    named = tuple(int(token.removeprefix(_ID)) for token in tokens)
    if given is None and not named and choice.get("finish_reason") != "abort":
        raise EngineFailure(
            f"{url}: the server answers in text and gives no token ids, so what was sampled is not "
            f"known and cannot be trained on; {remedy}"
        )
    ids = named if given is None else tuple(int(token) for token in given)
    if named and named != ids:
        raise EngineFailure(
            f"{url}: {len(ids)} token_ids, and logprobs of {len(named)} tokens, which differ"
        )
    return ids


def _logprobs(url: str, choice: Mapping[str, Any], remedy: str) -> tuple[float, ...]:
    values = (choice.get("logprobs") or {}).get("token_logprobs")
    if values is None and choice.get("finish_reason") == "abort":
        values = []
    if values is None or None in values:
        raise EngineFailure(f"{url}: {_no_logprobs(remedy)}")
    return tuple(float(value) for value in values)


def _no_logprobs(remedy: str) -> str:
    return (
        "the server gives no logprobs of the tokens that it writes, and training needs them; "
        f"{remedy}"
    )
