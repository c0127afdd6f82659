"""`type: openenv` without a server: addresses, tokens, and a server that is not there."""

from __future__ import annotations

import sys

import pytest

from retrain.environment import make_environment_factory
from retrain.environment.adapters.openenv_session import OpenEnvSession
from retrain.errors import ConfigError, EnvironmentFailure, MissingDependency
from retrain.types import Task

NOWHERE = {"base_url": "http://127.0.0.1:1"}


async def test_a_server_that_is_not_there_fails_the_episode() -> None:
    environment = make_environment_factory("openenv", NOWHERE)()

    with pytest.raises(EnvironmentFailure, match="1/schema: ClientConnectorError"):
        await environment.reset(Task("t", ""), 1)
    await environment.close()


def test_the_absence_of_aiohttp_gives_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)

    with pytest.raises(MissingDependency, match=r"pip install 'retrain\[http\]'"):
        make_environment_factory("openenv", NOWHERE)()


def test_a_token_comes_from_the_environment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    config = {**NOWHERE, "token_env": "SPACE_TOKEN"}
    monkeypatch.delenv("SPACE_TOKEN", raising=False)
    with pytest.raises(ConfigError, match="the environment variable SPACE_TOKEN is not set"):
        make_environment_factory("openenv", config)()


@pytest.mark.parametrize(
    ("base_url", "http"),
    [
        ("http://h:1/", "http://h:1"),
        ("ws://h:1", "http://h:1"),
        ("wss://ws.h", "https://ws.h"),
        ("https://ws.h/a", "https://ws.h/a"),
    ],
)
def test_a_web_socket_s_address_is_an_address_too(base_url: str, http: str) -> None:
    assert OpenEnvSession(base_url, None, 1.0)._http == http
