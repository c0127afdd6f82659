"""New weights, really loaded by the servers from a folder."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from quick_settings import QUICK
from sglang_server import SGLangServer

from retrain.engine import SamplingParams
from retrain.engine.sglang_engine import SGLangEngine
from retrain.errors import EngineFailure
from retrain.types import FinishReason

PROMPT = [1, 50, 60, 70]
PARAMS = SamplingParams(8, stop_token_ids=frozenset({2}))


def over(*servers: Any) -> SGLangEngine:
    return SGLangEngine([server.url for server in servers], settings=QUICK)


async def test_an_update_moves_every_server(serve: Any, started: Any, weights: Any) -> None:
    servers = [started(SGLangServer, serve(0)) for _ in range(2)]
    engine, new = over(*servers), serve(1)
    before = await engine.generate(PROMPT, PARAMS, session_id="a", seed=3)
    await engine.update_weights_from_checkpoint(weights(1), "step-1")
    expected = await new.engine.generate(PROMPT, PARAMS, session_id="x", seed=3)
    answers = await asyncio.gather(
        *(engine.generate(PROMPT, PARAMS, session_id=f"n{n}", seed=3) for n in range(4))
    )
    assert {answer.meta["server"] for answer in answers} == {server.url for server in servers}
    for answer in answers:
        assert answer.output_ids == expected.output_ids != before.output_ids
        assert answer.weight_version == "step-1" == engine.weight_version
    order = [path for path, _, _ in servers[0].seen]
    update = order.index("/update_weights_from_disk")
    assert order[update - 2 : update] == ["/pause_generation", "/flush_cache"]
    assert order[update + 1 : update + 3] == ["/model_info", "/continue_generation"]
    assert order.count("/update_weights_from_disk") == 1
    await engine.aclose()


async def test_weights_are_loaded_even_if_the_server_has_a_version_of_that_name(
    serve: Any, started: Any, weights: Any
) -> None:
    server = started(SGLangServer, serve(0))
    server.weight_version = "5"
    engine, new = over(server), serve(1)
    await engine.update_weights_from_checkpoint(weights(1), "5")
    answer = await engine.generate(PROMPT, PARAMS, session_id="s", seed=3)
    expected = await new.engine.generate(PROMPT, PARAMS, session_id="x", seed=3)
    assert answer.output_ids == expected.output_ids
    await engine.aclose()


async def test_a_running_turn_is_aborted_by_an_update(
    serve: Any, started: Any, weights: Any
) -> None:
    server = started(SGLangServer, serve(0))
    engine = over(server)
    await engine.start()
    turn = asyncio.create_task(engine.generate([1], SamplingParams(490), session_id="s", seed=0))
    while not server.running:
        await asyncio.sleep(0.005)
    await engine.update_weights_from_checkpoint(weights(1), "1")
    assert (await turn).finish_reason is FinishReason.ABORT
    await engine.aclose()


async def test_weights_that_do_not_move_are_a_failure(
    serve: Any, started: Any, weights: Any
) -> None:
    fine, stuck = (started(SGLangServer, serve(0)) for _ in range(2))
    stuck.stuck = True
    engine = over(fine, stuck)
    await engine.start()
    await engine.update_weights_from_checkpoint(weights(1), "7")
    (reason,) = engine.left_out
    assert "the weights did not move" in reason and "'default', not '7'" in reason
    assert not stuck.paused, "generation continues whatever happened"
    answers = await asyncio.gather(
        *(engine.generate(PROMPT, PARAMS, session_id=f"n{n}", seed=3) for n in range(4))
    )
    assert {answer.meta["server"] for answer in answers} == {fine.url}, "no stale turn"
    fine.stuck = True
    with pytest.raises(EngineFailure, match=r"the weights did not move.*'7', not '8'"):
        await engine.update_weights_from_checkpoint(weights(0), "8")
    await engine.aclose()


async def test_a_folder_without_weights_is_named(serve: Any, started: Any) -> None:
    engine = over(started(SGLangServer, serve(0)))
    with pytest.raises(EngineFailure, match=r"update_weights_from_disk: HTTP 400: .*nowhere"):
        await engine.update_weights_from_checkpoint("/nowhere", "1")
    await engine.aclose()


async def test_a_server_that_comes_back_gets_the_weights_that_the_others_have(
    serve: Any, started: Any, weights: Any
) -> None:
    servers = [started(SGLangServer, serve(0)) for _ in range(2)]
    engine, new = over(*servers), serve(1)
    await engine.start()
    servers[1].kill()
    await asyncio.sleep(0.01)
    await engine.update_weights_from_checkpoint(weights(1), "1")
    assert "ClientConnectorError" in engine.left_out[0]
    servers[1].start()
    expected = await new.engine.generate(PROMPT, PARAMS, session_id="x", seed=3)
    async with asyncio.timeout(10):
        back = False
        while not back:
            answers = await asyncio.gather(
                *(engine.generate(PROMPT, PARAMS, session_id=f"n{n}", seed=3) for n in range(2))
            )
            back = any(answer.meta["server"] == servers[1].url for answer in answers)
            assert {answer.output_ids for answer in answers} == {expected.output_ids}
            for n in range(2):
                await engine.release(f"n{n}")
            await asyncio.sleep(0.02)
    assert servers[1].calls("/update_weights_from_disk")
    await engine.aclose()
