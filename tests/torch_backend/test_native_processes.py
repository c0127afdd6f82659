"""Several processes from the command line: what one trains, two do, and none waits for a dead one.

The engine is scripted by seed, so that every launch plays the same episodes.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from several_processes import (
    SECONDS,
    TRAIN,
    environment,
    launched,
    ranks,
    torchrun,
    trained,
    written,
)
from test_native_weight_sync import serving_apart, weights_folder

from backends.local.exporting import merge_adapter
from backends.torch.backend import TorchBackend
from backends.torch.processes.connecting import own_device
from backends.torch.saving.checkpoint_state import newest_checkpoint
from retrain.config import ModelConfig, PeftConfig, RunConfig
from retrain.errors import ConfigError
from retrain.launch import Launch
from retrain.report.metrics import read_metrics
from retrain.report.samples import read_samples

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LORA = {"r": 3, "lora_alpha": 8, "target_modules": ["q_proj", "down_proj"]}
LOST = "cannot go on: another rank has ended or was killed"
TIMED = ("seconds", "tokens_per_second")


def differing(one: Path, other: Path) -> dict[str, Any]:
    """The metrics of two runs that are not the same to 1e-5; of an adapter's KL, to 1e-7."""
    rows, also = ([row.values for row in read_metrics(r / "metrics.jsonl")] for r in (one, other))
    assert len(rows) == len(also) > 0
    return {
        f"{place}: {name}": (row[name], row2.get(name))
        for place, (row, row2) in enumerate(zip(rows, also, strict=True))
        for name in row
        if not any(word in name for word in TIMED)
        and row[name] != pytest.approx(row2.get(name), rel=1e-5, abs=1e-7)
    }


def files(run: Path) -> set[str]:
    """The names of a run's files; the optimizer's parts are one for each process."""
    named = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    return {name for name in named if "distcp" not in name and "random-" not in name}


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def assert_same_weights(one: Path, other: Path) -> None:
    found, expected = weights(one), weights(other)
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, expected[name], rtol=0, atol=2e-5)


@pytest.fixture
def imitating(config: Any, model_dir: Path, tmp_path: Path) -> Callable[..., RunConfig]:
    """Makes an imitation of nine demonstrations, four a step."""
    rows = [
        {
            "id": f"d{i}",
            "messages": [
                {"role": "user", "content": f"{i}+1 " * (i % 3 + 1)},
                {"role": "assistant", "content": str(i + 1) * (i % 4 + 1)},
            ],
        }
        for i in range(9)
    ]
    path = tmp_path / "demonstrations.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def make(folder: str, steps: int = 4, *, peft: Any = None, **hyper: Any) -> RunConfig:
        document = config().model_dump(mode="json")
        document["model"]["peft"] = peft
        document["environment"] = {"type": "calculator"}
        document["prompt_source"] = {"type": "jsonl", "source_config": {"path": str(path)}}
        document["output_dir"] = str(tmp_path / folder)
        hyper = {"learning_rate": 3e-3, "global_batch_size": 4, "save_interval": 2, **hyper}
        hyper["num_iterations"] = steps
        document["algorithm"] = {"name": "sft", "backend": "torch", "hyperparameters": hyper}
        return RunConfig.model_validate(document)

    return make


@pytest.fixture
def playing(config: Any, model_dir: Path, tmp_path: Path) -> Callable[..., RunConfig]:
    """Makes a run of two optimizer steps an iteration over the scripted engine."""

    def make(
        folder: str,
        *,
        peft: Any = None,
        fail_at: int = -1,
        environment: str | None = None,
        **hyper: Any,
    ) -> RunConfig:
        engine = {"name": "scripted_engine:seeded", "fail_at": fail_at}
        model = {"name_or_path": str(model_dir), "threads": 1, "peft": peft}
        sections: dict[str, Any] = {"rollout": {"engine": engine}, "model": model}
        hyper = {"global_batch_size": 6, "save_interval": 1, "num_iterations": 3, **hyper}
        if environment is not None:
            sections["environment"] = {"type": environment}
        made: RunConfig = config(sections=sections, **hyper)
        return made.model_copy(update={"output_dir": tmp_path / folder})

    return make


def test_two_processes_imitate_as_one(imitating: Any) -> None:
    backend = TorchBackend()
    one = backend.train(backend.plan(imitating("one", torch_micro_batch_tokens=64))).run_dir
    two = trained(2, imitating("two", torch_micro_batch_tokens=64))
    assert differing(one, two) == {}
    assert_same_weights(one / "model", two / "model")
    of_cli = {"curve.png", "report.html", "provenance.jsonl", "state/result.json"}
    assert files(one) - of_cli == files(two) - of_cli
    assert json.loads((two / "plan.json").read_text())["sharding"] == "fully_shard"


