"""Two inference servers get the weights after every iteration; each token says whose it is."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from backends.torch.backend import TorchBackend
from backends.torch.weight_sync import Engines, sync_weights_to_engines
from retrain.config import ModelConfig
from retrain.errors import EngineFailure
from retrain.report.metrics import read_metrics
from retrain.report.samples import read_samples

ITERATIONS = 3
_SECONDS = 120

pytestmark = pytest.mark.slow


@contextmanager
def serving_here(model: Path, weights: Path) -> Iterator[str]:
    """`retrain serve`'s own loop with a copy of the model; gives the base URL."""
    pytest.importorskip("fastapi", reason="needs the embedded server: pip install 'retrain[serve]'")
    from retrain.engine.server_run import ServeLoop, bind, url_of
    from retrain.engine.server_security import Access
    from retrain.engine.server_service import ModelService
    from retrain.engine.server_weights import WeightFolders
    from retrain.engine.transformers_serving import load_served

    config = ModelConfig(name_or_path=str(model), threads=1)
    loaded = load_served(config, context_length=None, most=32, version="default")
    socket = bind("127.0.0.1", 0)
    ready = threading.Event()
    service = ModelService(loaded, WeightFolders([weights]), seed=0)
    loop = ServeLoop(service, Access("127.0.0.1", None), when_ready=ready.set)
    thread = threading.Thread(target=loop.run, args=([socket],), daemon=True)
    thread.start()
    assert ready.wait(_SECONDS)
    try:
        yield url_of("127.0.0.1", socket)
    finally:
        loop.should_exit = True
        thread.join(_SECONDS)
        socket.close()
        loaded.engine.close()


@contextmanager
def serving_apart(model: Path, weights: Path) -> Iterator[str]:
    """`retrain serve` in a process of its own; gives the base URL."""
    command = [sys.executable, "-m", "retrain", "serve", model, "--port", "0", "--json"]
    command += ["--threads", "1", "--weights-dir", weights, "--exit-with-parent"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.terminate()
        process.wait(_SECONDS)


def follows(made: Any, *, ahead: bool) -> None:
    """Train, and look at whose weights wrote each token."""
    backend = TorchBackend()
    result = backend.train(backend.plan(made))
    lives: set[str] = set()
    for number in range(1, ITERATIONS + 1):
        samples = list(read_samples(result.run_dir / f"samples/{number}.jsonl"))
        wrote = {v for s in samples if any(s.loss_mask) for v in s.weight_versions}
        steps = {version.partition("-")[0] for version in wrote}
        lives |= {version.partition("-")[2] for version in wrote}
        assert steps
        assert steps <= {str(number - 1)} | ({str(max(0, number - 2))} if ahead else set())
    assert len(lives) == 1, "the names of versions are this run's own"
    rows = read_metrics(result.run_dir / "metrics.jsonl")
    gaps = [row.values["train/logprob_abs_diff"] for row in rows]
    assert ahead or max(gap for gap in gaps if gap is not None) < 1e-4
    left = [*(result.run_dir / "state" / "weights").iterdir()]
    assert not left, "nothing is left of what the servers loaded"


def with_servers(config: Any, urls: list[str], *, ahead: bool) -> Any:
    rollout = {"engine": {"name": "sglang", "urls": urls}, "asynchronous": ahead}
    return config(num_iterations=ITERATIONS, sections={"rollout": rollout})


def weights_folder(run: Path) -> Path:
    weights = run / "state" / "weights"
    weights.mkdir(parents=True)
    return weights


@pytest.mark.soak
def test_a_server_is_one_step_behind_where_it_writes_ahead(
    config: Any, model_dir: Path, tmp_path: Path
) -> None:
    with serving_here(model_dir, weights_folder(tmp_path / "run")) as url:
        follows(with_servers(config, [url], ahead=True), ahead=True)


@pytest.mark.soak
@pytest.mark.parametrize("ahead", [False, True], ids=["synchronous", "one step off policy"])
def test_two_servers_follow_the_trainer(
    config: Any, model_dir: Path, tmp_path: Path, ahead: bool
) -> None:
    weights = weights_folder(tmp_path / "run")
    with ExitStack() as stack:
        urls = [stack.enter_context(serving_apart(model_dir, weights)) for _ in range(2)]
        follows(with_servers(config, urls, ahead=ahead), ahead=ahead)


class Server:
    """Loads weights, or is gone."""

    def __init__(self, gone: bool) -> None:
        self.gone = gone
        self.loaded: list[tuple[str, str]] = []

    async def update_weights_from_checkpoint(self, path: str, version: str) -> None:
        if self.gone:
            raise EngineFailure("nobody answers")
        self.loaded.append((path, version))


async def test_one_server_that_is_gone_stops_nobody(tmp_path: Path) -> None:
    there, gone = Server(False), Server(True)
    outcomes = await sync_weights_to_engines([gone, there], tmp_path, "3-ab")
    assert [type(outcome) for outcome in outcomes] == [EngineFailure, type(None)]
    assert there.loaded == [(str(tmp_path), "3-ab")]
    with pytest.raises(EngineFailure, match="no engine took the weights 4-ab: nobody answers"):
        await sync_weights_to_engines([gone], tmp_path, "4-ab")


def test_engines_that_load_need_a_folder() -> None:
    with pytest.raises(ValueError, match="need a folder"):
        Engines([Server(False)])
