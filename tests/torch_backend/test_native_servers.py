"""Servers on the trainer's device, and vLLM: they write with the weights that are trained."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the embedded server: pip install 'retrain[serve]'")
pytest.importorskip("aiohttp", reason="needs aiohttp: pip install 'retrain[http]'")

from server_here import ServerHere

from backends.torch.backend import TorchBackend
from backends.torch.pytorch import PyTorchTrainingBackend
from retrain.engine.base import Generation, SamplingParams
from retrain.engine.sglang_engine import SGLangEngine
from retrain.engine.vllm_engine import VLLMEngine
from retrain.engine.vllm_weights import VLLMCalls
from retrain.errors import EngineFailure
from retrain.report.metrics import read_metrics
from retrain.report.samples import read_samples

pytestmark = pytest.mark.slow

_START_SECONDS = 600


def needs_vllm(test: Any) -> Any:
    """Mark a test that starts the real `vllm serve`."""
    absent = pytest.mark.skipif(
        find_spec("vllm") is None, reason="needs vLLM: pip install 'trl[vllm]'"
    )
    return pytest.mark.soak(pytest.mark.timeout(1800)(absent(test)))


def train(made: Any) -> list[float]:
    """Train, and see that each iteration's weights wrote it; gives the gaps of logprobs."""
    backend = TorchBackend()
    result = backend.train(backend.plan(made))
    run = result.run_dir
    for number in range(1, result.iterations + 1):
        samples = read_samples(run / f"samples/{number}.jsonl")
        wrote = {v for s in samples if any(s.loss_mask) for v in s.weight_versions}
        assert {version.partition("-")[0] for version in wrote} == {str(number - 1)}
    assert not [*(run / "state" / "weights").iterdir()], "nothing is left of what servers loaded"
    rows = read_metrics(run / "metrics.jsonl")
    return [float(row.values["train/logprob_abs_diff"] or 0.0) for row in rows]


def with_engine(config: Any, name: str, url: str, **hyper: Any) -> Any:
    sections = hyper.pop("sections", {})
    sections["rollout"] = {"engine": {"name": name, "urls": [url]}}
    options = {"num_iterations": 2, "learning_rate": 3e-3, **hyper}
    return config(sections=sections, **options)


def test_a_server_on_the_trainers_device_gives_its_memory_back_and_gets_merged_weights(
    config: Any, model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("peft", reason="needs peft: pip install 'retrain[trl]'")
    weights = tmp_path / "run" / "state" / "weights"
    weights.mkdir(parents=True)
    server = ServerHere(model_dir, weights_dirs=[weights], seed=0)
    held: list[tuple[int, bool]] = []
    compute = PyTorchTrainingBackend._forward_backward

    def looking(backend: Any, batch: Any) -> Any:
        held.append((_weight_bytes(server), server.service.turns.usable))
        return compute(backend, batch)

    monkeypatch.setattr(PyTorchTrainingBackend, "_forward_backward", looking)
    try:
        before = _weight_bytes(server)
        adapter = {"name_or_path": str(model_dir), "peft": {"r": 4}}
        made = with_engine(
            config, "sglang", server.url, torch_colocate=True, sections={"model": adapter}
        )
        gaps = train(made)
        assert held
        assert set(held) == {(0, False)}, "while it trains, the server has nothing"
        assert _weight_bytes(server) == before
        assert server.service.turns.usable, "awake after the run"
        assert max(gaps) < 1e-4
        for path in ("pause_generation", "release_memory_occupation"):
            assert server.post(f"/{path}").status_code == 200
        asyncio.run(_loads(server.url, weights / "left", model_dir))
        assert server.service.turns.usable, "whatever a killed run has left"
    finally:
        server.stop()


def test_a_vllm_server_on_the_trainers_device_sleeps_while_it_trains(
    config: Any, model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "engine" / "http_engines"))
    from served_model import Served, load_model
    from transformers import AutoTokenizer
    from vllm_loading_server import LoadingVLLMServer

    from retrain.engine.transformers_engine import TransformersEngine

    model, tokenizer = load_model(str(model_dir)), AutoTokenizer.from_pretrained(model_dir)
    engine = TransformersEngine(model, max_slots=8, max_seq_len=512, eviction_grace=0.0)
    server = LoadingVLLMServer(Served(str(model_dir), model, tokenizer, engine))
    asleep: list[bool] = []
    compute = PyTorchTrainingBackend._forward_backward

    def looking(backend: Any, batch: Any) -> Any:
        asleep.append(bool(server.sleeping))
        return compute(backend, batch)

    monkeypatch.setattr(PyTorchTrainingBackend, "_forward_backward", looking)
    try:
        gaps = train(with_engine(config, "vllm", server.url, torch_colocate=True))
        assert asleep and all(asleep)
        assert not server.sleeping and not server.paused
        assert server.weight_version.startswith("2-")
        assert max(gaps) < 1e-4
    finally:
        server.kill()
        engine.close()


