"""What `env_specific_config` says of MCP servers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from retrain.config.redact import is_credential, redact_text

_KINDS = {
    "command": ("args", "env", "env_from", "cwd"),
    "url": ("headers", "headers_env", "transport"),
    "module": (),
}
"""The keys that name a server, each with the keys that only such a server has."""


class ServerConfig(BaseModel):
    """One server: a `command` (stdio), a `url` (HTTP) or a `module` (in process).

    Attributes:
        command: The program; `python` is the interpreter that runs retrain.
        args: Its arguments.
        env: Variables of its environment, none of them secret.
        env_from: Variables that it gets from this process's environment, such as credentials.
        cwd: Its working directory.
        url: Where it listens.
        headers: Headers of every request, none of them secret.
        headers_env: Headers whose values are read from environment variables, by header.
        transport: What a server at a `url` speaks: "http" (streamable HTTP; None too), or "sse" for
            one that has only the server-sent events of the protocol of 2024.
        module: Import path of a FastMCP server, or of a function that makes one.
        prefix: Put before the names of its tools.
        allow: Names of the tools that are offered, with `*` as wildcard; None offers all.
        deny: Names of tools that are not offered, with `*` as wildcard.
        max_calls: Most calls that a connection carries at once; others wait, and the wait does not
            count towards their time limit.
        timeout: Seconds for one call; None leaves it to `tool_timeout`.
        start_timeout: Seconds until it has said which tools it has.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: str | None = Field(default=None, min_length=1)
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    env_from: tuple[str, ...] = ()
    cwd: str | None = None
    url: str | None = Field(default=None, pattern="^https?://")
    headers: dict[str, str] = {}
    headers_env: dict[str, str] = {}
    transport: Literal["http", "sse"] | None = None
    module: str | None = Field(default=None, pattern="^[^:]+:[^:]+$")
    prefix: str = Field(default="", pattern="^[a-zA-Z0-9_.-]*$")
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    max_calls: int = Field(default=16, gt=0)
    timeout: float | None = Field(default=None, gt=0)
    start_timeout: float = Field(default=50.0, gt=0)

    @model_validator(mode="after")
    def _one_kind(self) -> ServerConfig:
        kinds = [kind for kind in _KINDS if getattr(self, kind) is not None]
        if len(kinds) != 1:
            named = " and ".join(kinds) or "none of them"
            raise _wrong(f"name it by exactly one of {', '.join(_KINDS)}; here is {named}")
        for kind, keys in _KINDS.items():
            given = [key for key in keys if getattr(self, key)]
            if kind not in kinds and given:
                raise _wrong(f"{', '.join(given)} belongs to a server with {kind}")
        return self

    @model_validator(mode="after")
    def _no_secrets(self) -> ServerConfig:
        for field, instead in (("env", "env_from"), ("headers", "headers_env")):
            for key, value in getattr(self, field).items():
                if value and (is_credential(key) or redact_text(value) != value):
                    raise _wrong(_SECRET.format(f"{field}.{key}", instead))
        for text in (*self.args, self.url or ""):
            if redact_text(text) != text:
                raise _wrong(_SECRET.format("args or url", "env_from or headers_env"))
        return self


_SECRET = (
    "{} holds a credential; put it into an environment variable and name that in {}, so that it is "
    "neither logged nor kept in the run folder"
)


def _wrong(text: str) -> Any:
    return PydanticCustomError("server", "{text}", {"text": text})


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """What a fleet is made from.

    Attributes:
        servers: By name.
        isolated: Whether every episode has connections of its own.
        max_restarts: How often in a row a shared connection is made anew before an answer.
        strict: Whether tools that change during the run fail episodes.
    """

    servers: Mapping[str, ServerConfig]
    isolated: bool
    max_restarts: int
    strict: bool

    @property
    def key(self) -> Hashable:
        """Equal for equal settings."""
        servers = tuple((name, one.model_dump_json()) for name, one in self.servers.items())
        return servers, self.isolated, self.max_restarts, self.strict
