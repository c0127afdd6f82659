"""What a run with a vLLM server that collects ahead does, and when: for tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from loss_spy import MicroBatch
from vllm_training_server import TrainingServer, server_options

from backends.trl.trainer import BridgedGRPOTrainer
from retrain.config import RunConfig
from retrain.sample import Sample

TEMPERATURE = 0.8
SECONDS = 120.0
"""A wait that lasts so long has failed."""

Log = list[tuple[str, dict[str, str], Any]]
"""What happened in order; a server's `seen` is one."""

OnLoss = Callable[[Any, int], None]
"""Called with the trainer and its step, between a forward and its backward."""


def ahead_config(config: Any, server: TrainingServer, **options: Any) -> RunConfig:
    """A run that collects ahead from a server; `rollout` adds to that section."""
    sections = options.pop("sections", {})
    rollout = {"asynchronous": True, **options.pop("rollout", {})}
    given = {
        "temperature": TEMPERATURE,
        "trl_use_vllm": True,
        "learning_rate": 3e-3,
        "max_context_len": 200,
        "save_interval": 1,
        **server_options(server),
        **options,
    }
    made: RunConfig = config(**given, sections={"rollout": rollout, **sections})
    return made


def during_training(monkeypatch: pytest.MonkeyPatch, log: Log, do: OnLoss) -> None:
    """Call `do` once in every training step; the log says when it was."""
    compute_loss = BridgedGRPOTrainer._compute_loss

    def watched(trainer: Any, model: Any, inputs: Any) -> Any:
        loss = compute_loss(trainer, model, inputs)
        step = trainer.state.global_step
        if trainer.model.training and (trainer, step) not in seen:
            seen.append((trainer, step))
            log.append(("train", {}, step))
            do(trainer, step)
            log.append(("trained", {}, step))
        return loss

    seen: list[tuple[Any, int]] = []
    monkeypatch.setattr(BridgedGRPOTrainer, "_compute_loss", watched)


def until(condition: Callable[[], Any]) -> None:
    """Wait for what another thread does."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


def coming(trainer: Any) -> Any:
    """The task that collects the next batch; None after the last one."""
    return trainer._feed._batches._ahead._coming


def weights_of(trainer: Any) -> dict[str, torch.Tensor]:
    """A copy of the weights that are trained."""
    return {name: value.detach().clone() for name, value in trainer.model.state_dict().items()}


def collected_ahead(trainer: Any) -> None:
    """Wait until the next batch is there."""
    task = coming(trainer)
    until(lambda: task is None or task.done())


def events(log: Log, step: int) -> list[str]:
    """What happened while the trainer was in the loss of `step`."""
    calls = [(name, about) for name, _, about in log]
    begin, end = calls.index(("train", step)), calls.index(("trained", step))
    return [name for name, _ in calls[begin + 1 : end]]


def spans(sample: Sample) -> Iterator[tuple[slice, str]]:
    """Where in a response each stretch of tokens stands, and the version that wrote it."""
    start = 0
    for turn in sample.metadata["retrain"]["turns"]:
        written = turn["weight_spans"] or [(turn["output"], turn["weight_version"])]
        place = start
        for count, version in written:
            yield slice(place, place + count), version
            place += count
        start += turn["output"] + turn["env"]


def logprobs_of(sample: Sample, model: Any) -> torch.Tensor:
    """[T] the logprobs of a response by one plain forward."""
    response = len(sample.tokens) - sample.response_length
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([sample.tokens])).logits[0] / TEMPERATURE
    logprobs = torch.log_softmax(logits[response - 1 : -1].float(), -1)
    return logprobs.gather(1, torch.tensor(sample.tokens[response:]).unsqueeze(1)).squeeze(1)


def true_versions(
    batches: Sequence[MicroBatch], weights: dict[int, Any], model: Any
) -> list[set[str]]:
    """The versions that wrote each step's tokens, where the weights that they name give the
    engine's logprobs."""
    found: list[set[str]] = [set() for _ in weights]
    for batch in batches:
        for sample in batch.samples():
            for place, version in spans(sample):
                model.load_state_dict(weights[int(version)])
                engine = torch.tensor(sample.rollout_log_probs[place])
                exact = logprobs_of(sample, model)[place]
                torch.testing.assert_close(exact, engine, atol=1e-4, rtol=0)
                found[batch.step].add(version)
    return found
