from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from retrain.cli.main import app

ROWS = [
    {"prompt": "2+2?", "response": "\\boxed{4}", "label": "4"},
    {"response": "\\boxed{8/2}", "label": 4},
    {"response": "\\boxed{5}", "label": "4", "metadata": {"id": 3}},
    {"response": None, "label": "4"},
    {"response": "\\boxed{4}", "label": None},
]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["reward", *map(str, arguments)])


def written(folder: Path, *rows: Any) -> Path:
    path = folder / "answers.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_file_is_scored_in_both_modes_and_what_they_disagree_on_is_listed(tmp_path: Path) -> None:
    pytest.importorskip("math_verify")
    result = run(written(tmp_path, *ROWS), "--reward", "math", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert [row["reward"] for row in document["rows"]] == [1.0, 1.0, 0.0, 0.0, None]
    assert "math needs a label" in document["rows"][4]["failure"]
    default, slime = document["modes"]["default"], document["modes"]["slime"]
    assert (default["mean"], default["scored"], default["failed"]) == (0.5, 4, 1)
    assert default["seconds"] > 0
    assert [apart["row"] for apart in document["disagreements"]] == [1, 3, 4]
    assert document["disagreements"][0]["slime"] == {"reward": 0.0}
    assert "TypeError" in next(iter(slime["failures"]))


def test_the_table_shows_rewards_disagreements_and_timing(tmp_path: Path) -> None:
    pytest.importorskip("math_verify")
    result = run(written(tmp_path, *ROWS), "--reward", "math", "--compat", "slime")
    assert result.exit_code == 0, result.output
    assert "mode slime" in result.stdout
    assert "the modes disagree on 3 of 5" in result.stdout
    assert "per second" in result.stdout
    assert "1 x math needs a label" in result.stdout


def test_a_rule_that_slime_does_not_have_is_scored_once(tmp_path: Path) -> None:
    path = written(tmp_path, {"response": "5 km"}, "", {"response": "5"})
    result = run(path, "--reward", "regex", "--param", r"pattern='\d+ km'", "--json")
    document = json.loads(result.stdout)
    assert [row["reward"] for row in document["rows"]] == [1.0, 0.0]
    assert list(document["modes"]) == ["default"]
    assert document["disagreements"] == []


def test_a_score_of_several_values_is_shown_whole_and_its_key_chosen(tmp_path: Path) -> None:
    path = written(tmp_path, {"response": "Answer: 4", "label": "4"})
    result = run(path, "--reward", "dapo", "--compat", "slime", "--reward-key", "acc", "--json")
    (row,) = json.loads(result.stdout)["rows"]
    assert row == {"reward": 1.0, "score": {"score": 1.0, "acc": True, "pred": "4"}}


def test_a_file_of_which_nothing_can_be_scored_ends_with_1(tmp_path: Path) -> None:
    result = run(written(tmp_path, {"response": "x"}), "--reward", "exact")
    assert result.exit_code == 1
    assert "mean none, 1 failed" in result.stdout


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: not JSON"),
        ("[1]", "line 2: expected an object"),
        ({"answer": "4"}, "line 2: no response; the keys are answer"),
        ({"response": 4}, "line 2: response is 4, expected text or null"),
        ({"response": "4", "metadata": []}, "line 2: metadata is [], expected an object"),
        ({"response": "4", "tokens": "9"}, "line 2: tokens is '9', expected a whole number"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: Any, message: str) -> None:
    path = written(tmp_path, {"response": "4", "label": "4"}, line)
    result = run(path, "--reward", "exact")
    assert result.exit_code == 2
    assert message in result.stderr
    assert "answers.jsonl" in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--reward", "exakt"), "did you mean 'exact'"),
        (("--reward", "exact", "--compat", "slime"), "slime has no 'exact'"),
        (("--reward", "exact", "--param", "ignore=true"), "exact takes no 'ignore'"),
        (("--reward", "exact", "--param", "ignore_case"), "write it as key=value"),
        (("--reward", "exact", "--param", "ignore_case=7"), "--param.ignore_case"),
    ],
)
def test_a_wrong_option_is_named(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    result = run(written(tmp_path, ROWS[0]), *options)
    assert result.exit_code == 2
    assert message in result.stderr


def test_an_empty_or_missing_file_is_named(tmp_path: Path) -> None:
    empty = written(tmp_path, "")
    assert "no responses" in run(empty, "--reward", "exact").stderr
    missing = run(tmp_path / "none.jsonl", "--reward", "exact")
    assert missing.exit_code == 2
    assert "No such file" in missing.stderr
