from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from retrain.errors import ConfigError, DataError
from retrain.rollout.state_file import State, read_state, require_same_shape, write_state

KIND, REMEDY = "data state", "remove it to go on"

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
contents = st.dictionaries(st.text(), json_values, max_size=5)
each_time = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def read(path: Path) -> State:
    return read_state(path, KIND, REMEDY)


def written(tmp_path: Path, content: dict[str, Any] | None = None) -> Path:
    path = tmp_path / "state.json"
    write_state(path, KIND, State({"drawn": 7} if content is None else content, {"seed": 1}))
    return path


def rewrite(path: Path, **head: Any) -> None:
    """Change keys of the file, and leave the rest byte for byte."""
    text = path.read_text()
    for key, value in head.items():
        old = json.dumps({key: json.loads(text)[key]})[1:-1]
        text = text.replace(old, json.dumps({key: value})[1:-1], 1)
    path.write_text(text)


@each_time
@given(contents, contents)
@example({"content": '", "content": {}'}, {"content": 1})
def test_a_state_reads_back_as_it_was_written(
    tmp_path: Path, content: dict[str, Any], shape: dict[str, Any]
) -> None:
    path = tmp_path / "new" / "folder" / "state.json"
    write_state(path, KIND, State(content, shape))
    assert read(path) == State(content, shape)
    assert json.loads(path.read_text())["content"] == content, "it is one JSON object"


def test_writing_leaves_the_old_file_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path)

    def fail(*names: object) -> None:
        raise OSError("no space left on the device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        write_state(path, KIND, State({"drawn": 8}))
    assert read(path).content == {"drawn": 7}
    assert [file.name for file in tmp_path.iterdir()] == ["state.json"]


def test_what_is_no_json_is_not_written(tmp_path: Path) -> None:
    path = written(tmp_path)
    with pytest.raises(TypeError, match="not JSON serializable"):
        write_state(path, KIND, State({"drawn": {1, 2}}))
    assert read(path).content == {"drawn": 7}


@each_time
@given(st.data())
def test_a_file_cut_short_anywhere_is_refused(tmp_path: Path, data: st.DataObject) -> None:
    path = written(tmp_path, {"pending": [{"task": "a", "visit": 3}] * 4})
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 2))])
    with pytest.raises(DataError, match=rf"state\.json: .*; {REMEDY}"):
        read(path)


@each_time
@given(st.data())
def test_a_byte_that_changed_anywhere_in_the_content_is_noticed(
    tmp_path: Path, data: st.DataObject
) -> None:
    path = written(tmp_path, {"position": 12345, "order": [1, 2, 3], "name": "a b c"})
    whole = bytearray(path.read_bytes())
    at = data.draw(st.integers(whole.index(b"position"), len(whole) - 4))
    whole[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(bytes(whole))
    with pytest.raises(DataError, match=r"state\.json: is (cut short or )?damaged"):
        read(path)


def test_an_edited_file_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_text(path.read_text().replace('"drawn": 7', '"drawn": 8'))
    with pytest.raises(DataError, match=r"is damaged, or was edited: .*checksum differs"):
        read(path)


def test_a_file_without_its_shape_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_text(path.read_text().replace('"shape": {"seed": 1}, ', ""))
    with pytest.raises(DataError, match=r"is damaged, or was edited: .*a part is missing"):
        read(path)


@pytest.mark.parametrize("length", [None, -4, 10**9, "10"])
def test_a_head_that_is_wrong_is_refused(tmp_path: Path, length: object) -> None:
    path = written(tmp_path)
    rewrite(path, bytes=length)
    with pytest.raises(DataError, match="is damaged"):
        read(path)


def test_a_newer_version_says_to_update(tmp_path: Path) -> None:
    path = written(tmp_path)
    rewrite(path, version=9)
    with pytest.raises(DataError, match=r"by a newer retrain \(state version 9.*pip install -U"):
        read(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"step": 4, "data": {}}', "expected a data state, but it is no state file"),
        ("[1]", "expected a data state, but it is no state file"),
        ("", "is cut short or damaged"),
        ("\udcff", "is cut short or damaged"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError, match=message):
        read(path)


def test_a_state_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_state(path, "trl checkpoint", State({}))
    with pytest.raises(DataError, match="expected a data state, but it holds a trl checkpoint"):
        read(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent\.json: cannot be read \(No such file"):
        read(tmp_path / "absent.json")


def test_a_run_of_another_shape_is_told_by_every_key_that_differs() -> None:
    then = {"seed": 1, "rollout_batch_size": 8, "algorithm.name": "grpo", "gone": 1}
    now = {"seed": 1, "rollout_batch_size": 16, "algorithm.name": "rloo", "new": 2}
    with pytest.raises(ConfigError) as raised:
        require_same_shape("RUN", then, now)
    assert str(raised.value).splitlines() == [
        "RUN: was saved by a run of another shape; resume with the same settings, or start a new "
        "run",
        "  rollout_batch_size: 8 then, 16 now",
        "  algorithm.name: 'grpo' then, 'rloo' now",
    ]
    require_same_shape("RUN", then, {**then, "new": 2})
