"""A training run whose MCP server tells its secret, in answers and as it dies: nobody reads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_workspace import Workspace

pytest.importorskip("trl", reason="needs TRL: pip install 'retrain[trl]'")
pytest.importorskip("fastmcp", reason="needs fastmcp: pip install 'retrain[mcp]'")

TESTS = Path(__file__).parents[1]
SECRET = "open%sesame/42"


def test_a_planted_secret_is_in_no_file_of_the_run_and_in_no_output(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAIN_SECRET", SECRET)
    server = str(TESTS / "environment" / "mcp_servers" / "plain_server.py")
    command = {"command": "python", "args": ["-S", server], "env_from": ["PLAIN_SECRET"]}
    workspace.config["environment"] = {
        "type": "telling_environment:Tells",
        "env_specific_config": {"servers": {"s": command}, "max_restarts": 99},
    }
    workspace.config["rollout"] = {"max_turns": 4, "max_failure_rate": 1.0}
    workspace.hyper.update(num_iterations=1, rollout_batch_size=4, max_response_len=120)
    workspace.hyper.update(max_tokens_per_turn=4)
    result = workspace.run("train")

    assert result.exit_code == 0, result.output
    files = [path for path in workspace.output.rglob("*") if path.is_file()]
    written = b"\n".join(path.read_bytes() for path in files).decode(errors="replace")
    for text in (written, result.output):
        for form in (SECRET, json.dumps(SECRET)[1:-1], " | ".join(SECRET), "sesame"):
            assert form not in text
    assert "[PLAIN_SECRET]" in written
    assert "its last words: I said: [PLAIN_SECRET]" in written
    assert "withheld: the text holds PLAIN_SECRET" in written
