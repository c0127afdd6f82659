"""Servers follow the trainer's weights, and one that does not is left out until it does."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from quick_settings import QUICK
from sglang_server import SGLangServer
from vllm_loading_server import LoadingVLLMServer
from vllm_server import VLLMServer

from retrain.engine import SamplingParams
from retrain.engine.sglang_engine import SGLangEngine
from retrain.engine.vllm_engine import VLLMEngine
from retrain.engine.weight_probe import PROMPTS, read_answers, write_answers
from retrain.errors import ConfigError, EngineFailure
from retrain.types import FinishReason

PROMPT = [1, 50, 60, 70]
PARAMS = SamplingParams(8, stop_token_ids=frozenset({2}))
KINDS = [(SGLangEngine, SGLangServer), (VLLMEngine, LoadingVLLMServer)]
LAST = {SGLangServer: "/server_info", LoadingVLLMServer: "/v1/completions"}
"""What a server is asked once it has loaded weights, and before it writes."""


def over(*servers: Any, kind: Any = VLLMEngine) -> Any:
    return kind([server.url for server in servers], settings=QUICK)


async def write(engine: Any, count: int) -> list[Any]:
    """Turns of as many sessions, which go to all servers that are up."""
    turns = (engine.generate(PROMPT, PARAMS, session_id=f"n{n}", seed=3) for n in range(count))
    answers = await asyncio.gather(*turns)
    for n in range(count):
        await engine.release(f"n{n}")
    return list(answers)


def wrote(answers: Sequence[Any]) -> set[str]:
    return {answer.meta["server"] for answer in answers}


async def until(condition: Callable[[], bool], engine: Any) -> None:
    """Write turns, by which servers that are left out are asked again, until it holds."""
    async with asyncio.timeout(120):
        while not condition():
            await write(engine, 2)
            await asyncio.sleep(0.05)


@pytest.fixture
def published(serve: Any, weights: Any, tmp_path: Path) -> Callable[[int], str]:
    """Folders of weights with the answers of the model that they are of, as a trainer writes."""

    def make(seed: int) -> str:
        folder = Path(shutil.copytree(weights(seed), tmp_path / f"published-{seed}"))
        model = serve(seed)
        write_answers(folder, [model.top(prompt, 1.0)[1] for prompt in PROMPTS])
        return str(folder)

    return make


async def test_an_update_moves_every_vllm_server(serve: Any, started: Any, published: Any) -> None:
    servers = [started(LoadingVLLMServer, serve(0), named=named) for named in (True, False)]
    engine, new = over(*servers), serve(1)
    before = await engine.generate(PROMPT, PARAMS, session_id="a", seed=3)
    servers[0].held = 2
    await engine.update_weights_from_checkpoint(published(1), "1-ab")
    expected = await new.engine.generate(PROMPT, PARAMS, session_id="x", seed=3)
    answers = await write(engine, 4)
    assert wrote(answers) == {server.url for server in servers}
    for answer in answers:
        assert answer.output_ids == expected.output_ids != before.output_ids
        assert answer.weight_version == "1-ab" == engine.weight_version
    assert servers[0].weight_version == "1-ab"
    order = [path for path, _, _ in servers[0].seen]
    load = order.index("/collective_rpc")
    assert order.count("/collective_rpc") == 1
    assert order[load - 1] == "/pause"
    assert order[load + 1 : load + 4] == ["/reset_prefix_cache"] * 3, "until it has done it"
    assert order.index("/resume") < order.index("/v1/completions", load), "the probe comes last"
    assert not engine.left_out
    await engine.aclose()


async def test_servers_load_at_the_same_time(serve: Any, started: Any, published: Any) -> None:
    servers = [started(LoadingVLLMServer, serve(0)) for _ in range(2)]
    engine, barrier = over(*servers), threading.Barrier(2)
    for server in servers:
        server.together = barrier
    for version in ("0", "1"):  # while they are checked for the first time, and later
        await engine.update_weights_from_checkpoint(published(int(version)), version)
        assert not engine.left_out
        assert {server.weight_version for server in servers} == {version}
    await engine.aclose()


async def test_a_running_turn_on_vllm_is_aborted_by_an_update(
    serve: Any, started: Any, weights: Any
) -> None:
    server = started(LoadingVLLMServer, serve(0))
    engine = over(server)
    await engine.start()
    turn = asyncio.create_task(engine.generate([1], SamplingParams(490), session_id="s", seed=0))
    while not server.running:
        await asyncio.sleep(0.005)
    await engine.update_weights_from_checkpoint(weights(1), "1")
    cut = await turn
    assert cut.finish_reason is FinishReason.ABORT
    assert cut.weight_version == "0"
    assert len(cut.output_ids) == len(cut.logprobs) < 490
    assert not server.paused
    await engine.aclose()


@pytest.mark.parametrize(("engine_kind", "server_kind"), KINDS)
async def test_a_server_that_says_it_loaded_and_keeps_old_weights_is_left_out(
    serve: Any, started: Any, published: Any, engine_kind: Any, server_kind: Any
) -> None:
    fine, deaf = (started(server_kind, serve(0)) for _ in range(2))
    engine = over(fine, deaf, kind=engine_kind)
    await engine.update_weights_from_checkpoint(published(0), "0")
    assert wrote(await write(engine, 4)) == {fine.url, deaf.url}
    deaf.deaf = True
    folder = published(1)
    await engine.update_weights_from_checkpoint(folder, "1")
    (reason,) = engine.left_out
    assert f"{deaf.url}: keeps old weights" in reason
    assert deaf.weight_version == "1", "it says that it has them"
    assert wrote(await write(engine, 4)) == {fine.url}
    deaf.deaf = False
    await until(lambda: not engine.left_out, engine)
    answers = await write(engine, 4)
    assert wrote(answers) == {fine.url, deaf.url}
    assert len({answer.output_ids for answer in answers}) == 1
    await engine.aclose()


async def test_a_server_of_another_model_is_refused(
    serve: Any, started: Any, published: Any
) -> None:
    folder = Path(published(0))
    answers = read_answers(folder)
    assert answers is not None
    write_answers(folder, [answer - 3 for answer in answers])
    engine = over(started(LoadingVLLMServer, serve(0)))
    with pytest.raises(EngineFailure, match=r"has other weights .*3 nats from the trainer's"):
        await engine.update_weights_from_checkpoint(str(folder), "0")
    (folder / "retrain_probe.json").write_text('{"logprobs": [1]}')
    with pytest.raises(EngineFailure, match=r"retrain_probe\.json: expected 8 finite numbers"):
        await engine.update_weights_from_checkpoint(str(folder), "0")
    await engine.aclose()


async def test_a_vllm_server_that_started_again_gets_the_newest_weights_before_it_writes(
    serve: Any, started: Any, published: Any, weights: Any
) -> None:
    servers = [started(LoadingVLLMServer, serve(0)) for _ in range(2)]
    engine, new = over(*servers), serve(1)
    await engine.update_weights_from_checkpoint(published(1), "1")
    servers[1].kill()
    servers[1].served.load(weights(0))
    await write(engine, 4)
    assert engine.left_out
    loads = len(servers[1].calls("/collective_rpc"))
    servers[1].start()
    await until(lambda: not engine.left_out, engine)
    assert len(servers[1].calls("/collective_rpc")) == loads + 1
    expected = await new.engine.generate(PROMPT, PARAMS, session_id="x", seed=3)
    answers = await write(engine, 4)
    assert wrote(answers) == {server.url for server in servers}
    assert {answer.output_ids for answer in answers} == {expected.output_ids}
    await engine.aclose()


async def restarted_and_held(engine: Any, server: Any) -> None:
    """Start a server again; its check waits where it has loaded what the others have."""
    server.kill()
    await write(engine, 4)
    server.start()
    server.weight_version, last = "default", LAST[type(server)]
    server.holding.add(last)
    asked = len(server.calls(last))
    await until(lambda: len(server.calls(last)) > asked, engine)


@pytest.mark.parametrize(("engine_kind", "server_kind"), KINDS)
async def test_a_server_that_comes_back_during_an_update_writes_nothing_with_older_weights(
    serve: Any, started: Any, weights: Any, engine_kind: Any, server_kind: Any
) -> None:
    servers = [started(server_kind, serve(0)) for _ in range(2)]
    engine, new = over(*servers, kind=engine_kind), serve(1)
    await engine.update_weights_from_checkpoint(weights(0), "0")
    await restarted_and_held(engine, servers[1])
    assert servers[1].weight_version == "0"
    await engine.update_weights_from_checkpoint(weights(1), "1")
    servers[1].holding.clear()
    await until(lambda: not engine.left_out, engine)
    expected = await new.engine.generate(PROMPT, PARAMS, session_id="x", seed=3)
    answers = await write(engine, 4)
    assert wrote(answers) == {server.url for server in servers}
    assert {answer.output_ids for answer in answers} == {expected.output_ids}
    await engine.aclose()


async def test_a_server_that_comes_back_gives_its_memory_to_the_trainer_too(
    serve: Any, started: Any, weights: Any
) -> None:
    servers = [started(LoadingVLLMServer, serve(0)) for _ in range(2)]
    engine = over(*servers)
    await engine.update_weights_from_checkpoint(weights(0), "0")
    await restarted_and_held(engine, servers[1])
    releasing = asyncio.create_task(engine.release_memory())
    await asyncio.sleep(0)
    servers[1].holding.clear()
    await releasing
    assert all(server.sleeping for server in servers)
    await engine.aclose()


async def test_a_folder_that_a_vllm_server_cannot_read_leaves_it_out(
    serve: Any, started: Any, tmp_path: Path
) -> None:
    engine = over(started(LoadingVLLMServer, serve(0)))
    with pytest.raises(EngineFailure, match=r"collective_rpc: HTTP 500: .*nowhere"):
        await engine.update_weights_from_checkpoint(str(tmp_path / "nowhere"), "1")
    await engine.aclose()


async def test_a_vllm_server_outside_its_development_mode_is_refused(
    serve: Any, started: Any, weights: Any
) -> None:
    engine = over(started(VLLMServer, serve(0)))
    await engine.start()
    with pytest.raises(ConfigError, match=r"loads no weights .*VLLM_SERVER_DEV_MODE=1"):
        await engine.update_weights_from_checkpoint(weights(1), "1")
    await engine.aclose()


async def test_a_vllm_server_sleeps_while_its_memory_is_needed(
    serve: Any, started: Any, published: Any
) -> None:
    server, new = started(LoadingVLLMServer, serve(0)), serve(1)
    engine, first = over(server), published(0)
    await engine.update_weights_from_checkpoint(first, "0")
    await engine.release_memory()
    assert server.sleeping and server.paused
    asked = len(server.seen)
    await engine.update_weights_from_checkpoint(published(1), "1")
    order = [(path, body) for path, _, body in server.seen[asked:]]
    paths = [path for path, _ in order if path != "/weight_info"]
    assert paths[:4] == ["/pause", "/wake_up", "/collective_rpc", "/reset_prefix_cache"]
    assert paths.index("/wake_up", 2) < paths.index("/resume") < paths.index("/v1/completions")
    expected = await new.engine.generate(PROMPT, PARAMS, session_id="x", seed=3)
    (answer,) = await write(engine, 1)
    assert answer.output_ids == expected.output_ids
    await engine.release_memory()
    await engine.resume_memory()
    assert not server.sleeping and not server.paused
    assert len(server.calls("/collective_rpc")) == 3, "what it slept through was dropped"
    (again,) = await write(engine, 1)
    assert again.output_ids == expected.output_ids
    await engine.resume_memory()
    assert len(server.calls("/collective_rpc")) == 3, "awake, it has nothing to take"
    await engine.release_memory()
    await engine.aclose()
    other = over(server)
    await other.update_weights_from_checkpoint(first, "2")
    assert not server.sleeping, "whatever a killed run has left"
    assert (await write(other, 1))[0].weight_version == "2"
    await other.aclose()


async def test_a_server_that_cannot_release_its_memory_is_refused(
    serve: Any, started: Any, weights: Any
) -> None:
    for kind, server, flag in (
        (VLLMEngine, started(LoadingVLLMServer, serve(0), sleep_mode=False), "--enable-sleep-mode"),
        (SGLangEngine, started(SGLangServer, serve(0)), "--enable-memory-saver"),
    ):
        engine = over(server, kind=kind)
        await engine.update_weights_from_checkpoint(weights(0), "0")
        with pytest.raises(ConfigError, match=f"{flag}.*torch_colocate"):
            await engine.release_memory()
        assert not server.paused, "it serves whoever comes next"
        await engine.aclose()


@pytest.mark.parametrize(("engine_kind", "server_kind"), KINDS)
async def test_a_server_that_started_again_unnoticed_writes_nothing_with_its_first_weights(
    serve: Any,
    started: Any,
    published: Any,
    weights: Any,
    monkeypatch: pytest.MonkeyPatch,
    engine_kind: Any,
    server_kind: Any,
) -> None:
    monkeypatch.setattr("retrain.engine.http_weights.SEEN_SECONDS", 0.0)
    server, new = started(server_kind, serve(0)), serve(1)
    engine = over(server, kind=engine_kind)
    await engine.update_weights_from_checkpoint(published(1), "1")
    server.served.load(weights(0))
    server.weight_version = "default"
    (answer,) = await write(engine, 1)
    expected = await new.engine.generate(PROMPT, PARAMS, session_id="x", seed=3)
    assert answer.output_ids == expected.output_ids
    assert answer.weight_version == "1" == server.weight_version
    await engine.aclose()
