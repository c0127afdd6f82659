"""Whole runs of the torch backend: as TRL's, resumed bit by bit, refused in plain words."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from backends.local.checkpoints import MARKER
from backends.torch.backend import TorchBackend
from backends.torch.saving.checkpoint_state import newest_checkpoint
from retrain.config import RunConfig, dump_config
from retrain.errors import BackendFailure, ConfigError, RunFolderError
from retrain.report.metrics import read_metrics
from retrain.report.result import RunResult
from retrain.report.samples import read_samples
from retrain.report.trainer_logprobs import read_trainer_logprobs

HERE = Path(__file__).parent
ONE_BY_ONE = {"rollout": {"concurrency": 1}}
"""The engine's numbers depend in their last bits on which episodes it computes together."""

LEARNED = ("train/loss", "train/grad_norm", "train/entropy", "reward/mean", "response/tokens")

pytestmark = pytest.mark.slow


def trained(config: RunConfig, *, resume: bool = False) -> RunResult:
    backend = TorchBackend()
    return backend.train(backend.plan(config), resume=resume)


def curve(run: Path) -> list[tuple[float | None, ...]]:
    """What was learned, iteration by iteration, to the last bit."""
    rows = read_metrics(run / "metrics.jsonl")
    return [tuple(row.values.get(name) for name in LEARNED) for row in rows]


def weights(result: RunResult) -> dict[str, torch.Tensor]:
    return load_file(result.model_dir / "model.safetensors")


def test_it_trains_as_trl_does(config: Any, tmp_path: Path) -> None:
    """The same tasks, seeds and losses: the first iterations play the same episodes."""
    pytest.importorskip("trl", reason="needs TRL: pip install 'retrain[trl]'")
    from backends.trl.backend import TRLBackend

    hyper = {"num_iterations": 2, "loss_aggregation": "sequence", "warmup_steps": 1}
    ours = trained(config(**hyper))
    other = config(backend="trl", **hyper).model_copy(update={"output_dir": tmp_path / "trl"})
    backend = TRLBackend()
    theirs = backend.train(backend.plan(other))
    for number in (1, 2):
        one, two = (
            list(read_samples(r.run_dir / f"samples/{number}.jsonl")) for r in (ours, theirs)
        )
        assert [s.tokens for s in one] == [s.tokens for s in two]
        assert [s.loss_mask for s in one] == [s.loss_mask for s in two]
        assert [s.advantage for s in one] == [s.advantage for s in two]
        for sample in one:
            said, also = (trainer_logprobs(r, number, sample) for r in (ours, theirs))
            assert said == pytest.approx(also, abs=2e-5)
    found, expected = curve(ours.run_dir), curve(theirs.run_dir)
    for row, also in zip(found, expected, strict=True):
        assert row == pytest.approx(also, rel=1e-4, abs=1e-6)
    assert ours.metrics.keys() == theirs.metrics.keys()
    mine, his = weights(ours), weights(theirs)
    assert mine.keys() == his.keys()
    for name, tensor in mine.items():
        torch.testing.assert_close(tensor, his[name], rtol=0, atol=2e-5)


def trainer_logprobs(result: RunResult, iteration: int, sample: Any) -> list[float]:
    """What the trainer says of a sample's trained tokens; [] where it has none."""
    found = read_trainer_logprobs(result.run_dir, iteration, sample.index, 0)
    assert found is not None or not any(sample.loss_mask)
    return [value for value in found or () if value is not None]


def started(made: RunConfig, path: Path) -> subprocess.Popen[bytes]:
    """Train in a process of its own."""
    path.write_text(dump_config(made))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    command = [sys.executable, str(HERE / "native_run.py"), str(path)]
    return subprocess.Popen(command, env=environment)


def wait_for(there: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 240
    while not there():
        assert process.poll() is None
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.02)


