from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cli_workspace import Workspace, write_rows
from click.testing import Result
from typer.testing import CliRunner

from retrain.cli.main import app
from retrain.cli.playing import checkpoint_weights

pytestmark = pytest.mark.slow


def export(*arguments: str) -> Result:
    result = CliRunner().invoke(app, ["export", *arguments])
    assert "Traceback" not in result.output, result.output
    return result


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def test_the_weights_of_a_run_become_a_folder_that_plays(workspace: Workspace) -> None:
    assert workspace.run("train").exit_code == 0
    result = export("run", "out/exported")
    assert (result.exit_code, result.stderr) == (0, "")
    written = workspace.folder / "out" / "exported"
    assert result.stdout == f"model: {written}\n"
    assert weights(written) == weights(workspace.output / "model")
    played = workspace.run("eval", "--checkpoint", str(written), "-n", "1", "--samples", "1")
    assert played.exit_code == 0

    again = export("run", "out/exported")
    assert (again.exit_code, again.stdout) == (2, "")
    assert "exists already" in again.stderr
    below_a_file = export("run", "c.yaml/exported")
    assert (below_a_file.exit_code, below_a_file.stdout) == (2, "")
    assert "error: c.yaml/exported: cannot be written: " in below_a_file.stderr

    shutil.rmtree(workspace.output / "model")
    newest = export("run", "newest")
    assert newest.exit_code == 0
    assert weights(workspace.folder / "newest") == weights(written)


def test_the_last_finished_stage_is_exported_and_named(workspace: Workspace) -> None:
    row = {"messages": [{"role": "user", "content": "1"}, {"role": "assistant", "content": "2"}]}
    write_rows(workspace.folder / "shown.jsonl", [row])
    source = {"source_config": {"path": "shown.jsonl"}}
    imitation = {"algorithm": {"name": "sft"}, "prompt_source": source}
    workspace.config["stages"] = [{"name": "warm", **imitation}, {"name": "again", **imitation}]
    assert workspace.run("train").exit_code == 0
    result = export("run", "last")
    assert result.exit_code == 0
    assert "stage: again, the last that is finished\n" in result.stdout
    stages = workspace.output / "stages"
    assert weights(workspace.folder / "last") == weights(stages / "again" / "model")
    assert checkpoint_weights(workspace.output) == stages / "again" / "model"

    (stages / "again" / "state" / "result.json").unlink()
    result = export("run", "first")
    assert "stage: warm, the last that is finished\n" in result.stdout
    assert weights(workspace.folder / "first") == weights(stages / "warm" / "model")

    (stages / "warm" / "state" / "result.json").unlink()
    result = export("run", "none")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no stage is finished yet; name one" in result.stderr
    assert "run/stages/warm" in result.stderr
    assert export("run/stages/warm", "none").exit_code == 0


@pytest.mark.parametrize(
    ("files", "words"),
    [({}, "holds no run (no config.yaml)"), ({"config.yaml": "sed: 1"}, "config.yaml")],
)
def test_a_folder_without_a_run_is_named(tmp_path: Path, files: dict[str, str], words: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    result = export(str(tmp_path), str(tmp_path / "to"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ") and words in result.stderr
    assert not (tmp_path / "to").exists()


def test_a_run_without_weights_yet_is_named(workspace: Workspace) -> None:
    assert workspace.run("train").exit_code == 0
    shutil.rmtree(workspace.output / "model")
    shutil.rmtree(workspace.output / "checkpoints")
    result = export("run", "to")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "run: holds no weights yet" in result.stderr


def test_an_export_that_fails_leaves_nothing(workspace: Workspace) -> None:
    assert workspace.run("train").exit_code == 0
    gone = workspace.output / "model" / "extra.json"
    gone.symlink_to("nowhere")
    result = export("run", "out/exported")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "error: out/exported: cannot be written: " in result.stderr
    assert list((workspace.folder / "out").iterdir()) == []
    gone.unlink()
    assert export("run", "out/exported").exit_code == 0
    assert [path.name for path in (workspace.folder / "out").iterdir()] == ["exported"]


def test_what_a_killed_export_left_behind_is_overwritten(workspace: Workspace) -> None:
    assert workspace.run("train").exit_code == 0
    left = workspace.folder / ".exported.partial"
    left.mkdir()
    (left / "half.safetensors").write_bytes(b"half")
    assert export("run", "exported").exit_code == 0
    assert not left.exists()
    assert not (workspace.folder / "exported" / "half.safetensors").exists()
