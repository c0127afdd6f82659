"""What slime and routers ask before and around turns, and who is let in at all."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from retrain.engine.server_run import bind
from retrain.engine.server_security import Access
from retrain.errors import ConfigError

TURN = {"input_ids": [1], "sampling_params": {"max_new_tokens": 1}}


def test_server_info_says_what_slime_checks(shared_server: Any) -> None:
    info = shared_server.ask("GET", "/server_info").json()
    wanted = {"tp_size": 1, "pp_size": 1, "dp_size": 1, "ep_size": 1}
    wanted |= {"disaggregation_mode": "null", "enable_memory_saver": False}
    assert {name: info[name] for name in wanted} == wanted
    assert shared_server.ask("GET", "/get_server_info").json() == info
    model = shared_server.ask("GET", "/model_info").json()
    assert shared_server.ask("GET", "/get_model_info").json() == model
    assert model["model_path"] == info["model_path"]
    for path in ("/health", "/health_generate"):
        assert shared_server.ask("GET", path).status_code == 200


def test_server_is_its_own_router(shared_server: Any) -> None:
    url = shared_server.url
    workers = shared_server.ask("GET", "/workers").json()["workers"]
    assert [worker["url"] for worker in workers] == [url]
    assert shared_server.ask("GET", "/list_workers").json() == {"urls": [url]}
    for own in (url, url.replace("127.0.0.1", "localhost")):
        reply = shared_server.post("/workers", {"url": own, "worker_type": "regular"})
        assert reply.status_code == 202
        assert shared_server.post(f"/add_worker?url={own}").status_code == 200
    for other in ("http://127.0.0.1:1", "http://elsewhere:80", "file:///etc", ""):
        reply = shared_server.post("/workers", {"url": other, "worker_type": "regular"})
        assert reply.status_code == 400, other
    prefill = shared_server.post("/workers", {"url": url, "worker_type": "prefill"})
    assert prefill.status_code == 400


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "evil.example:30000"},
        {"host": "127.0.0.1.evil.example"},
        {"host": "[::2]:30000"},
        {"host": ""},
        {"origin": "http://127.0.0.1:30000"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
    ],
)
def test_web_pages_are_kept_out(shared_server: Any, headers: dict[str, str]) -> None:
    reply = shared_server.post("/generate", TURN, headers=headers)
    assert reply.status_code == 403
    assert shared_server.ask("GET", "/flush_cache", headers=headers).status_code == 403


def test_this_machines_names_are_let_in(shared_server: Any) -> None:
    for host in ("localhost:1", "127.0.0.1", "[::1]:30000", "LOCALHOST"):
        reply = shared_server.post("/generate", TURN, headers={"host": host})
        assert reply.status_code == 200, host


def test_bodies_of_unknown_or_huge_length_are_not_read(shared_server: Any) -> None:
    import httpx

    chunks = httpx.post(
        f"{shared_server.url}/generate",
        content=iter([b"{}"]),
        headers={"content-type": "application/json"},
    )
    assert chunks.status_code == 411
    port = int(shared_server.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        head = "POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n"
        client.sendall(head.encode())
        assert b" 413 " in client.recv(100)


def test_token_is_asked_for_where_one_is_set(server: Any) -> None:
    served = server(token="correct horse")
    right = {"authorization": "Bearer correct horse"}
    for wrong in ({}, {"authorization": "Bearer x"}, {"authorization": "Basic correct horse"}):
        for reply in (
            served.post("/generate", TURN, headers=wrong),
            served.post("/pause_generation", headers=wrong),
            served.ask("GET", "/server_info", headers=wrong),
        ):
            assert reply.status_code == 401
            assert "correct horse" not in reply.text
    assert served.post("/generate", TURN, headers=right).status_code == 200
    assert served.ask("GET", "/health").status_code == 200, "probes bring no token"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_door_to_other_machines_needs_a_token(host: str) -> None:
    with pytest.raises(ConfigError, match="RETRAIN_SERVE_TOKEN"):
        Access(host, None)
    open_door = Access(host, "secret")
    brought = {"host": "any.name", "authorization": "bearer secret"}
    assert open_door.refusal("/generate", brought) is None
    refused = open_door.refusal("/generate", {"host": "any.name"})
    assert refused is not None
    assert refused[0] == 401


def test_port_in_use_is_named(shared_server: Any) -> None:
    port = int(shared_server.url.rpartition(":")[2])
    with pytest.raises(ConfigError, match=f"--port {port}: is in use on 127.0.0.1"):
        bind("127.0.0.1", port)
    with pytest.raises(ConfigError, match=r"--host 203\.0\.113\.1 .*cannot be listened on"):
        bind("203.0.113.1", port)
