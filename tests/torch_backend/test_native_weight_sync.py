"""Two inference servers get the weights after every iteration; each token says whose it is."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from backends.torch.backend import TorchBackend
from backends.torch.factory import create_pytorch_backend
from backends.torch.weight_sync import Engines, sync_weights_to_engines
from retrain.engine.base import SamplingParams
from retrain.engine.transformers_engine import TransformersEngine
from retrain.errors import EngineFailure
from retrain.report.metrics import read_metrics
from retrain.report.samples import read_samples

ITERATIONS = 3
_SECONDS = 120

pytestmark = pytest.mark.slow


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
    own = [row.values.get("train/logprob_abs_diff_current") for row in rows]
    assert all(gap < 1e-4 for gap in own if gap is not None), "of what the present weights wrote"
    ages = [row.values["rollout/staleness"] for row in rows if "rollout/staleness" in row.values]
    assert ages == ([0.0] + [1.0] * (ITERATIONS - 1) if ahead else [])
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
    pytest.importorskip("fastapi", reason="needs the embedded server: pip install 'retrain[serve]'")
    from server_here import serving

    with serving(model_dir, weights_dirs=[weights_folder(tmp_path / "run")], seed=0) as url:
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


class Waiting:
    """Loads weights when the other one does."""

    def __init__(self, both: asyncio.Barrier) -> None:
        self.both = both

    async def update_weights_from_checkpoint(self, path: str, version: str) -> None:
        async with asyncio.timeout(60):
            await self.both.wait()


async def test_engines_load_at_the_same_time(tmp_path: Path) -> None:
    both = asyncio.Barrier(2)
    outcomes = await sync_weights_to_engines([Waiting(both), Waiting(both)], tmp_path, "3-ab")
    assert outcomes == [None, None]


async def test_one_server_that_is_gone_stops_nobody(tmp_path: Path) -> None:
    there, gone = Server(False), Server(True)
    outcomes = await sync_weights_to_engines([gone, there], tmp_path, "3-ab")
    assert [type(outcome) for outcome in outcomes] == [EngineFailure, type(None)]
    assert there.loaded == [(str(tmp_path), "3-ab")]
    with pytest.raises(EngineFailure, match="no engine took the weights 4-ab: nobody answers"):
        await sync_weights_to_engines([gone], tmp_path, "4-ab")


@pytest.fixture
def backend(model_dir: Path, tmp_path: Path) -> Iterator[Any]:
    """The demo's model, about to be trained."""
    with create_pytorch_backend(str(model_dir), checkpoint_dir=tmp_path / "checkpoints") as made:
        yield made


async def write(engine: Any, session: str) -> Any:
    return await engine.generate([1, 50, 60], SamplingParams(8), session_id=session, seed=1)


async def test_a_server_that_cannot_load_is_told_of_and_gets_the_weights_later(
    backend: Any, model_dir: Path, tmp_path: Path
) -> None:
    pytest.importorskip("fastapi", reason="needs the embedded server: pip install 'retrain[serve]'")
    from server_here import ServerHere

    from retrain.engine.server_weights import WeightFolders
    from retrain.engine.sglang_engine import SGLangEngine

    folder, notes = tmp_path / "weights", list[str]()
    servers = [ServerHere(model_dir, weights_dirs=[folder], seed=0) for _ in range(2)]
    servers[1].service._folders = WeightFolders([tmp_path / "elsewhere"])
    engine = SGLangEngine([server.url for server in servers])
    engines = Engines([engine], folder, note=notes.append)
    try:
        first = await engines.sync(backend)
        assert [note.partition(":")[0] for note in notes] == [
            f"left out while it has not the weights {first}"
        ]
        assert f"{servers[1].url}/update_weights_from_disk: HTTP 400" in notes[0]
        assert {(await write(engine, f"s{n}")).meta["server"] for n in range(3)} == {servers[0].url}
        servers[1].service._folders = WeightFolders([folder])
        engine.close()  # checks all again before the next request
        backend.step += 1
        second = await engines.sync(backend)
        assert len(notes) == 1
        turns = [await write(engine, f"t{n}") for n in range(2)]
        assert {turn.meta["server"] for turn in turns} == {servers[1].url}, "it has fewer sessions"
        assert {turn.weight_version for turn in turns} == {second}
        assert [path.name for path in folder.iterdir()] == [second], "the newest ones alone"
        again = await Engines([engine], folder).sync(backend)
        assert again != second, "another life names the same step otherwise"
        await engines.close()
        assert second not in [path.name for path in folder.iterdir()]
    finally:
        await engine.aclose()
        for server in servers:
            server.stop()


async def test_an_engine_in_this_process_keeps_nothing_while_the_model_trains(
    backend: Any,
) -> None:
    engine = TransformersEngine(backend.model, max_slots=2, max_seq_len=64)
    engines = Engines([engine])
    try:
        assert await engines.sync(backend) == "0" == engine.weight_version
        first = await write(engine, "kept")
        follow = [1, 50, 60, *first.output_ids]
        kept = await engine.generate(follow, SamplingParams(2), session_id="kept", seed=2)
        assert kept.meta["cached_tokens"] > 0
        await engines.release()
        cold = await engine.generate(follow, SamplingParams(2), session_id="kept", seed=2)
        assert cold.meta["cached_tokens"] == 0
        assert cold.output_ids == kept.output_ids
    finally:
        engine.close()


def test_engines_that_load_need_a_folder() -> None:
    with pytest.raises(ValueError, match="need a folder"):
        Engines([Server(False)])
