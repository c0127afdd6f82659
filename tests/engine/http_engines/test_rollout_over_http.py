"""`retrain rollout --engine sglang`: the command line over a real server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sglang_server import SGLangServer
from typer.testing import CliRunner

from retrain.cli.main import app


@pytest.fixture
def config(tmp_path: Path, weights: Any) -> Path:
    path = tmp_path / "config.yaml"
    content = {
        "experiment_name": "remote",
        "model": {"name_or_path": weights(0)},
        "environment": {"type": "calculator"},
        "prompt_source": {
            "type": "list",
            "source_config": {"items": [{"id": "a", "prompt": "1+1 then *2", "label": 4}]},
        },
        "algorithm": {
            "name": "grpo",
            "hyperparameters": {"num_iterations": 1, "max_response_len": 40},
        },
    }
    path.write_text(json.dumps(content))
    return path


def test_server_plays_what_the_process_would(
    config: Path, serve: Any, started: Any, weights: Any
) -> None:
    server = started(SGLangServer, serve())

    def episode(*options: str) -> Any:
        command = ["rollout", str(config), "-n", "1", "--json", *options]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    there = episode("--engine", "sglang", "--engine-url", server.url)
    here = episode()

    def tokens(document: Any) -> Any:
        return [s["response_ids"] for e in document["episodes"] for s in e["segments"]]

    assert tokens(there) == tokens(here)
    assert tokens(there)[0]


def test_server_that_is_not_there_is_named(config: Path) -> None:
    command = ["rollout", str(config), "-n", "1", "--engine", "sglang"]
    command += ["--engine-url", "http://127.0.0.1:9", "--set", "rollout.engine_retries=0"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1
    assert "no server can be used: GET http://127.0.0.1:9/health" in result.output
    assert "Traceback" not in result.output
