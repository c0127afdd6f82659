"""Aborts, pauses, weights that arrive between turns, and memory that is lent out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_for

PROMPT = [1, 50, 60, 70]
LONG = {"max_new_tokens": 500, "ignore_eos": True, "sampling_seed": 1}
SHORT = {"max_new_tokens": 8, "ignore_eos": True, "sampling_seed": 1}


@pytest.fixture
def send(server: Any) -> Iterator[Any]:
    """Sends a turn from a thread of its own."""
    with ThreadPoolExecutor(8) as threads:

        def ask(served: Any, rid: str, sampling: Any = LONG) -> Future[Any]:
            body = {"rid": rid, "input_ids": PROMPT, "sampling_params": sampling}
            body["return_logprob"] = True
            return threads.submit(lambda: served.post("/generate", body).json())

        yield ask


def turn(served: Any, sampling: Any = SHORT) -> Any:
    reply = served.post("/generate", {"input_ids": PROMPT, "sampling_params": sampling})
    assert reply.status_code == 200, reply.text
    return reply.json()


def slow_down(served: Any) -> None:
    """Let no request end by itself."""
    served.service.loaded.engine.hold(True)


def update(served: Any, path: Path | str, version: str | None = "1") -> Any:
    body: dict[str, Any] = {"model_path": str(path)}
    body |= {} if version is None else {"weight_version": version}
    return served.post("/update_weights_from_disk", body)


def test_abort_ends_one_request_and_then_all(server: Any, send: Any) -> None:
    served = server()
    slow_down(served)
    first, second, third = (send(served, rid) for rid in ("a", "aa", "b"))
    wait_for(lambda: served.running() == 3)
    load = served.ask("GET", "/v1/loads?include=core").json()["loads"][0]
    assert (load["num_running_reqs"], load["num_waiting_reqs"]) == (3, 0)
    assert served.post("/abort_request", {"rid": "a"}).status_code == 200
    finish = first.result(20)["meta_info"]["finish_reason"]
    assert finish["type"] == "abort"
    served.post("/abort_request", {"rid": ""})
    served.post("/abort_request", {"rid": "unknown"})
    assert served.running() == 2, "an id ends nothing but its own request"
    served.post("/abort_request", {"abort_all": True})
    assert served.running() == 0, "slime looks at the load right after its abort"
    for ended in (second.result(20), third.result(20)):
        assert ended["meta_info"]["finish_reason"]["type"] == "abort"
        assert ended["output_ids"] == []
    assert served.ask("GET", "/v1/loads").json()["loads"][0]["num_running_reqs"] == 0


def test_pause_ends_what_runs_and_holds_what_comes(server: Any, send: Any) -> None:
    served = server()
    running = send(served, "a")
    wait_for(lambda: served.running() == 1)
    assert served.ask("GET", "/flush_cache").status_code == 400
    assert served.post("/pause_generation").json()["status"] == "ok"
    cut = running.result(20)
    assert cut["meta_info"]["finish_reason"]["type"] == "abort"
    assert len(cut["output_ids"]) == len(cut["meta_info"]["output_token_logprobs"]) < 500
    held, ended = send(served, "b", SHORT), send(served, "c", SHORT)
    wait_for(lambda: served.inside(lambda: served.service.requests.waiting) == 2)
    assert served.ask("GET", "/flush_cache").status_code == 200
    assert served.ask("GET", "/health_generate").status_code == 200, "paused is not ill"
    served.post("/abort_request", {"rid": "c"})
    assert ended.result(20)["meta_info"]["finish_reason"]["type"] == "abort"
    assert not held.done()
    served.post("/continue_generation")
    assert held.result(20)["meta_info"]["finish_reason"] == {"type": "length", "length": 8}


@pytest.mark.parametrize("mode", ["in_place", "retract"])
def test_pause_keeps_what_runs_where_asked_to(server: Any, send: Any, mode: str) -> None:
    served = server()
    expected = turn(served, LONG)["output_ids"]
    running = send(served, "a")
    wait_for(lambda: served.running() == 1)
    served.post("/pause_generation", {"mode": mode})
    written = served.submit(_written(served)).result(20)
    assert served.submit(_written(served)).result(20) == written < 500, "nothing is computed"
    served.post("/continue_generation")
    assert running.result(20)["output_ids"] == expected


async def _written(served: Any) -> int:
    engine = served.service.loaded.engine
    scheduler = engine._scheduler
    return await engine.between_steps(
        lambda: sum(len(run.request.output_ids) for run in scheduler._running)
    )


def test_new_weights_serve_from_the_next_turn_under_their_version(
    server: Any, served_weights: Path
) -> None:
    served, second = server(), served_weights / "second"
    before = turn(served)
    served.post("/pause_generation")
    served.ask("GET", "/flush_cache")
    reply = update(served, second, "17")
    assert reply.json()["success"] is True
    served.post("/continue_generation")
    after = turn(served)
    assert after["output_ids"] != before["output_ids"]
    assert after["meta_info"]["weight_version"] == "17"
    for path in ("/get_weight_version", "/model_info", "/server_info"):
        assert served.ask("GET", path).json()["weight_version"] == "17"
    assert served.ask("GET", "/model_info").json()["model_path"] == str(second)
    update(served, served_weights / "first", "18")
    assert turn(served)["output_ids"] == before["output_ids"], "no trace of other weights is left"


def test_update_waits_for_what_runs_and_holds_what_comes(
    server: Any, send: Any, served_weights: Path
) -> None:
    served = server()
    expected = turn(served, LONG)["output_ids"]
    running = send(served, "a")
    wait_for(lambda: served.running() == 1)
    assert update(served, served_weights / "second").status_code == 200
    old = running.result(20)
    assert old["output_ids"] == expected
    assert old["meta_info"]["weight_version"] == "default"
    assert turn(served)["meta_info"]["weight_version"] == "1"


def test_version_is_never_reused_silently(server: Any, served_weights: Path) -> None:
    served, first, second = server(), served_weights / "first", served_weights / "second"
    assert "Warning" not in update(served, second, "1").json()["message"]
    assert "Warning" not in update(served, second, "1").json()["message"], "the same weights"
    warned = update(served, first, "1").json()
    assert warned["success"] is True
    assert "other weights have been called '1' before" in warned["message"]
    named = []
    for source in (second, first):
        update(served, source, None)
        named.append(served.ask("GET", "/get_weight_version").json()["weight_version"])
    assert len({*named, "1", "default"}) == 4


def break_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def drop_weight(folder: Path) -> None:
    _rewrite(folder, lambda weights: weights.pop("model.norm.weight"))


def diverge(folder: Path) -> None:
    _rewrite(folder, lambda weights: weights["model.norm.weight"].fill_(float("nan")))


def _rewrite(folder: Path, change: Any) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def swap_tokens(folder: Path) -> None:
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    vocabulary = content["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    path.write_text(json.dumps(content))


def pickle_instead(folder: Path) -> None:
    import torch
    from safetensors.torch import load_file

    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda f: break_config(f, hidden_size=64), "hidden_size is 64, the model's 128"),
        (lambda f: break_config(f, vocab_size=300), "vocab_size is 300, the model's 354"),
        (lambda f: break_config(f, model_type="llama"), "model_type is llama, the model's qwen3"),
        (drop_weight, "weights are missing: model.norm.weight"),
        (diverge, "model.norm.weight is not finite"),
        (swap_tokens, "its tokenizer differs from the served model's in 2 tokens, such as 'a'"),
        (pickle_instead, "no weights can be read"),
        (lambda f: (f / "model.safetensors").write_bytes(b"broken"), "no weights can be read"),
        (lambda f: (f / "config.json").write_text("{"), "no weights can be read"),
    ],
)
def test_other_or_broken_weights_are_refused_and_the_old_ones_serve(
    server: Any, folder: Any, damage: Any, named: str
) -> None:
    served, arrived = server(), folder("first", "arrived")
    before = turn(served)
    damage(arrived)
    reply = update(served, arrived, "1")
    assert reply.status_code == 400
    assert reply.json()["success"] is False
    assert named in reply.json()["message"]
    after = turn(served)
    assert after["output_ids"] == before["output_ids"]
    assert after["meta_info"]["weight_version"] == "default"


def test_weights_come_from_the_allowed_folders_only(
    server: Any, served_weights: Path, tmp_path: Path
) -> None:
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    (allowed / "link").symlink_to(served_weights / "second")
    served = server(weights_dirs=[allowed])
    for path in (
        served_weights / "second",
        allowed / "link",
        allowed / ".." / "elsewhere",
        "relative",
        f"{allowed}\0",
    ):
        reply = update(served, path)
        assert reply.status_code == 400, path
        assert reply.json()["message"].startswith("model_path: ")
    assert "is no folder" in update(served, allowed / "missing").json()["message"]
    for wrong in ({}, {"model_path": "a", "load_format": "pickle"}, {"model_path": 3}):
        assert served.post("/update_weights_from_disk", wrong).json()["success"] is False
    assert served.ask("GET", "/get_weight_version").json() == {"weight_version": "default"}


def test_released_memory_is_free_until_it_is_taken_again(
    server: Any, send: Any, served_weights: Path
) -> None:
    served = server()
    before = turn(served)
    model = served.service.loaded.model

    def weight_bytes() -> int:
        return sum(weight.untyped_storage().nbytes() for weight in model.parameters())

    full = weight_bytes()
    slow_down(served)
    running = send(served, "a", SHORT)
    wait_for(lambda: served.running() == 1)
    busy = served.post("/release_memory_occupation")
    assert busy.status_code == 400
    assert "pause the generation first" in busy.text
    served.service.loaded.engine.hold(False)
    running.result(20)
    for _ in range(2):
        assert served.post("/release_memory_occupation").status_code == 200
        assert weight_bytes() == 0 < full
    refused = served.post("/generate", {"input_ids": PROMPT})
    assert refused.status_code == 503
    assert update(served, served_weights / "second").status_code == 400
    assert served.ask("GET", "/health").status_code == 200
    assert served.post("/resume_memory_occupation", {"tags": ["weights"]}).status_code == 200
    assert weight_bytes() == full
    assert served.post("/generate", {"input_ids": PROMPT}).status_code == 503
    assert served.post("/resume_memory_occupation", {"tags": ["kv_cache"]}).status_code == 200
    assert turn(served)["output_ids"] == before["output_ids"]
    assert served.post("/release_memory_occupation", {"tags": ["disk"]}).status_code == 400


def test_stopping_answers_what_is_in_the_house(server: Any, send: Any) -> None:
    served = server()
    running = send(served, "a")
    wait_for(lambda: served.running() == 1)
    served.post("/pause_generation", {"mode": "in_place"})
    held = send(served, "b")
    wait_for(lambda: served.inside(lambda: served.service.requests.waiting) == 1)
    served.stop()
    for answer in (running.result(20), held.result(20)):
        assert answer["meta_info"]["finish_reason"]["type"] == "abort"