@pytest.mark.soak
@pytest.mark.parametrize("peft", [None, LORA], ids=["whole", "adapter"])
def test_two_processes_learn_from_rollouts_as_one(playing: Any, peft: Any) -> None:
    """With a reference model, which of an adapter is the model without it."""
    hyper = {"kl_coef": 0.05, "importance_correction": "tis", "torch_micro_batch_tokens": 128}
    one, two = (
        trained(n, playing(f"run{n}", peft=peft, learning_rate=1e-3, **hyper)) for n in (1, 2)
    )
    assert differing(one, two) == {}
    assert files(one) == files(two)
    assert_same_weights(one / "model", two / "model")
    for number in (1, 2, 3):
        played = [read_samples(run / f"samples/{number}.jsonl") for run in (one, two)]
        first, second = ([(s.tokens, s.loss_mask, s.advantage) for s in run] for run in played)
        assert first == second


@pytest.mark.soak
@pytest.mark.parametrize("peft", [None, LORA], ids=["whole", "adapter"])
def test_two_servers_follow_two_processes(
    config: Any, model_dir: Path, tmp_path: Path, peft: Any
) -> None:
    """Turns by the weights that were just trained: the trainer's logprobs are the servers'."""
    pytest.importorskip("fastapi", reason="needs the embedded server: pip install 'retrain[serve]'")
    runs = []
    for processes in (1, 2):
        run = tmp_path / f"run{processes}"
        folder = weights_folder(run)
        with ExitStack() as stack:
            urls = [stack.enter_context(serving_apart(model_dir, folder)) for _ in range(2)]
            model = {"name_or_path": str(model_dir), "threads": 1, "peft": peft}
            made = config(
                sections={"rollout": {"engine": {"name": "sglang", "urls": urls}}, "model": model},
                num_iterations=3,
                global_batch_size=6,
                kl_coef=0.05,
            )
            runs.append(trained(processes, made.model_copy(update={"output_dir": run})))
    for run in runs:
        rows = [row.values for row in read_metrics(run / "metrics.jsonl")]
        assert all(float(row["train/logprob_abs_diff"] or 0.0) < 1e-4 for row in rows)
        assert float(rows[-1]["train/kl"] or 0.0) > 1e-7, "the weights have moved"
        assert not [*(run / "state" / "weights").iterdir()]
    first, second = ([s.tokens for s in read_samples(run / "samples/1.jsonl")] for run in runs)
    assert first == second
    one, two = (read_metrics(run / "metrics.jsonl")[0].values for run in runs)
    for name in ("train/loss", "train/grad_norm", "train/entropy", "reward/mean"):
        assert one[name] == pytest.approx(two[name], rel=1e-5, abs=1e-7)


@pytest.mark.soak
@pytest.mark.parametrize("peft", [None, LORA], ids=["whole", "adapter"])
@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2), (2, 2)])
def test_another_number_of_processes_goes_on_from_a_checkpoint(
    imitating: Any, before: int, after: int, peft: Any
) -> None:
    whole = trained(1, imitating("whole", 6, peft=peft))
    trained(before, imitating("moved", 3, peft=peft, save_interval=3))
    moved = trained(after, imitating("moved", 6, peft=peft, save_interval=3), "--resume")
    assert differing(whole, moved) == {}
    assert_same_weights(whole / "model", moved / "model")
    said = (moved / "events.log").read_text()
    changed = f"was saved by {before} processes, and {after} go on"
    assert (changed in said) == (before != after)


@pytest.mark.soak
def test_an_adapter_is_saved_alone_and_merged(imitating: Any, model_dir: Path) -> None:
    run = trained(2, imitating("run", peft=LORA))
    saved = load_file(run / "adapter" / "adapter_model.safetensors")
    checkpoint = newest_checkpoint(run / "checkpoints")
    assert checkpoint is not None
    beside = load_file(checkpoint.path / "adapter_model.safetensors")
    assert {n: t.shape for n, t in saved.items()} == {n: t.shape for n, t in beside.items()}
    assert all("lora_" in name for name in saved)
    base, merged = weights(model_dir), weights(run / "model")
    changed = {name for name, tensor in merged.items() if not torch.equal(tensor, base[name])}
    assert {name.split(".")[-2] for name in changed} == {"q_proj", "down_proj"}