async def _loads(url: str, folder: Path, model: Path) -> None:
    shutil.copytree(model, folder)
    engine = SGLangEngine(url)
    await engine.update_weights_from_checkpoint(str(folder), "of another run")
    await engine.generate([1, 50, 60], SamplingParams(8), session_id="s", seed=1)
    await engine.aclose()


def _weight_bytes(server: ServerHere) -> int:
    model = server.service.loaded.model
    return sum(weight.untyped_storage().nbytes() for weight in model.parameters())


@contextmanager
def vllm_serving(model: Path, log: Path) -> Iterator[str]:
    """The real `vllm serve` in a process of its own; gives the base URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", str(model)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--max-model-len", "512"]
    command += ["--dtype", "float32", "--enforce-eager", "--max-num-seqs", "16"]
    command += ["--logprobs-mode", "processed_logprobs"]
    environment = {
        **os.environ,
        "VLLM_SERVER_DEV_MODE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    }
    with log.open("w") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        url = f"http://127.0.0.1:{port}"
        asyncio.run(_until_up(url))
        yield url
    finally:
        process.terminate()
        process.wait(_START_SECONDS)


async def _until_up(url: str) -> None:
    engine = VLLMEngine(url)
    async with asyncio.timeout(_START_SECONDS):
        while True:
            try:
                await engine.start()
                return await engine.aclose()
            except EngineFailure:
                await asyncio.sleep(1)


@pytest.fixture
def untied_model(model_dir: Path, tmp_path: Path) -> Path:
    """The demo's model with a head of its own."""
    import torch
    from transformers import AutoModelForCausalLM

    folder = Path(shutil.copytree(model_dir, tmp_path / "untied"))
    model = AutoModelForCausalLM.from_pretrained(model_dir)
    model.config.tie_word_embeddings = False
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    model.save_pretrained(folder)
    return folder


@needs_vllm
def test_a_vllm_server_follows_the_trainer(
    config: Any, untied_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def as_if(calls: VLLMCalls, url: str) -> None:
        """A CPU has no sleep mode; the endpoints pause the server, and keep its memory."""

    model = {"model": {"name_or_path": str(untied_model)}}
    with vllm_serving(untied_model, tmp_path / "vllm.log") as url:
        made = with_engine(config, "vllm", url, num_iterations=3, sections=model)
        assert max(train(made)) < 1e-4
        monkeypatch.setattr(VLLMCalls, "_require_sleep_mode", as_if)
        asyncio.run(_sleeps(url, untied_model))


@needs_vllm
def test_a_vllm_server_that_loads_a_part_of_the_weights_stops_the_run(
    config: Any, model_dir: Path, tmp_path: Path
) -> None:
    """vLLM 0.31 on a CPU packs the head; where it is the embedding, it keeps the old one."""
    with vllm_serving(model_dir, tmp_path / "vllm.log") as url:
        made = with_engine(config, "vllm", url, num_iterations=20, learning_rate=1e-2)
        with pytest.raises(EngineFailure, match="has other weights than those it was to load"):
            train(made)


async def _sleeps(url: str, model: Path) -> None:
    engine = VLLMEngine(url)
    ask = engine._client.ask

    async def write() -> Generation:
        return await engine.generate([1, 50, 60], SamplingParams(8), session_id="s", seed=1)

    await engine.update_weights_from_checkpoint(str(model), "again")
    assert await ask("GET", f"{url}/weight_info") == {"weight_version": "again"}
    first = await write()
    await engine.release_memory()
    assert await ask("GET", f"{url}/is_sleeping") == {"is_sleeping": True}
    await engine.resume_memory()
    assert await ask("GET", f"{url}/is_sleeping") == {"is_sleeping": False}
    again = await write()
    assert again.output_ids == first.output_ids
    assert again.weight_version == "again"
    await engine.release_memory()
    await engine.aclose()
    other = VLLMEngine(url)
    await other.update_weights_from_checkpoint(str(model), "of another run")
    assert await ask("GET", f"{url}/is_sleeping") == {"is_sleeping": False}
    await other.aclose()
