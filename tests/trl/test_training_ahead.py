"""`rollout.asynchronous: true`: the next batch is written while TRL trains on this one."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from ahead_run import (
    ahead_config,
    collected_ahead,
    coming,
    during_training,
    events,
    true_versions,
    until,
    weights_of,
)
from gloo_weights import send_over_gloo
from held_engine import SOME, HeldEngine
from test_resume import visits
from transformers import AutoModelForCausalLM
from vllm_training_server import Start, TrainingServer, serving

from backends.trl.checkpoints import newest_checkpoint
from retrain.errors import RetrainError
from retrain.report.metrics import read_metrics
from retrain.report.samples import read_samples
from retrain.rollout.ahead import CollectingAhead
from retrain.rollout.buffer import DataBuffer
from retrain.rollout.sources import make_tasks
from retrain.training import train

pytestmark = pytest.mark.slow

EVALUATION = {
    "evaluation": {
        "prompt_source": {"type": "list", "source_config": {"items": ["held out"]}},
        "n_samples_per_prompt": 1,
        "interval": 1,
    }
}


@pytest.fixture
def start(model_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts servers of the model that is trained."""
    send_over_gloo(monkeypatch)
    with serving(model_dir) as make:
        yield make


def rows(made: Any) -> list[Any]:
    found = [row.values for row in read_metrics(made.output_dir / "metrics.jsonl")]
    return [row for row in found if "train/loss" in row]


def expected_visits(made: Any, iterations: int, batch: int = 3) -> list[tuple[str, int]]:
    tasks = make_tasks("list", made.prompt_source.source_config, Path())
    drawn = DataBuffer(tasks, seed=made.seed).draw(iterations * batch)
    return [(request.task.id, request.visit) for request in drawn]


