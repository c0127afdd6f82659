"""Makes the client of one MCP server, over whatever transport its configuration names."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastmcp.client.transports.memory import FastMCPTransport

from retrain.environment.mcp.config import ServerConfig
from retrain.environment.mcp.flow import Flow
from retrain.environment.mcp.http import http_transport
from retrain.environment.mcp.process import ServerProcess, find_program
from retrain.environment.mcp.secrets import Blot, inherited_environment, read_secrets
from retrain.environment.mcp.transport import LeashedTransport
from retrain.errors import ConfigError
from retrain.registry import allow_working_directory, load_object

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(rf"\$\{{({_NAME.pattern})\}}")


@dataclass(frozen=True, slots=True)
class Opening:
    """What a connection to a server begins with.

    Attributes:
        transport: A transport of fastmcp.
        flow: Counts what the server says.
        blot: Takes the server's credentials out of text.
    """

    transport: Any
    flow: Flow
    blot: Blot


def open_transport(name: str, config: ServerConfig, *, isolated: bool) -> Opening:
    """Prepare a connection to a server; nothing is started yet.

    Args:
        name: The server's name.
        config: What the configuration says of it.
        isolated: Whether one episode alone will use it.

    Raises:
        ConfigError: A credential is not set, or the module is no server.
    """
    key = f"environment.env_specific_config.servers.{name}"
    flow = Flow()
    if config.module is not None:
        logging.getLogger("fastmcp").setLevel(logging.CRITICAL)  # it prints each failed call
        server = _load_server(config.module, key, isolated=isolated)
        return Opening(FastMCPTransport(server), flow, Blot())
    if config.url is not None:
        headers, secrets = _headers(config, key)
        transport = http_transport(config.url, headers, flow, sse=config.transport == "sse")
        return Opening(transport, flow, Blot(secrets))
    secrets = read_secrets(config.env_from, f"{key}.env_from")
    environment = {**inherited_environment(), **config.env, **secrets}
    try:
        program = find_program(config.command or "", environment, config.cwd)
    except ValueError as error:
        raise ConfigError(f"{key}.{error}") from None
    command = (program, *config.args)
    start = partial(ServerProcess.start, command, environment, config.cwd, flow)
    return Opening(LeashedTransport(start, flow), flow, Blot(secrets))


def _headers(config: ServerConfig, key: str) -> tuple[dict[str, str], Mapping[str, str]]:
    """All headers, and the secrets in them; `headers_env` holds names, or texts with ${NAME}."""
    headers = dict(config.headers)
    secrets: dict[str, str] = {}
    for header, text in config.headers_env.items():
        template = f"${{{text}}}" if _NAME.fullmatch(text) else text
        names = _REFERENCE.findall(template)
        if not names:
            raise ConfigError(
                f"{key}.headers_env.{header}: names no environment variable; write NAME, or a text "
                "with ${NAME} in it"
            )
        secrets |= read_secrets(names, f"{key}.headers_env.{header}")
        headers[header] = _REFERENCE.sub(partial(_value_in, secrets), template)
    return headers, secrets


def _value_in(secrets: Mapping[str, str], reference: re.Match[str]) -> str:
    return secrets[reference[1]]


def _load_server(path: str, key: str, *, isolated: bool) -> Any:
    allow_working_directory()
    thing = load_object(path, f"{key}.module")
    made = inspect.isfunction(thing)
    try:
        server = thing() if inspect.isfunction(thing) else thing
    except Exception as error:  # somebody else's code, which may raise anything
        reason = f"{type(error).__name__}: {error}"
        raise ConfigError(f"{key}.module: {path}() raised {reason}") from error
    if not any(hasattr(server, name) for name in ("_mcp_server", "_lowlevel_server")):
        raise ConfigError(
            f"{key}.module: {path} is a {type(server).__name__}; expected a FastMCP server, or a "
            "function that makes one"
        )
    if isolated and not made:
        raise ConfigError(
            f"{key}.module: {path} is one server, and isolation: episode needs one for every "
            "episode; name a function that makes it"
        )
    return server
