"""What MCP servers offer: the tools that the model may call, checked once when a run starts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from jsonschema.protocols import Validator

from retrain.environment.base import ToolSchema
from retrain.environment.json_schema import shorten_schema
from retrain.environment.mcp.config import ServerConfig
from retrain.environment.mcp.schemas import tool_validator
from retrain.errors import ConfigError, nearest

_NAME = re.compile(r"[a-zA-Z0-9_./-]{1,128}")
_LONGEST_SCHEMA = 50_000
"""Characters of one tool's description and schema, which stand in every prompt."""


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool of a server.

    Attributes:
        name: The name that the model calls, the server's prefix included.
        server: The server's name.
        own_name: What the server calls it.
        schema: The tool as chat templates take it.
        validator: Checks the model's arguments.
        given: What the server said of it, as JSON text: compared when it says it again.
    """

    name: str
    server: str
    own_name: str
    schema: ToolSchema
    validator: Validator
    given: str


def offer_tools(
    server: str, config: ServerConfig, listed: Sequence[Any], blot: Callable[[str], str] = str
) -> list[OfferedTool]:
    """The tools of one server that its configuration allows.

    Args:
        server: The server's name.
        config: What the configuration says of it.
        listed: The protocol's tools.
        blot: Takes the server's credentials out of text.

    Raises:
        ConfigError: `allow` or `deny` names a tool that there is not, none is left, or one that
            is left cannot be offered.
    """
    key = f"environment.env_specific_config.servers.{server}"
    names = [tool.name for tool in listed]
    for option in ("allow", "deny"):
        for pattern in getattr(config, option) or ():
            if not any(fnmatchcase(name, pattern) for name in names):
                raise ConfigError(
                    f"{key}.{option}: the server has no tool {pattern!r}; {nearest(pattern, names)}"
                )
    allowed = [tool for tool in listed if _allowed(tool.name, config)]
    if not allowed:
        raise ConfigError(f"{key}: offers no tool (it has {', '.join(names) or 'none'})")
    return [_offered(server, config.prefix, tool, blot) for tool in allowed]


def join_offers(offers: Mapping[str, Sequence[OfferedTool]]) -> list[OfferedTool]:
    """The tools of all servers.

    Args:
        offers: Each server's.

    Raises:
        ConfigError: Two of them have one name.
    """
    joined: dict[str, OfferedTool] = {}
    for tool in (tool for offer in offers.values() for tool in offer):
        other = joined.setdefault(tool.name, tool)
        if other is not tool:
            raise ConfigError(
                f"environment.env_specific_config.servers: {other.server} and {tool.server} both "
                f"have a tool {tool.name!r}; give one server a prefix, or deny the tool there"
            )
    return list(joined.values())


def differences(before: Sequence[OfferedTool], now: Sequence[OfferedTool]) -> str:
    """What has changed in a server's tools, in words; "" for nothing but new tools."""
    given = {tool.name: tool.given for tool in now}
    gone = [tool.name for tool in before if tool.name not in given]
    other = [tool.name for tool in before if given.get(tool.name, tool.given) != tool.given]
    parts = (("no longer offers", gone), ("has another description or schema of", other))
    return " and ".join(f"{words} {', '.join(names)}" for words, names in parts if names)


def _allowed(name: str, config: ServerConfig) -> bool:
    allow = ("*",) if config.allow is None else config.allow
    return any(fnmatchcase(name, pattern) for pattern in allow) and not any(
        fnmatchcase(name, pattern) for pattern in config.deny
    )


def _offered(server: str, prefix: str, tool: Any, blot: Callable[[str], str]) -> OfferedTool:
    name = f"{prefix}{tool.name}"
    what = f"MCP server {server!r}: tool {tool.name!r:.80}"
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{what}: a tool's name has 1 to 128 letters, digits, '_', '-', '.', '/'")
    validator = tool_validator(tool.input_schema, what)
    parameters = shorten_schema(tool.input_schema)
    parameters.pop("$schema", None)
    parameters = {"type": "object", "properties": parameters.pop("properties", {}), **parameters}
    description = tool.description or ""
    given = json.dumps([description, tool.input_schema], sort_keys=True)
    if len(given) > _LONGEST_SCHEMA:
        raise ConfigError(
            f"{what}: its description has {len(given)} characters, which would stand in every "
            f"prompt (at most {_LONGEST_SCHEMA}); deny the tool"
        )
    if blot(given) != given:
        raise ConfigError(
            f"{what}: its description holds a credential of the server; deny the tool"
        )
    function = {"name": name, "description": description, "parameters": parameters}
    schema = {"type": "function", "function": function}
    return OfferedTool(name, server, tool.name, schema, validator, given)
