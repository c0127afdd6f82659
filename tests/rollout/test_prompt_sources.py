from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from retrain.errors import ConfigError, DataError
from retrain.rollout.messages import read_messages
from retrain.rollout.sources import make_tasks
from retrain.types import Message, Task, ToolCall


def read(tmp_path: Path, text: str, **options: Any) -> tuple[Task, ...]:
    (tmp_path / "tasks.jsonl").write_text(text, encoding="utf-8")
    return make_tasks("jsonl", {"path": "tasks.jsonl", **options}, tmp_path)


def test_rows_become_tasks(tmp_path: Path) -> None:
    text = '{"id": "a", "prompt": "1+1", "label": "2", "level": 3}\n\n{"prompt": "2+2"}\n'
    first, second = read(tmp_path, text)
    assert first == Task("a", "1+1", "2", {"level": 3})
    assert (second.id, second.prompt, second.label) == ("tasks-3", "2+2", None)


def test_keys_can_be_named(tmp_path: Path) -> None:
    (task,) = read(
        tmp_path,
        '{"key": 7, "question": "1+1", "answer": 2}',
        id_key="key",
        prompt_key="question",
        label_key="answer",
    )
    given = (task.id, task.prompt, task.label, task.metadata)
    assert given == ("7", "1+1", 2, {"key": 7, "answer": 2})


def test_list_takes_prompts_and_rows(tmp_path: Path) -> None:
    tasks = make_tasks("list", {"items": ["hi", {"id": "b", "prompt": "ho"}]}, tmp_path)
    assert [(task.id, task.prompt) for task in tasks] == [("0", "hi"), ("b", "ho")]


def test_prompt_may_be_messages(tmp_path: Path) -> None:
    row = (
        '{"prompt": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "x"}]}'
    )
    (task,) = read(tmp_path, row)
    assert task.messages == (Message("system", "be brief"), Message("user", "x"))


def test_recorded_conversation_is_a_prompt_and_the_rest(tmp_path: Path) -> None:
    row = (
        '{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"},'
        ' {"role": "user", "content": "z"}]}'
    )
    (task,) = read(tmp_path, row)
    assert task.messages == (Message("user", "x"),)
    assert len(task.metadata["messages"]) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"prompt": "a"}\n{"prompt": ', r"tasks.jsonl:2: is not JSON"),
        ('{"question": "a"}', r"tasks.jsonl:1: has no 'prompt' \(keys: question\)"),
        ("[1, 2]", r"tasks.jsonl:1: expected an object with 'prompt'"),
        ('{"id": 1, "prompt": "a"}\n{"id": 1, "prompt": "b"}', "task id '1' stands twice"),
        ("\n\n", "holds no row"),
        ('{"prompt": 5}', r"tasks.jsonl:1: 'prompt': expected text or a list of messages"),
        ('{"prompt": [{"role": "robot"}]}', r"'prompt'\[0\]: the role 'robot' is none of"),
        ('{"messages": [{"role": "assistant", "content": "y"}]}', "must begin with a prompt"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, text)


def test_row_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_bytes(b'{"prompt": "a"}\n{"prompt": "\xff"}\n')
    with pytest.raises(DataError, match=r"tasks\.jsonl:2: is not UTF-8"):
        make_tasks("jsonl", {"path": "tasks.jsonl"}, tmp_path)


def test_row_with_a_null_id_is_named_by_its_line(tmp_path: Path) -> None:
    text = '{"id": null, "prompt": "a"}\n{"id": null, "prompt": "b"}\n'
    assert [task.id for task in read(tmp_path, text)] == ["tasks-1", "tasks-2"]


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent\.jsonl: no such file"):
        make_tasks("jsonl", {"path": "absent.jsonl"}, tmp_path)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("datset", {}, "'datset' is no kind of prompt source; did you mean 'dataset'"),
        ("jsonl", {}, r"source_config\.path: is missing"),
        ("list", {"items": ["a"], "limit": 3}, r"source_config\.limit: is not known"),
        ("list", {"items": "abc"}, "must be a list"),
    ],
)
def test_bad_sections_are_named(
    tmp_path: Path, kind: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        make_tasks(kind, options, tmp_path)


def test_tool_calls_are_read_in_both_spellings() -> None:
    call = {"name": "add", "arguments": {"a": 1}}
    as_text = {"id": "c1", "function": {"name": "add", "arguments": '{"a": 1}'}}
    (message,) = read_messages("m", [{"role": "assistant", "tool_calls": [call, as_text]}])
    assert message.tool_calls == (ToolCall("add", {"a": 1}), ToolCall("add", {"a": 1}, "c1"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"name": "add"}, "the call of add has no 'arguments'"),
        ({"function": {"name": "a", "arguments": "["}}, "the arguments of a are no JSON"),
        (3, "a tool call is"),
    ],
)
def test_malformed_tool_call_is_named(call: Any, message: str) -> None:
    with pytest.raises(DataError, match=rf"m\[0\]: {message}"):
        read_messages("m", [{"role": "assistant", "tool_calls": [call]}])
