from __future__ import annotations

import asyncio
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from backends.slime.cluster import RayCluster, RayNode
from backends.slime.following import LogFollower
from backends.slime.job_environment import job_environment, python_path, refuse_credentials
from backends.slime.job_watch import JobWatch
from backends.slime.running_failures import training_failure
from backends.slime.running_log import RunLog
from retrain.config import RunConfig
from retrain.errors import ConfigError

ROOT = Path(__file__).parents[2]


def config(**cluster: Any) -> RunConfig:
    return RunConfig.model_validate(
        {
            "experiment_name": "launch",
            "model": {"name_or_path": "model"},
            "environment": {"type": "calculator"},
            "prompt_source": {"type": "list", "source_config": {"items": ["1+1 then *2"]}},
            "algorithm": {
                "name": "grpo",
                "backend": "slime",
                "hyperparameters": {"num_iterations": 1},
            },
            "cluster": {"slime": "/opt/slime", **cluster},
        }
    )


def test_slime_stands_before_megatron_and_ours_before_the_users(tmp_path: Path) -> None:
    run = config(megatron="/opt/Megatron-LM", python_path=["/mine"]).located(tmp_path)
    assert python_path(run) == [
        "/opt/slime",
        "/opt/Megatron-LM",
        str(ROOT),
        "/mine",
        str(tmp_path),
        *([] if Path.cwd() == ROOT else [str(Path.cwd())]),
    ]


def test_the_users_variables_beat_ours(tmp_path: Path) -> None:
    environment = job_environment(
        config(env_vars={"NCCL_DEBUG": "INFO", "NO_PROXY": "*"}), tmp_path
    )
    assert environment["NCCL_DEBUG"] == "INFO"
    assert environment["NO_PROXY"] == "*"
    assert environment["CUDA_DEVICE_MAX_CONNECTIONS"] == "1"
    assert environment["RETRAIN_SLIME_CONFIG"] == str(tmp_path / "slime.yaml")


def test_a_credential_does_not_enter_the_jobs_description(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cluster\.env_vars\.WANDB_API_KEY.*ray start"):
        job_environment(config(env_vars={"WANDB_API_KEY": "0123456789"}), tmp_path)
    with pytest.raises(ConfigError, match=r"slime_wandb_key.*WANDB_API_KEY"):
        refuse_credentials({"lr": 1e-6, "wandb_key": "0123456789"})
    for name, value in (
        ("train_env_vars", {"WANDB_API_KEY": "0123456789"}),
        ("wandb_host", "https://user:secret@host"),
    ):
        with pytest.raises(ConfigError, match=f"slime_{name}: would stand on the job's command"):
            refuse_credentials({name: value})
    with pytest.raises(ConfigError, match=r"cluster\.env_vars\.PROXY"):
        job_environment(config(env_vars={"PROXY": "http://user:secret@proxy"}), tmp_path)
    refuse_credentials({"lr": 1e-6, "wandb_key": None, "max_tokens_per_gpu": 8192, "data": ["a"]})


def test_a_checkout_that_nobody_names_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cluster\.slime: train\.py stands in slime's checkout"):
        job_environment(config(slime=None), tmp_path)


def test_credentials_that_slime_prints_do_not_reach_the_log() -> None:
    file = BytesIO()
    log = RunLog(file, LogFollower(lambda *_: None), {"HF_TOKEN": "abcdefgh", "USER": "somebody"})
    log.line("wandb_key ... abcdefgh; somebody; http://me:word@proxy; hf_0123456789abcdef0123")
    text = file.getvalue().decode()
    assert text == "wandb_key ... <redacted>; somebody; http://me:<redacted>@proxy; <redacted>\n"


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory.", "slime_max_tokens_per_gpu"),
        ("ray.exceptions.NodeDiedError: Task failed", "--resume needs as many GPUs"),
        ("httpx.ConnectError: All connection attempts failed", "an engine answers no longer"),
        ("ValueError: empty batch", "slime failed: ValueError: empty batch\n(the whole log"),
    ],
)
def test_a_failure_says_what_to_do(error: str, advice: str) -> None:
    assert advice in str(training_failure(error, "exit code 1", Path("run/slime.log")))


def test_without_an_error_in_the_log_rays_own_words_count() -> None:
    failure = training_failure(None, "Runtime env setup failed", Path("run/slime.log"))
    assert str(failure).startswith("slime failed: Runtime env setup failed")


class Nodes(RayCluster):
    """A cluster whose second node leaves."""

    def nodes(self) -> tuple[RayNode, ...]:
        return NODES.pop(0) if len(NODES) > 1 else NODES[0]


NODES: list[tuple[RayNode, ...]] = []


async def test_silence_and_nodes_that_leave_are_told_and_stop_nothing() -> None:
    first, second = RayNode("a", "10.0.0.1", 8), RayNode("b", "10.0.0.2", 8)
    NODES[:] = [(first, second), (first, second), (first,)]
    notes: list[str] = []
    watch = JobWatch(Nodes("http://x", private=False), notes.append, 0.05, every=0.01)
    running = asyncio.create_task(watch.run())
    async with asyncio.timeout(10):
        while len(notes) < 3:
            await asyncio.sleep(0.01)
    running.cancel()
    told = [note for note in notes if "10.0.0.2 has left Ray" in note]
    assert len(told) == 1
    silent = [note for note in notes if "has said nothing" in note]
    assert len(silent) >= 2
    assert "it is left running" in silent[0]