def started(run: Path, iterations: int, *processes: subprocess.Popen[str]) -> None:
    """Wait until a run has recorded so many iterations."""
    deadline = time.monotonic() + SECONDS
    path = run / "metrics.jsonl"
    while not path.is_file() or len(read_metrics(path)) < iterations:
        assert all(process.poll() is None for process in processes)
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.02)


@pytest.mark.soak
@pytest.mark.parametrize("dead", [0, 1])
def test_survivor_of_a_killed_rank_says_so_and_ends(playing: Any, dead: int) -> None:
    made = playing("run", num_iterations=10_000)
    with ranks(made) as both:
        started(made.output_dir, 2, *both)
        both[dead].send_signal(signal.SIGKILL)
        _, errors = both[1 - dead].communicate(timeout=SECONDS)
    assert both[1 - dead].returncode == 1
    assert f"error: rank {1 - dead} of 2 {LOST}" in errors
    newest = newest_checkpoint(made.output_dir / "checkpoints")
    assert newest is not None
    steps = newest.step // 2 + 1
    shorter = playing("run", num_iterations=steps)
    resumed = trained(2, shorter, "--resume")
    assert [row.iteration for row in read_metrics(resumed / "metrics.jsonl")] == [
        *range(1, steps + 1)
    ]


@pytest.mark.soak
def test_a_rank_that_hangs_is_given_up_in_time(playing: Any) -> None:
    made = playing("run", num_iterations=10_000, torch_timeout=20)
    with ranks(made) as both:
        started(made.output_dir, 2, *both)
        both[1].send_signal(signal.SIGSTOP)
        _, errors = both[0].communicate(timeout=SECONDS)
    assert both[0].returncode == 1
    assert "rank 0 of 2 cannot go on: another rank has not answered in time" in errors


@pytest.mark.soak
def test_rollouts_that_fail_end_every_rank_with_the_reason(playing: Any) -> None:
    made = playing("run", fail_at=2)
    with ranks(made) as both:
        _, reason = both[0].communicate(timeout=SECONDS)
        _, after = both[1].communicate(timeout=SECONDS)
    assert [process.returncode for process in both] == [1, 1]
    assert "the server fell off the network" in reason
    assert f"error: rank 1 of 2 {LOST}" in after
    done = launched(2, playing("again", fail_at=2))
    assert done.returncode != 0
    assert "the server fell off the network" in done.stderr


@pytest.mark.soak
@pytest.mark.parametrize(
    ("full", "words"), [(0, "File too large"), (1, "rank 1 cannot write the opt")]
)
def test_a_full_disk_of_one_rank_ends_both_with_the_reason_said_once(
    playing: Any, full: int, words: str
) -> None:
    """As a limit on the size of a file; the first rank's files are weights, too."""
    limits = [None, None]
    limits[full] = 100_000
    made = playing("run", save_interval=1)
    with ranks(made, largest_file=limits) as both:
        ends = [process.communicate(timeout=SECONDS)[1] for process in both]
    assert [process.returncode for process in both] == [1, 1]
    assert ends[0].count("\nerror: ") == 1
    assert words in ends[0]
    assert f"error: rank 1 of 2 {LOST}" in ends[1]
    assert newest_checkpoint(made.output_dir / "checkpoints") is None


@pytest.mark.soak
def test_a_loss_of_nan_is_everybodys_and_its_samples_are_written_once(playing: Any) -> None:
    """Advantages that are infinite in float32; both ranks train some."""
    made = playing("run", name="rloo", environment="native_world:HugeRewards")
    done = launched(2, made)
    assert done.returncode != 0
    assert done.stderr.count("no step was taken") == 1, done.stderr[-3000:]
    (path,) = (made.output_dir / "failed").glob("*.jsonl")
    failed = [sample.index for sample in read_samples(path)]
    assert len({*failed}) > 3, "more than one rank's share of a step"
    assert f"({len(failed)} of them are in {path})" in done.stderr


