"""An environment of two segments on the command line: plan, rollout, tape, parity, train."""

from __future__ import annotations

import json
import re

import pytest
from cli_workspace import Workspace

pytestmark = pytest.mark.slow

REASON = "environment.type: 'rewriting_environments:TwoSegments' rewrites its history"


@pytest.fixture
def rewriting(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.delenv("RETRAIN_SLIME", raising=False)
    workspace.config["environment"] = {"type": "rewriting_environments:TwoSegments"}
    workspace.hyper["max_tokens_per_turn"] = 8
    return workspace


def test_trl_refuses_before_the_run_and_names_the_way_out(rewriting: Workspace) -> None:
    result = rewriting.run("train")
    assert result.exit_code == 2
    assert REASON in result.stderr and "use algorithm.backend: torch or slime" in result.stderr
    assert not (rewriting.folder / "run").exists()


def test_trl_refuses_a_rewriting_template_and_names_the_ways_out(workspace: Workspace) -> None:
    result = workspace.run("train", "--set", "rendering.history=template")
    assert result.exit_code == 2
    assert "use keep, or algorithm.backend: torch or slime" in result.stderr


def test_slime_s_plan_takes_it(rewriting: Workspace) -> None:
    result = rewriting.run("plan", "--backend", "slime", "--json")
    (stage,) = json.loads(result.stdout)["stages"]
    keys = [problem["key"] for problem in stage["problems"]]
    assert not {"environment.type", "rendering.history"} & {*keys}


def test_an_undeclared_rewrite_fails_the_episodes_with_the_remedy(rewriting: Workspace) -> None:
    rewriting.config["environment"]["type"] = "rewriting_environments:Undeclared"
    result = rewriting.run("rollout", "-n", "1", "--samples", "2")
    assert "set rewrites_history = True on it" in result.output
    assert result.exit_code == 1


def test_a_rollout_shows_segments_and_its_tape_replays_them(rewriting: Workspace) -> None:
    played = rewriting.run("rollout", "-n", "2", "--samples", "2", "--tape", "a.tape")
    assert played.exit_code == 0, played.output
    assert played.stdout.count("segment 2 of 2  status completed") == 4
    replayed = rewriting.run("rollout", "--replay", "a.tape")
    assert replayed.exit_code == 0, replayed.output


@pytest.mark.parametrize(("backend", "code"), [("slime", 0), ("trl", 1)])
def test_parity_shows_the_refusal_and_fails_where_it_matters(
    rewriting: Workspace, backend: str, code: int
) -> None:
    rewriting.config["algorithm"]["backend"] = backend
    result = rewriting.run("parity", "-n", "2")
    assert result.exit_code == code, result.output
    assert re.search(r"^trl +refused *$", result.stdout, re.M)
    assert f"trl: refused: {REASON}" in result.stdout
    rows = re.findall(r"^(?:tape|slime) +8 .* ([0-9a-f]{12})$", result.stdout, re.M)
    assert len(rows) == 2 and len({*rows}) == 1, "four episodes are eight samples on both"
    last = result.stdout.splitlines()[-1]
    assert last.endswith("identical on the tape, slime and torch; trl refused")


def test_a_named_backend_that_refuses_fails_the_comparison(rewriting: Workspace) -> None:
    rewriting.config["algorithm"]["backend"] = "slime"
    both = ("--backend", "slime", "--backend", "trl")
    result = rewriting.run("parity", "-n", "1", *both, "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert not document["equal"]
    assert REASON in document["backends"][1]["refused"]
    assert {sample["part"] for sample in document["samples"]} == {0, 1}
