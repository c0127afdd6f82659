"""256 episodes at once through the client that also drives real SGLang servers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from waiting import wait_for

from bridges import EnvironmentBridge, EpisodeLimits
from retrain.engine import SamplingParams
from retrain.engine.http_client import HttpSettings
from retrain.engine.sglang_engine import SGLangEngine
from retrain.environment.calculator import CalculatorEnvironment
from retrain.rendering import load_renderer
from retrain.sample import Status
from retrain.seeds import EpisodeSeed
from retrain.types import FinishReason, Task, Trajectory

EPISODES = 256
LEAVING = 16
TEMPERATURE = 0.9
SETTINGS = HttpSettings(timeout=120, backoff=0.02, probe_interval=0.05)


def player(served: Any, engine: SGLangEngine) -> Any:
    """Makes episodes of the calculator."""
    renderer = load_renderer(served.service.loaded.tokenizer)
    limits = EpisodeLimits(max_response_len=96, max_tokens_per_turn=12, max_turns=2)
    bridge = EnvironmentBridge(renderer, CalculatorEnvironment, limits)

    async def play(n: int) -> Trajectory:
        return await bridge.run(
            Task(f"t{n}", f"{n}+{n} then *2", label=str(4 * n)),
            engine=engine,
            params=SamplingParams(max_tokens=96, temperature=TEMPERATURE),
            seed=EpisodeSeed(3, "train", f"t{n}", 0, 0),
        )

    return play


def worst_difference(model: Any, episode: Trajectory, version: str) -> float:
    """Largest |the server's logprob - a plain forward's| of a version's turns, in nats."""
    import torch

    worst = 0.0
    for segment in episode.segments:
        end = len(segment.prompt_ids)
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([segment.ids])).logits[0].float() / TEMPERATURE
        logprobs = torch.log_softmax(logits, -1)
        for turn in segment.turns:
            places = range(end - 1, end - 1 + len(turn.output_ids))
            plain = logprobs[list(places), list(turn.output_ids)].tolist()
            if turn.weight_version == version:
                pairs = zip(plain, turn.output_logprobs, strict=True)
                worst = max([worst, *(abs(one - other) for one, other in pairs)])
            end += len(turn.output_ids) + len(turn.env_ids)
    return worst


async def test_episodes_survive_new_weights_and_clients_that_leave(
    server: Any, served_weights: Path
) -> None:
    from transformers import AutoModelForCausalLM

    served = server(most=EPISODES)
    engine = SGLangEngine(served.url, settings=SETTINGS)
    await engine.start()
    assert engine.capabilities.seeded
    play = player(served, engine)
    tasks = [asyncio.create_task(play(n)) for n in range(EPISODES)]
    leaving, staying = tasks[:LEAVING], tasks[LEAVING:]
    while sum(task.done() for task in tasks) < EPISODES // 8:
        await asyncio.sleep(0.02)
    for task in leaving:
        task.cancel()
    await engine.update_weights_from_checkpoint(str(served_weights / "second"), "1")
    late = [asyncio.create_task(play(EPISODES + n)) for n in range(LEAVING)]
    played = await asyncio.gather(*staying, *late)
    await asyncio.gather(*leaving, return_exceptions=True)

    ended = {Status.COMPLETED, Status.TRUNCATED, Status.ABORTED}
    assert {episode.status for episode in played} <= ended, played[0].error
    assert any(episode.status is Status.COMPLETED for episode in played)
    turns = [turn for episode in played for turn in episode.turns]
    versions = [turn.weight_version for turn in turns]
    assert {*versions} == {"default", "1"}
    assert all(turn.output_ids for turn in turns if turn.finish_reason is not FinishReason.ABORT)
    models = {"default": served_weights / "first", "1": served_weights / "second"}
    for version, path in models.items():
        model = AutoModelForCausalLM.from_pretrained(path)
        assert max(worst_difference(model, e, version) for e in played) < 1e-3, version
    wait_for(lambda: served.running() == 0)
    await engine.aclose()