@pytest.mark.soak
def test_ctrl_c_under_torchrun_leaves_a_checkpoint_to_go_on_from(playing: Any) -> None:
    made = playing("run", num_iterations=10_000, save_interval=9_999)
    launcher = subprocess.Popen(
        [*torchrun(2), *TRAIN, str(written(made))],
        env=environment(TORCH_ELASTIC_SHUTDOWN_TIMEOUT="240"),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    try:
        started(made.output_dir, 2, launcher)
        launcher.send_signal(signal.SIGINT)
        _, errors = launcher.communicate(timeout=SECONDS)
    finally:
        launcher.terminate()
        launcher.wait()
    assert "stopping after this iteration" in errors
    assert "interrupted after iteration" in errors
    newest = newest_checkpoint(made.output_dir / "checkpoints")
    assert newest is not None
    done = newest.step // 2
    assert (made.output_dir / "model" / "model.safetensors").is_file()
    longer = trained(2, playing("run", num_iterations=done + 1), "--resume")
    assert len(read_metrics(longer / "metrics.jsonl")) == done + 1


@pytest.mark.soak
def test_stages_follow_each_other_in_the_same_processes(
    playing: Any, imitating: Any, tmp_path: Path
) -> None:
    document = playing("run", num_iterations=1).model_dump(mode="json")
    sft = imitating("unused", 2).model_dump(mode="json")
    document["stages"] = [
        {"name": "sft", "prompt_source": sft["prompt_source"], "algorithm": sft["algorithm"]},
        {"name": "grpo"},
    ]
    run = trained(2, RunConfig.model_validate(document))
    first, second = (run / "stages" / name / "model" for name in ("sft", "grpo"))
    assert weights(first).keys() == weights(second).keys()
    assert len(read_metrics(run / "stages" / "grpo" / "metrics.jsonl")) == 1


@pytest.mark.soak
def test_ranks_with_other_configurations_are_refused(imitating: Any) -> None:
    made = imitating("run")
    with ranks(made, flags=((), ("--set", "algorithm.hyperparameters.learning_rate=0.5"))) as both:
        ends = [process.communicate(timeout=SECONDS)[1] for process in both]
    assert [process.returncode for process in both] == [2, 2]
    for said in ends:
        assert "error: learning_rate: is 0.5 on rank 1 and 0.003 on rank 0" in said
    assert not made.output_dir.exists()


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")


def test_plan_shows_what_each_process_does(imitating: Any, two: None) -> None:
    from retrain.cli.sizes import explained_sizes

    plan = TorchBackend().plan(imitating("run", torch_micro_batch_tokens=512))
    assert plan.errors == ()
    assert plan.sizes["processes"] == 2
    sizes = explained_sizes(plan)
    assert sizes["tokens_per_pass"] == "1024 = 2 processes x torch_micro_batch_tokens 512"
    given = plan.arguments
    assert (given["sharding"], given["reshard_after_forward"]) == ("fully_shard", True)
    with pytest.raises(ConfigError, match=r"torch_reshard_after_forward: .*got 'sometimes'"):
        TorchBackend().plan(imitating("run", torch_reshard_after_forward="sometimes"))


def test_an_engine_that_shares_the_weights_is_refused_with_what_to_do(
    config: Any, two: None
) -> None:
    (problem,) = TorchBackend().plan(config()).errors
    assert problem.key == "rollout.engine"
    assert "of 2 processes each holds 1/2 of them" in problem.message
    assert "retrain serve" in problem.message
    assert "state/weights" in problem.message


def test_a_quantised_model_is_refused(config: Any, two: None, model_dir: Path) -> None:
    model = {"name_or_path": str(model_dir), "peft": {"r": 4, "bits": 4}}
    problems = TorchBackend().plan(config(sections={"model": model})).errors
    assert any("are not cut up over processes" in str(problem) for problem in problems)


def test_a_launch_without_a_place_to_meet_is_refused(
    imitating: Any, two: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    backend = TorchBackend()
    with pytest.raises(ConfigError, match="MASTER_ADDR and MASTER_PORT not where they meet"):
        backend.train(backend.plan(imitating("run")))


def test_more_processes_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ConfigError, match=r"process 2 of this machine has no GPU.* at most 1 "):
        own_device(Launch(2, 1, local_rank=1))


async def test_weights_for_servers_hold_the_adapter(model_dir: Path, tmp_path: Path) -> None:
    """As peft merges it; the adapter is not zero."""
    from transformers import AutoTokenizer

    from backends.torch.factory import create_pytorch_backend

    section = ModelConfig(name_or_path=str(model_dir), peft=PeftConfig(**LORA))
    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    with create_pytorch_backend(
        section, checkpoint_dir=tmp_path, loss_fn="sft", tokenizer=tokenizer
    ) as backend:
        for name, weight in backend.model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(weight, std=0.1)
        whole = await backend.save_weights(tmp_path / "whole")
        alone = await backend.save_weights(tmp_path / "alone", merge=False)
    assert {path.name for path in alone.iterdir()} >= {"adapter_model.safetensors"}
    merge_adapter(section, alone, tmp_path / "merged")
    expected = weights(tmp_path / "merged")
    for name, tensor in weights(whole).items():
        torch.testing.assert_close(tensor, expected[name], rtol=0, atol=1e-6)