def test_the_next_batch_is_written_while_one_is_trained_on(
    config: Any,
    spy: Any,
    start: Start,
    model_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = start()
    made = ahead_config(config, server, num_iterations=3, sections=EVALUATION)

    weights: dict[int, Any] = {}

    def while_training(trainer: Any, step: int) -> None:
        weights[step] = weights_of(trainer)
        collected_ahead(trainer)

    during_training(monkeypatch, server.seen, while_training)
    train(made)
    for step in (0, 1):
        assert {*events(server.seen, step)} == {"/v1/completions"}, "turns, and no weights"
    assert events(server.seen, 2) == [], "nothing is collected beyond the end"
    model = AutoModelForCausalLM.from_pretrained(model_dir)
    written = true_versions(spy.batches, weights, model)
    assert written == [{"0"}, {"0"}, {"1"}]
    for batch in spy.batches:
        old = batch.inputs["old_per_token_logps"]
        for row, sample in zip(old, batch.samples(), strict=True):
            torch.testing.assert_close(
                row[: sample.response_length], torch.tensor(sample.rollout_log_probs)
            )
    assert [row["rollout/staleness"] for row in rows(made)] == [0, 1, 1]
    assert [row["rollout/stale_tokens"] > 0 for row in rows(made)] == [False, True, True]
    assert rows(made)[0]["train/logprob_abs_diff"] < 1e-5
    assert rows(made)[1]["train/logprob_abs_diff"] > 1e-3, "it is one update old"
    assert visits(made.output_dir, 3) == expected_visits(made, 3)
    for iteration in range(4):
        held_out = read_samples(made.output_dir / "samples" / f"eval-{iteration}.jsonl")
        assert {v for s in held_out for v in s.weight_versions} == {str(iteration)}


class HoldingServer(TrainingServer):
    """Holds turns from when a batch is handed out until new weights come."""

    @property
    def engine(self) -> HeldEngine:
        return self.served.engine  # type: ignore[return-value]

    async def _start_weight_update(self, request: Any) -> Any:
        assert not self.running, "a turn is in the engine while its weights change"
        self.engine.holding = False
        return await super()._start_weight_update(request)


@pytest.fixture
def holding(model_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HoldingServer]:
    send_over_gloo(monkeypatch)
    with serving(model_dir, HoldingServer) as make:
        server = make()
        server.served.engine = HeldEngine(server.served.engine)
        collect = CollectingAhead.collect

        async def collect_and_hold(ahead: Any, *, last: bool = False) -> Any:
            batch = await collect(ahead, last=last)
            server.engine.holding = not last
            return batch

        monkeypatch.setattr(CollectingAhead, "collect", collect_and_hold)
        yield server


def test_turns_that_new_weights_interrupt_go_on_from_their_tokens(
    config: Any,
    spy: Any,
    holding: HoldingServer,
    model_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = ahead_config(config, holding, num_iterations=3, sections=EVALUATION)

    weights: dict[int, Any] = {}

    def while_training(trainer: Any, step: int) -> None:
        weights[step] = weights_of(trainer)
        until(lambda: coming(trainer) is None or holding.engine.held)

    during_training(monkeypatch, holding.seen, while_training)
    train(made)
    model = AutoModelForCausalLM.from_pretrained(model_dir)
    written = true_versions(spy.batches, weights, model)
    assert written == [{"0"}, {"0", "1"}, {"1", "2"}]
    second = [sample for batch in spy.batches if batch.step == 1 for sample in batch.samples()]
    turns = [turn for sample in second for turn in sample.metadata["retrain"]["turns"]]
    begun = [turn["weight_spans"][0] for turn in turns if turn["weight_spans"]]
    assert begun and all(tuple(span) == (SOME, "0") for span in begun), "each went on from there"
    assert [row["rollout/staleness"] for row in rows(made)] == [0, 1, 1]
    for row in rows(made)[1:]:
        assert row["train/logprob_abs_diff_current"] < 1e-5 < row["train/logprob_abs_diff"]
    assert visits(made.output_dir, 3) == expected_visits(made, 3)


def require_conserved(made: Any, iterations: int, batch: int = 3) -> dict[str, Any]:
    """Every drawn visit is trained once, or waits in the newest checkpoint; gives its state."""
    checkpoint = newest_checkpoint(made.output_dir / "checkpoints")
    assert checkpoint is not None and checkpoint.step == iterations
    state = dict(checkpoint.state)
    rollout = state["rollout"]
    waiting = [(row["task"], row["visit"]) for row in rollout["pending"]]
    waiting += [(r["group"]["task"]["id"], r["group"]["visit"]) for r in rollout["finished"]]
    found = sorted([*visits(made.output_dir, iterations), *waiting])
    drawn = state["data"]["drawn"]
    assert drawn == len(found)
    assert found == sorted(expected_visits(made, iterations + 1, batch)[:drawn])
    return state


def test_ctrl_c_keeps_what_was_collected_ahead_and_a_resume_trains_on_it(
    config: Any, holding: HoldingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ahead_config(config, holding, num_iterations=4)

    def while_training(trainer: Any, step: int) -> None:
        if step == 1:
            until(lambda: holding.engine.held)
            os.kill(os.getpid(), signal.SIGINT)

    during_training(monkeypatch, holding.seen, while_training)
    result = train(made)
    assert result.interrupted and result.iterations == 2
    state = require_conserved(made, 2)
    assert len(state["rollout"]["pending"]) + len(state["rollout"]["finished"]) == 3
    assert {row["begun"] for row in state["rollout"]["pending"]} == {state["rollout"]["updates"]}
    holding.engine.holding = False
    made = ahead_config(config, holding, num_iterations=4)
    assert train(made, resume=True).iterations == 4
    assert visits(made.output_dir, 4) == expected_visits(made, 4)
    assert [row["rollout/staleness"] for row in rows(made)] == [0, 1, 0, 1], "it begins again"


def broken(reply: Any) -> Any:
    (choice,) = reply["choices"]
    return {**reply, "choices": [{**choice, "logprobs": None}]}


def test_what_fails_ahead_ends_the_run_with_its_reason_and_loses_no_visit(
    config: Any, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start()
    made = ahead_config(config, server, num_iterations=4, rollout={"engine_retries": 0})

    def while_training(trainer: Any, step: int) -> None:
        if step == 0:
            collected_ahead(trainer)
        if step == 1 and not failed:
            failed.append(step)
            server.faults.extend([broken] * 500)
            collected_ahead(trainer)

    failed: list[int] = []
    during_training(monkeypatch, server.seen, while_training)
    with pytest.raises(RetrainError, match="gives no logprobs"):
        train(made)
    require_conserved(made, 2)
    server.faults.clear()
    made = ahead_config(config, server, num_iterations=4)
    assert train(made, resume=True).iterations == 4
    assert visits(made.output_dir, 4) == expected_visits(made, 4)


def test_a_server_that_ignores_new_weights_is_noticed_though_all_tokens_are_older(
    config: Any, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start()
    server.deaf = True
    during_training(monkeypatch, server.seen, lambda trainer, step: collected_ahead(trainer))
    with pytest.raises(RetrainError, match=r"the weights do not move: after \d syncs"):
        train(ahead_config(config, server, num_iterations=6))
