import base64
import hashlib
import json
import re
from pathlib import Path

import pytest
from viewed_runs import HOSTILE, episode, turn, write_iteration, write_run

from retrain.errors import RunFolderError
from retrain.view.index import RunIndex
from retrain.view.packing import choose
from retrain.view.runs import find_runs
from retrain.view.single_file import bundle, data_block, single_page, write_single_file


def written(tmp_path: Path, most: int = 256) -> str:
    path = tmp_path / "run.html"
    write_single_file(path, find_runs(tmp_path / "run"), title="calculator", most=most)
    return path.read_text(encoding="utf-8")


def data_of(page: str) -> dict[str, object]:
    block = re.search(r'<script type="application/json" id="packed">(.*?)</script>', page, re.S)
    assert block is not None
    found: dict[str, object] = json.loads(block[1])
    return found


def test_the_file_loads_nothing_and_runs_only_its_own_code(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    page = written(tmp_path)
    assert not re.search(r'(src|href)="', page)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    script = re.search(r'<script type="module">(.*?)</script>', page, re.S)
    assert policy is not None and script is not None
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy[1]
    assert policy[1].startswith("default-src 'none';")


def test_hostile_text_cannot_leave_its_block(tmp_path: Path) -> None:
    ends = HOSTILE + "<!--<script></SCRIPT >\u2028"
    write_iteration(tmp_path / "run", 1, [episode(turn(ends), task=ends)])
    page = written(tmp_path)
    assert page.count("<script") == page.count("</script>") == 2
    assert "<img" not in page
    (run,) = data_of(page)["runs"]  # type: ignore[misc]
    assert run["rows"][-1]["task"] == ends


def test_a_block_of_data_holds_no_angle_bracket() -> None:
    assert "<" not in data_block({"<a>": ["</script>", {"x": "<!--"}]})
    assert json.loads(data_block({"<a>": "</script>"})) == {"<a>": "</script>"}


def test_whole_groups_are_chosen_evenly_over_the_run(tmp_path: Path) -> None:
    index = RunIndex.read(write_run(tmp_path, iterations=9))
    chosen = choose(index, 12)
    assert [file.name.stem for file, _ in chosen] == ["eval-0", "eval-0", "5", "9"]
    assert [group.size for _, group in choose(index, 3)] == [4], "one group at least"
    assert choose(index, 0) == []
    assert sum(len(group.episodes) for _, group in choose(index, 1000)) == index.state.episodes


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    (run,) = data_of(written(tmp_path, most=8))["runs"]  # type: ignore[misc]
    assert "This file holds 6 of 26 episodes" in run["run"]["note"]
    assert set(run["episodes"]) == {r["id"] for r in run["rows"] if r["kind"] == "sample"}


def test_a_run_without_samples_makes_a_page_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("seed: 1\n")
    (run,) = data_of(written(tmp_path))["runs"]  # type: ignore[misc]
    assert (run["rows"], run["charts"]) == ([], {"charts": []})


def test_every_module_of_the_page_is_in_the_script_once() -> None:
    script = bundle("main")
    assert script.count("const $dom = ") == 1
    assert script.index("const $dom = ") < script.index("const $list = ")
    assert not re.search(r"^(import|export) ", script, re.MULTILINE)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    write_run(tmp_path / "run", iterations=1)
    with pytest.raises(RunFolderError, match=r"absent.*cannot be written"):
        write_single_file(
            tmp_path / "absent" / "x.html", find_runs(tmp_path / "run"), title="t", most=1
        )


def test_the_page_is_the_same_for_the_same_run(tmp_path: Path) -> None:
    from retrain.view.packing import pack

    places = find_runs(write_run(tmp_path / "run", iterations=1))
    assert single_page(pack(places, "t", 9)) == single_page(pack(places, "t", 9))
