"""What is wrong with an `mcp` section shows before anything starts, with its key."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from mcp_episodes import episode, make

from retrain.environment import make_environment_factory
from retrain.errors import ConfigError, MissingDependency

KEY = "environment.env_specific_config"


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ({}, "name it by exactly one of command, url, module; here is none of them"),
        ({"command": "python", "url": "http://x"}, "here is command and url"),
        ({"comand": "python"}, r"comand: there is no such argument"),
        ({"url": "http://x", "args": ["y"]}, "args belongs to a server with command"),
        ({"module": "a:b", "headers": {"a": "b"}}, "headers belongs to a server with url"),
        ({"module": "no_colon"}, "module"),
        ({"url": "ftp://x"}, "url"),
        ({"command": "python", "timeout": 0}, "timeout"),
        ({"command": "python", "timeout": "5"}, "timeout.*'5'"),
        ({"command": "python", "prefix": "a b"}, "prefix"),
        ({"command": "x", "env": {"API_KEY": "v"}}, "env.API_KEY holds a credential.* env_from"),
        ({"command": "x", "env": {"A": "sk-0123456789abcdefghij"}}, "env.A holds a credential"),
        ({"command": "x", "args": ["hf_0123456789abcdefghij"]}, "args or url holds a credential"),
        ({"url": "http://me:word@x/mcp"}, "args or url holds a credential"),
        ({"url": "http://x", "headers": {"Authorization": "v"}}, "credential.* headers_env"),
    ],
)
def test_a_wrong_server_is_refused_by_its_key(server: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=rf"{KEY}\.servers\.s.*{said}") as raised:
        make_environment_factory("mcp", {"servers": {"s": server}})

    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"servers": {}}, r"servers: name at least one server"),
        ({"servers": {"s": {"command": "x"}}, "max_restarts": -1}, "max_restarts: must not be"),
        ({"servers": {"s": {"command": "x"}}, "isolation": "none"}, "isolation"),
        ({"servers": {"s": {"command": "x"}}, "max_turn": 3}, "max_turn.*did you mean 'max_turns'"),
        ({}, r"servers: missing"),
    ],
)
def test_a_wrong_option_is_refused_by_its_key(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=rf"{KEY}\.{said}"):
        make_environment_factory("mcp", options)()


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ({"command": "no-such-program"}, r"s\.command: there is no program 'no-such-program'"),
        ({"command": "./missing"}, r"s\.command: there is no program './missing'"),
        ({"command": "python", "cwd": "no/such"}, r"s\.cwd: there is no folder 'no/such'"),
        ({"command": "python", "env_from": ["UNSET_TOKEN"]}, r"s\.env_from: UNSET_TOKEN is not"),
        ({"url": "http://x", "headers_env": {"A": "UNSET_TOKEN"}}, r"headers_env\.A: UNSET_TOKEN"),
        ({"url": "http://x", "headers_env": {"A": "Bearer x"}}, r"headers_env\.A: names no"),
        ({"module": "no_such_module:mcp"}, r"s\.module: no module named 'no_such_module'"),
        ({"module": "json:dumps"}, r"s\.module: json:dumps\(\) raised TypeError: .*'obj'"),
        ({"module": "os:sep"}, r"os:sep is a str; expected a FastMCP server"),
        ({"url": "http://127.0.0.1:9/mcp"}, r"servers\.s: MCP server 's': start: .*connect"),
    ],
)
async def test_a_server_that_cannot_be_reached_is_named(server: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        async with episode({"s": server}):
            pass


async def test_one_server_cannot_be_isolated_in_process() -> None:
    servers = {"s": {"module": "mcp_servers.fastmcp_server:mcp"}}
    with pytest.raises(ConfigError, match="isolation: episode needs one for every episode"):
        async with episode(servers, isolation="episode"):
            pass


async def test_closing_an_environment_that_never_connected_is_harmless() -> None:
    await make({"s": {"command": "python"}}).close()


def test_without_fastmcp_the_command_that_installs_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("retrain.environment.adapters.loading.find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=r"fastmcp; .* pip install 'retrain\[mcp\]'"):
        make({"s": {"command": "python"}})


def test_naming_the_environment_does_not_import_fastmcp() -> None:
    program = (
        "import sys; from retrain.environment import make_environment_factory as make; "
        "make('mcp', {'servers': {'s': {'command': 'x'}}})(); print('fastmcp' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr
