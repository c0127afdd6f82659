"""`examples/bridges/trl_bridge.py`: what it prints about one group of episodes."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "bridges" / "trl_bridge.py"
TOKEN = re.compile(r" *(\d+)  +(prompt|0|1)  +(-?\d+\.\d+)?  +('.*'|\".*\")$", re.MULTILINE)
CALL = '<tool_call>\n{{"name": "calculator", "arguments": {{"expression": "{}"}}}}\n</tool_call>'


def run_script(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def scripted() -> str:
    return run_script()


def tokens(printed: str) -> list[tuple[int, str, float | None, str]]:
    """Id, mask, logprob and text of each token in the table."""
    return [
        (int(token), mask, float(logprob) if logprob else None, ast.literal_eval(text))
        for token, mask, logprob, text in TOKEN.findall(printed)
    ]


def column(printed: str, name: str) -> list[int]:
    found = re.search(rf"^ *{name}  lengths \[([\d, ]+)\]", printed, re.MULTILINE)
    assert found, printed
    return [int(length) for length in found[1].split(", ")]


def test_the_mask_marks_exactly_what_the_script_wrote(scripted: str) -> None:
    rows = tokens(scripted)
    turns = [CALL.format("75+99"), CALL.format("174*6"), "1044"]
    trained = "".join(text for _, mask, _, text in rows if mask == "1")
    assert trained == "".join(f"{turn}<|im_end|>" for turn in turns)
    whole = "".join(text for *_, text in rows)
    assert whole.startswith("<|im_start|>system\nTools: calculator<|im_end|>\n")
    assert "<tool_response>\n174\n</tool_response>" in whole
    assert "<tool_response>\n1044\n</tool_response>" in whole
    assert whole.endswith("1044<|im_end|>")


def test_logprobs_stand_on_trained_tokens_only(scripted: str) -> None:
    for _, mask, logprob, _ in tokens(scripted):
        if mask == "prompt":
            assert logprob is None
        elif mask == "0":
            assert logprob == 0.0
        else:
            assert logprob is not None and logprob < 0


def test_rewards_and_advantages_are_those_of_the_group(scripted: str) -> None:
    found = re.findall(r"^episode \d: reward (\S+) .* advantage (\S+)  ", scripted, re.MULTILINE)
    assert [float(reward) for reward, _ in found] == [1.0, 0.0, 0.0, 0.0]
    assert [float(advantage) for _, advantage in found] == [1.5, -0.5, -0.5, -0.5]
    assert scripted.rstrip().endswith("[1.5, -0.5, -0.5, -0.5]")


def test_the_columns_for_trl_are_as_long_as_the_episodes(scripted: str) -> None:
    masks = [mask for _, mask, _, _ in tokens(scripted)]
    assert column(scripted, "prompt_ids")[0] == masks.count("prompt")
    assert column(scripted, "completion_ids")[0] == len(masks) - masks.count("prompt")
    assert column(scripted, "env_mask") == column(scripted, "completion_ids")
    assert column(scripted, "logprobs") == column(scripted, "completion_ids")
    assert "retrain_reward  [1.0, 0.0, 0.0, 0.0]" in scripted


def test_it_says_where_the_turns_come_from(scripted: str) -> None:
    assert scripted.startswith("The model's turns and their logprobs are scripted")
    assert "the same tokens as step by step: yes" in scripted


def test_the_tiny_model_plays_the_same_steps() -> None:
    sampled = run_script("--engine", "transformers")
    assert sampled.startswith("The model's turns are sampled")
    rows = tokens(sampled)
    assert {mask for _, mask, _, _ in rows} >= {"prompt", "1"}
    assert all(logprob < 0 for _, mask, logprob, _ in rows if mask == "1" and logprob is not None)
    assert column(sampled, "env_mask") == column(sampled, "completion_ids")
