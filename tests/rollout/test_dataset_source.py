from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from retrain.errors import ConfigError, DataError, MissingDependency
from retrain.rollout.sources import make_tasks
from retrain.types import Message, Task

datasets = pytest.importorskip("datasets")

ROWS = [
    {"id": f"q{n}", "question": f"{n}+1", "answer": str(n + 1), "level": n % 2} for n in range(6)
]
KEYS = {"prompt_key": "question", "label_key": "answer"}

Write = Callable[[Path], None]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def read(folder: Path, path: str, **options: Any) -> tuple[Task, ...]:
    return make_tasks("dataset", {"path": path, **KEYS, **options}, folder)


def rows_of(rows: list[dict[str, Any]]) -> Any:
    return datasets.Dataset.from_list(rows)


def jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


FILES: dict[str, Write] = {
    "rows.parquet": lambda path: rows_of(ROWS).to_parquet(path),
    "rows.jsonl": lambda path: jsonl(path, ROWS),
    "rows.json": lambda path: path.write_text(json.dumps(ROWS)),
    "rows.csv": lambda path: rows_of(ROWS).to_csv(path),
    "rows.tsv": lambda path: rows_of(ROWS).to_csv(path, sep="\t"),
    "rows.jsonl.gz": lambda path: rows_of(ROWS).to_json(path, compression="gzip"),
    "saved": lambda path: rows_of(ROWS).save_to_disk(path),
}


