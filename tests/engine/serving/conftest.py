from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from demo_runs import make_demo_model

pytest.importorskip("torch", reason="needs torch: pip install 'retrain[engine]'")
pytest.importorskip("fastapi", reason="needs fastapi: pip install 'retrain[serve]'")
pytest.importorskip("httpx", reason="needs httpx: pip install 'retrain[http]'")


@pytest.fixture(scope="session")
def served_weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of the calculator's model: `first`, and `second` with noise on every weight."""
    import torch
    from transformers import AutoModelForCausalLM

    home = tmp_path_factory.mktemp("served")
    make_demo_model(home / "first")
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_pretrained(home / "first")
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.05)
    model.save_pretrained(home / "second")
    return home


@pytest.fixture
def folder(served_weights: Path, tmp_path: Path) -> Callable[[str, str], Path]:
    """Copies one of the weight folders, to be changed."""

    def copy(source: str, name: str) -> Path:
        return Path(shutil.copytree(served_weights / source, tmp_path / name))

    return copy


@pytest.fixture
def server(served_weights: Path, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Starts servers of the first weights, and stops them after the test."""
    from server_here import ServerHere

    servers: list[ServerHere] = []

    def start(**options: Any) -> ServerHere:
        allowed = [served_weights, tmp_path]
        options = {"weights_dirs": allowed, **options}
        servers.append(ServerHere(served_weights / "first", **options))
        return servers[-1]

    yield start
    for started in servers:
        started.stop()


@pytest.fixture(scope="module")
def shared_server(served_weights: Path) -> Iterator[Any]:
    """One server for tests that leave it as it was."""
    from server_here import ServerHere

    started = ServerHere(served_weights / "first")
    yield started
    started.stop()
