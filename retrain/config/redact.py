"""Keep credentials out of what is written: run folders, tapes, logs, job descriptions.

A key names a credential when its last words do: `password`, `client_secret`, `hf_token`, `api_key`,
`wandb-key`. Words that only contain one do not (`max_tokens`, `tokenizer`), nor do the tokens and
keys of this trade (`stop_token`, `pad_token_id`, `id_key`), nor keys that say where a credential is
kept (`api_key_env`, `tls_key_path`). When in doubt about a `token`, it is redacted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

REDACTED = "<redacted>"

_CREDENTIAL_WORDS = (
    "password passwd passphrase secret secrets credential credentials apikey apikeys authorization"
)
_KEY_OWNERS = (
    "api access account admin anthropic auth encryption license openai private secret service "
    "signing ssh wandb"
)
_TEXT_TOKENS = (
    "assistant audio begin bos cls decoder end eod eos first forced image last mask middle next "
    "pad per prefix prompt sep special start stop suffix think thinking tool unk user video"
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_URL_PASSWORD = re.compile(r"(?<=://)([^/\s:@]*):([^/\s@]+)@")
_KNOWN_SHAPE = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|AKIA[A-Z0-9]{16})"
)


def is_credential(key: str) -> bool:
    """Whether a key holds a credential."""
    words = [word.lower() for word in _WORD.findall(key)]
    if not words:
        return False
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last in _CREDENTIAL_WORDS.split():
        return True
    if last in ("key", "keys"):
        return before in _KEY_OWNERS.split()
    return last == "token" and before not in _TEXT_TOKENS.split()


def redact(value: Any, key: str = "") -> Any:
    """A copy of a JSON-like value without its credentials.

    Args:
        value: Mappings, lists and scalars.
        key: The key that the value stands under.
    """
    if isinstance(value, Mapping):
        return {k: redact(v, key if is_credential(key) else str(k)) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [redact(item, key) for item in value]
    if value is None or isinstance(value, bool) or value == "":
        return value
    if is_credential(key):
        return REDACTED
    return redact_text(value) if isinstance(value, str) else value


def redact_text(text: str) -> str:
    """A text without passwords in its URLs and without tokens of well-known shape."""
    return _KNOWN_SHAPE.sub(REDACTED, _URL_PASSWORD.sub(rf"\1:{REDACTED}@", text))