def test_a_killed_run_goes_on_bit_by_bit(config: Any, tmp_path: Path) -> None:
    hyper = {"save_interval": 2, "global_batch_size": 6, "kl_coef": 0.05}
    made = config(num_iterations=5, sections=ONE_BY_ONE, **hyper)
    whole = trained(made.model_copy(update={"output_dir": tmp_path / "whole"}))
    run = made.output_dir
    process = started(made, tmp_path / "config.yaml")
    wait_for(lambda: newest_checkpoint(run / "checkpoints") is not None, process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    resumed = trained(made, resume=True)
    assert curve(run) == curve(whole.run_dir)
    assert len(curve(run)) == 5
    for name, tensor in weights(resumed).items():
        assert torch.equal(tensor, weights(whole)[name])


@pytest.mark.soak
def test_half_written_checkpoints_are_passed_over(config: Any) -> None:
    made = config(num_iterations=2, save_interval=1, sections=ONE_BY_ONE)
    result = trained(made)
    checkpoints = result.run_dir / "checkpoints"
    (checkpoints / "checkpoint-2" / MARKER).unlink()
    newest = newest_checkpoint(checkpoints)
    assert newest is not None
    assert newest.step == 1
    before = curve(result.run_dir)
    for left in ("2-abcdef", ".2-abcdef.partial"):  # by a run that was killed
        (result.run_dir / "state" / "weights" / left).mkdir(parents=True)
    trained(made, resume=True)
    assert curve(result.run_dir) == before
    assert not [*(result.run_dir / "state" / "weights").iterdir()]
    assert (result.run_dir / "superseded" / "model-1").is_dir()


def test_another_model_and_other_sizes_are_refused(
    config: Any, model_dir: Path, tmp_path: Path
) -> None:
    trained(config(num_iterations=1, save_interval=1))
    with pytest.raises(ConfigError, match="global_batch_size: 12 then, 6 now"):
        trained(config(num_iterations=2, global_batch_size=6), resume=True)
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    other = AutoConfig.from_pretrained(model_dir)
    other.num_hidden_layers = 1
    if getattr(other, "layer_types", None):
        other.layer_types = other.layer_types[:1]
    AutoModelForCausalLM.from_config(other).save_pretrained(tmp_path / "other")
    AutoTokenizer.from_pretrained(model_dir).save_pretrained(tmp_path / "other")
    sections = {"model": {"name_or_path": str(tmp_path / "other"), "threads": 1}}
    with pytest.raises(ConfigError, match="num_hidden_layers is"):
        trained(config(num_iterations=2, sections=sections), resume=True)
    assert not (tmp_path / "run" / "superseded").exists()


def test_lora_trains_its_adapter_alone(config: Any, model_dir: Path) -> None:
    peft = {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"]}
    sections = {"model": {"name_or_path": str(model_dir), "threads": 1, "peft": peft}}
    hyper = {"save_interval": 1, "kl_coef": 0.1, "sections": sections, "learning_rate": 1e-2}
    result = trained(config(num_iterations=2, **hyper))
    assert (result.run_dir / "adapter" / "adapter_model.safetensors").is_file()
    base = load_file(model_dir / "model.safetensors")
    changed = {n for n, tensor in weights(result).items() if not torch.equal(tensor, base[n])}
    assert changed
    assert all("q_proj" in name or "v_proj" in name for name in changed)
    longer = trained(config(num_iterations=3, **hyper), resume=True)
    assert longer.iterations == 3


def test_sft_lowers_the_loss_and_resumes(config: Any, tmp_path: Path) -> None:
    rows = [
        {
            "id": f"d{i}",
            "messages": [
                {"role": "user", "content": f"{i}+1"},
                {"role": "assistant", "content": str(i + 1)},
            ],
        }
        for i in range(9)
    ]
    path = tmp_path / "demonstrations.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def imitating(steps: int, folder: str) -> RunConfig:
        document = config().model_dump(mode="json")
        document["environment"] = {"type": "calculator"}
        document["prompt_source"] = {"type": "jsonl", "source_config": {"path": str(path)}}
        document["output_dir"] = str(tmp_path / folder)
        document["algorithm"] = {
            "name": "sft",
            "backend": "torch",
            "hyperparameters": {
                "num_iterations": steps,
                "global_batch_size": 4,
                "learning_rate": 3e-3,
                "save_interval": 5,
            },
        }
        return RunConfig.model_validate(document)

    whole = trained(imitating(12, "whole"))
    losses = [row[0] for row in curve(whole.run_dir)]
    assert losses[-1] is not None
    assert losses[0] is not None
    assert losses[-1] < 0.7 * losses[0]
    trained(imitating(5, "half"))
    half = trained(imitating(12, "half"), resume=True)
    assert curve(half.run_dir) == curve(whole.run_dir)
    exported = TorchBackend().export(half.run_dir, tmp_path / "exported")
    assert load_file(exported / "model.safetensors").keys() == weights(whole).keys()


def test_a_loss_of_nan_stops_with_its_samples(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from backends.torch.run import bridged

    real = bridged.BridgedRollouts.generate_batch

    async def poisoned(self: Any) -> Any:
        batch = await real(self)
        trained_on = next(s for s in batch.samples if any(s.loss_mask))
        trained_on.advantage = 1e39  # infinite in float32
        return batch

    monkeypatch.setattr(bridged.BridgedRollouts, "generate_batch", poisoned)
    made = config(save_interval=1)
    with pytest.raises(BackendFailure, match="no step was taken") as caught:
        trained(made)
    (written,) = (made.output_dir / "failed").glob("*.jsonl")
    assert str(written) in str(caught.value)
    assert any(sample.advantage == 1e39 for sample in read_samples(written))


def test_what_cannot_be_honoured_is_refused_at_plan_time(config: Any, tmp_path: Path) -> None:
    def problems(**given: Any) -> str:
        return "\n".join(str(p) for p in TorchBackend().plan(config(**given)).errors)

    ahead = {"rollout": {"asynchronous": True}}
    assert "rollout.asynchronous: the engine in the training" in problems(sections=ahead)
    url = ["http://127.0.0.1:1"]
    openai = {"rollout": {"engine": {"name": "openai", "urls": url}}}
    assert "openai servers load no weights" in problems(sections=openai)
    vllm = {"rollout": {"engine": {"name": "vllm", "urls": url}}}
    assert not problems(sections=vllm)
    assert "top_p: vLLM gives logprobs of what top_p" in problems(sections=vllm, top_p=0.9)
    assert "temperatures from 0 to 2, not 2.5" in problems(sections=vllm, temperature=2.5)
    assert "torch_colocate: is for servers" in problems(torch_colocate=True)
    vllm["rollout"]["asynchronous"] = True
    assert "torch_colocate: servers that gave" in problems(sections=vllm, torch_colocate=True)
    gone = {"model": {"name_or_path": str(tmp_path / "gone")}}
    assert "is no folder" in problems(sections=gone)
    with pytest.raises(ConfigError, match=r"torch_packin: .*did you mean 'packing'"):
        TorchBackend().plan(config(torch_packin=True))
    with pytest.raises(ConfigError, match=r"torch_micro_batch_tokens: .*got 'many'"):
        TorchBackend().plan(config(torch_micro_batch_tokens="many"))
    with pytest.raises(RunFolderError, match="no weights yet"):
        TorchBackend().export(tmp_path, tmp_path / "to")


@pytest.mark.soak
@pytest.mark.parametrize(
    "given",
    [
        {"name": "gspo", "torch_packing": True},
        {"name": "dr_grpo", "torch_micro_batch_tokens": 64},
        {"name": "rloo", "importance_correction": "tis", "temperature": 0.7},
    ],
)
def test_every_algorithm_trains(config: Any, given: dict[str, Any]) -> None:
    result = trained(config(num_iterations=1, global_batch_size=6, **given))
    assert result.metrics["train/grad_norm"] > 0
    assert result.metrics["train/logprob_abs_diff"] < 1e-5


@pytest.mark.soak
def test_ctrl_c_ends_the_iteration_with_a_checkpoint(config: Any, tmp_path: Path) -> None:
    made = config(num_iterations=10_000)
    run = made.output_dir
    process = started(made, tmp_path / "config.yaml")
    wait_for(lambda: (run / "metrics.jsonl").is_file() and len(curve(run)) >= 2, process)
    process.send_signal(signal.SIGINT)
    assert process.wait(240) == 0
    newest = newest_checkpoint(run / "checkpoints")
    assert newest is not None
    assert newest.step == newest.state["iteration"] == len(curve(run)) < 10_000
    assert (run / "model" / "model.safetensors").is_file()


@pytest.mark.soak
def test_another_backend_goes_on_from_it_and_back(config: Any, tmp_path: Path) -> None:
    """By its weights and its place in the data; each run with its own backend."""
    pytest.importorskip("trl", reason="needs TRL: pip install 'retrain[trl]'")
    from retrain.training import train

    def made(backend: str) -> RunConfig:
        found: RunConfig = config(backend=backend, num_iterations=2, save_interval=1)
        return found.model_copy(update={"output_dir": tmp_path / f"{backend}-run"})

    first = train(made("torch"))
    second = train(made("trl"), continue_from=first.run_dir)
    longer = made("torch").model_copy(update={"output_dir": tmp_path / "third"})
    third = train(longer, continue_from=second.run_dir)
    visits = []
    for result in (first, second, third):
        for number in (1, 2):
            samples = read_samples(result.run_dir / f"samples/{number}.jsonl")
            notes = [s.metadata["retrain"].get("trajectory") for s in samples]
            visits += sorted({(n["task"]["id"], n["seed"]["visit"]) for n in notes if n})
    assert len(visits) == len({*visits}) == 18, "no visit is lost or played twice"


@pytest.mark.soak
def test_stages_follow_each_other(config: Any, tmp_path: Path) -> None:
    from retrain.training import train

    path = tmp_path / "demonstrations.jsonl"
    path.write_text(
        '{"id": "a", "messages": [{"role": "user", "content": "1"}, '
        '{"role": "assistant", "content": "2"}]}\n'
    )
    imitation = {"num_iterations": 2, "global_batch_size": 2, "learning_rate": 1e-3}
    document = config(num_iterations=1).model_dump(mode="json")
    document["stages"] = [
        {
            "name": "sft",
            "prompt_source": {"type": "jsonl", "source_config": {"path": str(path)}},
            "algorithm": {"name": "sft", "hyperparameters": imitation},
        },
        {"name": "grpo"},
    ]
    result = train(RunConfig.model_validate(document))
    sft = result.run_dir.parent / "sft" / "model"
    plan = json.loads((result.run_dir / "plan.json").read_text())
    assert plan["num_steps"] == 1
    base = load_file(sft / "model.safetensors")
    assert any(not torch.equal(tensor, base[name]) for name, tensor in weights(result).items())
    assert (result.run_dir / "curve.png").is_file()