@pytest.mark.parametrize("name", FILES)
def test_files_of_every_format_become_the_same_tasks(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    FILES[name](tmp_path / name)
    capsys.readouterr()
    tasks = read(tmp_path, name)
    assert [(task.id, task.prompt) for task in tasks] == [(f"q{n}", f"{n}+1") for n in range(6)]
    assert [str(task.label) for task in tasks] == [str(n + 1) for n in range(6)]
    assert dict(tasks[3].metadata) == {"answer": tasks[3].label, "level": 1}
    assert "examples" not in capsys.readouterr().err, "no progress bar for files that lie here"


def test_a_folder_has_its_files_as_splits(tmp_path: Path) -> None:
    for split, rows in (("train", ROWS[:4]), ("test", ROWS[4:])):
        (tmp_path / "data").mkdir(exist_ok=True)
        rows_of(rows).to_parquet(tmp_path / "data" / f"{split}.parquet")
    assert [task.id for task in read(tmp_path, "data")] == ["q0", "q1", "q2", "q3"]
    assert [task.id for task in read(tmp_path, "data", split="test")] == ["q4", "q5"]
    assert [task.id for task in read(tmp_path, "data", split="train[1:3]")] == ["q1", "q2"]
    assert len(read(tmp_path, "data", split="train+test")) == 6
    with pytest.raises(ConfigError, match=r"split: data has no 'tset'; did you mean 'test'\?") as e:
        read(tmp_path, "data", split="tset")
    assert "(it has train, test)" in str(e.value)
    with pytest.raises(DataError, match=r"split: 'data' cannot be read: .*Unrecognized instruct"):
        read(tmp_path, "data", split="train[1:")


def test_a_folder_may_have_configurations(tmp_path: Path) -> None:
    for name, rows in (("easy", ROWS[:4]), ("hard", ROWS[4:])):
        jsonl(tmp_path / "data" / name / "train.jsonl", rows)
    configs = "".join(
        f"- config_name: {name}\n  data_files: {name}/*.jsonl\n" for name in ("easy", "hard")
    )
    (tmp_path / "data" / "README.md").write_text(f"---\nconfigs:\n{configs}---\n")
    assert [task.id for task in read(tmp_path, "data", name="hard")] == ["q4", "q5"]
    with pytest.raises(ConfigError, match=r"name: data: Config name is missing\. .*'easy', 'hard'"):
        read(tmp_path, "data")
    with pytest.raises(ConfigError, match=r"name: data: BuilderConfig 'mid' not found\. Available"):
        read(tmp_path, "data", name="mid")


def test_a_saved_dictionary_of_splits_is_read(tmp_path: Path) -> None:
    splits = {"train": rows_of(ROWS[:4]), "test": rows_of(ROWS[4:])}
    datasets.DatasetDict(splits).save_to_disk(tmp_path / "saved")
    assert [task.id for task in read(tmp_path, "saved", split="test")] == ["q4", "q5"]
    with pytest.raises(ConfigError, match="saved has no 'dev'; known: test, train"):
        read(tmp_path, "saved", split="dev")


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    jsonl(tmp_path / "rows.jsonl", ROWS[:2])
    assert len(read(tmp_path, "rows.jsonl")) == 2
    jsonl(tmp_path / "rows.jsonl", ROWS)
    assert len(read(tmp_path, "rows.jsonl")) == 6


def test_the_first_rows_can_be_taken(tmp_path: Path) -> None:
    jsonl(tmp_path / "rows.jsonl", ROWS)
    assert [task.id for task in read(tmp_path, "rows.jsonl", limit=2)] == ["q0", "q1"]
    assert len(read(tmp_path, "rows.jsonl", limit=99)) == 6


def test_rows_without_an_id_are_named_by_split_and_position(tmp_path: Path) -> None:
    jsonl(tmp_path / "rows.jsonl", [{"question": "a"}, {"question": "b"}])
    tasks = make_tasks("dataset", {"path": "rows.jsonl", "prompt_key": "question"}, tmp_path)
    assert [task.id for task in tasks] == ["train-0", "train-1"]


def test_conversations_are_prompts_and_demonstrations(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
    rows_of([{"messages": messages}]).to_parquet(tmp_path / "rows.parquet")
    for columns in (None, [], ["messages"]):
        source = {"path": "rows.parquet", "columns": columns}
        (task,) = make_tasks("dataset", source, tmp_path)
        assert task.messages == (Message("user", "x"),)
        assert [row["content"] for row in task.metadata["messages"]] == ["x", "y"]


def test_columns_can_be_chosen(tmp_path: Path) -> None:
    rows = [{**row, "when": datetime(2026, 1, 1), "photo": b"png"} for row in ROWS]
    rows_of(rows).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ConfigError, match=r"columns: the column 'when' holds timestamp.* no JSON"):
        read(tmp_path, "rows.parquet")
    (task, *_) = read(tmp_path, "rows.parquet", columns=["level"])
    assert task == Task("q0", "0+1", "1", {"answer": "1", "level": 0})


def test_nested_values_must_be_json_too(tmp_path: Path) -> None:
    rows_of([{"question": "x", "parts": [{"raw": b"x"}]}]).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ConfigError, match="the column 'parts' holds binary"):
        read(tmp_path, "rows.parquet", label_key="label")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt_key": "qestion"}, "prompt_key: there is no column 'qestion'; did you mean 'ques"),
        ({"label_key": "gold"}, "label_key: there is no column 'gold'"),
        ({"id_key": "key"}, r"id_key: there is no column 'key'; .*\(columns: id, question, ans"),
        ({"columns": ["lvl"]}, "columns: there is no column 'lvl'; did you mean 'level'"),
        ({"name": "main"}, r"source_config\.name: 'main' means nothing to rows\.jsonl"),
        ({"revision": "v1"}, r"source_config\.revision: 'v1' means nothing to rows\.jsonl"),
        ({"limit": "5"}, r"source_config\.limit: input should be a valid integer, got '5'"),
        ({"limit": 0}, r"source_config\.limit: 0 rows are none; expected at least 1"),
        ({"columns": "level"}, r"source_config\.columns: input should be a valid array, got 'leve"),
        ({"split": 3}, r"source_config\.split: input should be a valid string, got 3"),
        ({"prompt_key": 3}, r"source_config\.prompt_key: expected text, got 3"),
        ({"streaming": True}, r"source_config\.streaming: is not known; dataset takes path, name"),
    ],
)
def test_settings_that_do_not_fit_are_named(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    jsonl(tmp_path / "rows.jsonl", ROWS)
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, "rows.jsonl", **options)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("absent.parquet", r"path: 'absent\.parquet': no such file or folder"),
        ("./absent", "no such file or folder"),
        ("a/b/c", "no such file or folder"),
        ("broken.json", r"path: 'broken\.json' cannot be read: .*JSON parse error"),
        ("broken.parquet", r"path: 'broken\.parquet' cannot be read: "),
        ("empty", "path: 'empty' holds no file that can be read; expected parquet"),
        ("none.jsonl", r"none\.jsonl, train: holds no row|cannot be read"),
    ],
)
def test_files_that_cannot_be_read_are_named(tmp_path: Path, path: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.json").write_text('{"question": ')
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    (tmp_path / "none.jsonl").write_text("")
    with pytest.raises(DataError, match=message):
        read(tmp_path, path)


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.xml").write_text("<rows/>")
    with pytest.raises(ConfigError, match=r"rows\.xml: cannot tell its format; expected parquet"):
        read(tmp_path, "rows.xml")


def test_rows_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    jsonl(tmp_path / "rows.jsonl", [ROWS[0], {**ROWS[1], "question": None}])
    with pytest.raises(DataError, match=r"rows\.jsonl, train, row 1: 'question': expected text"):
        read(tmp_path, "rows.jsonl")
    jsonl(tmp_path / "twice.jsonl", [ROWS[0], ROWS[0]])
    with pytest.raises(DataError, match="task id 'q0' stands twice"):
        read(tmp_path, "twice.jsonl")


def test_without_the_package_the_command_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingDependency, match=r"pip install 'retrain\[dataset\]'"):
        read(tmp_path, "openai/gsm8k")
