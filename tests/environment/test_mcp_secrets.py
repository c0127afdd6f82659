"""Credentials of MCP servers come from the environment and are never shown."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_episodes import do, episode, plain

from retrain.config.redact import redact
from retrain.environment import make_environment_factory
from retrain.environment.mcp.config import ServerConfig
from retrain.environment.mcp.opening import open_transport
from retrain.environment.mcp.secrets import Blot
from retrain.errors import ConfigError, ToolFailure

SECRET = "open%sesame/42"


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAIN_SECRET", SECRET)


async def test_a_server_gets_the_variables_that_are_named_and_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTHER_TOKEN", "not for servers")
    async with episode({"s": plain(env={"MODE_OF_USE": "test"})}) as world:
        given = (await do(world, "environment")).split()
        assert "MODE_OF_USE" in given and "PATH" in given
        assert not {"OTHER_TOKEN", "PLAIN_SECRET"} & set(given)
    async with episode({"s": plain(env_from=["PLAIN_SECRET"])}) as world:
        assert "PLAIN_SECRET" in (await do(world, "environment")).split()


@pytest.mark.parametrize("what", ["secret", "broken secret"])
async def test_what_a_server_says_of_its_secret_does_not_reach_the_model(what: str) -> None:
    async with episode({"s": plain(env_from=["PLAIN_SECRET"])}) as world:
        text = await do(world, what)

    assert "sesame" not in text
    assert "PLAIN_SECRET" in text


async def test_a_failure_does_not_show_the_secret() -> None:
    server = plain(env_from=["PLAIN_SECRET"])
    with pytest.raises(ToolFailure, match=r"said: \[PLAIN_SECRET\]") as failure:
        async with episode({"s": server}) as world:
            await do(world, "die of secret")

    assert SECRET not in str(failure.value)


async def test_a_tool_whose_description_tells_the_secret_is_refused() -> None:
    server = plain("tells", env_from=["PLAIN_SECRET"])
    with pytest.raises(ConfigError, match="'echo': its description holds a credential") as raised:
        async with episode({"s": server}):
            pass

    assert SECRET not in str(raised.value)


def test_headers_take_secrets_from_the_environment() -> None:
    config = ServerConfig.model_validate_json(
        json.dumps(
            {
                "url": "http://127.0.0.1:9/mcp",
                "headers": {"X-Plain": "1"},
                "headers_env": {"Authorization": "Bearer ${PLAIN_SECRET}", "X-Key": "PLAIN_SECRET"},
            }
        )
    )
    opening = open_transport("s", config, isolated=False)

    assert opening.transport.headers == {
        "X-Plain": "1",
        "Authorization": f"Bearer {SECRET}",
        "X-Key": SECRET,
    }
    assert opening.blot(f"401 for {SECRET}") == "401 for [PLAIN_SECRET]"
    assert SECRET not in repr(opening.transport)


def test_what_the_run_folder_keeps_holds_no_secret() -> None:
    section = {"servers": {"s": plain(env_from=["PLAIN_SECRET"])}}
    make_environment_factory("mcp", section)

    assert redact(section) == section
    assert SECRET not in json.dumps(section)


@settings(max_examples=50)
@given(
    st.text("abcXYZ019", min_size=6, max_size=20),
    st.text(max_size=30),
    st.text(max_size=30),
)
def test_no_form_of_a_secret_survives(secret: str, before: str, after: str) -> None:
    blot = Blot({"NAME": secret})

    assert secret not in blot(f"{before}{secret}{after}").replace("NAME", "")
    assert secret not in blot(before + "\n| ".join(secret) + after).replace("\n| ", "")


def test_text_without_the_secret_stays_as_it_is() -> None:
    assert Blot({"NAME": SECRET})("open sesame, 4 times") == "open sesame, 4 times"
    assert Blot({"SHORT": "abc"})("abcabc") == "abcabc"
    assert Blot()("anything") == "anything"
