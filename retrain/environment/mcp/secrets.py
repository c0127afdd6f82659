"""Credentials of MCP servers: read from the environment, and blotted out of everything shown."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from urllib.parse import quote

from retrain.errors import ConfigError

_SHORTEST = 6
"""A shorter value is no secret, and blotting it out would garble text."""

_INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
"""What a server's process gets of this one's environment, besides what `env_from` names."""


class Blot:
    """Puts the name of a secret in place of the secret, in text.

    Text that holds one broken up (over lines, or with signs between) is withheld as a whole.

    Args:
        secrets: Secrets by the name of the environment variable that holds them.
    """

    def __init__(self, secrets: Mapping[str, str] | None = None) -> None:
        kept = {name: text for name, text in (secrets or {}).items() if len(text) >= _SHORTEST}
        forms = {
            form: f"[{name}]"
            for name, secret in kept.items()
            for form in (secret, json.dumps(secret)[1:-1], quote(secret, safe=""))
        }
        bare = {name: _bare(secret) for name, secret in kept.items()}
        self._bare = {name: text for name, text in bare.items() if len(text) >= _SHORTEST}
        self._forms = dict(sorted(forms.items(), key=lambda form: -len(form[0])))

    def __call__(self, text: str) -> str:
        """The text without secrets."""
        for form, name in self._forms.items():
            text = text.replace(form, name)
        if self._bare:
            bare = _bare(text)
            for name, secret in self._bare.items():
                if secret in bare:
                    return f"[withheld: the text holds {name}]"
        return text


def _bare(text: str) -> str:
    """A text's letters and digits."""
    return "".join(filter(str.isalnum, text))


def read_secrets(names: Collection[str], key: str) -> dict[str, str]:
    """The values of environment variables.

    Args:
        names: The variables.
        key: Where they are named in the configuration.

    Raises:
        ConfigError: One of them is not set here.
    """
    missing = [name for name in names if name not in os.environ]
    if missing:
        raise ConfigError(
            f"{key}: {', '.join(missing)} is not set in the environment of the process that plays "
            "the episodes"
        )
    return {name: os.environ[name] for name in names}


def inherited_environment() -> dict[str, str]:
    """What a server's process gets of this one's environment in any case; no credentials."""
    return {name: os.environ[name] for name in _INHERITED if name in os.environ}
