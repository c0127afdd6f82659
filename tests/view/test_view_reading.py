from dataclasses import replace
from pathlib import Path

import pytest
from viewed_runs import (
    BRIDGE,
    HOSTILE,
    decode,
    episode,
    right,
    same,
    samples_of,
    turn,
    varied,
    write_iteration,
    write_run,
)

from retrain.errors import DataError
from retrain.report.samples import write_samples
from retrain.report.trainer_logprobs import TrainerRow, write_trainer_logprobs
from retrain.types import Segment
from retrain.view.episode import Author
from retrain.view.index import RunIndex
from retrain.view.reading import read_episode, read_rows
from retrain.view.runs import find_runs
from retrain.view.summary import Flag


def test_every_episode_has_a_summary_in_the_order_of_the_run(tmp_path: Path) -> None:
    index = RunIndex.read(write_run(tmp_path))
    assert [file.name.stem for file in index.files] == ["eval-0", "1", "2", "3"]
    assert index.state.episodes == 2 + 3 * 8
    assert index.state.complete
    first = index.find("1.1")[2]
    assert (first.reward, first.rewards, first.turns) == (1.0, {"exact": 1.0, "format": 0.25}, 2)
    assert (first.advantage, first.success, first.seconds) == (0.5, 1.0, 2.0)
    assert first.preview == "The answer is 7é"
    assert index.problems == []


def test_flags_say_what_deserves_a_look(tmp_path: Path) -> None:
    index = RunIndex.read(write_run(tmp_path, iterations=1))
    flags = {e.id: e.flags for e in index.episodes if e.split == "train"}
    assert flags["1.3"] == {Flag.TRUNCATED}
    assert flags["1.4"] == {Flag.FAILED}
    assert all(flags[f"1.{n}"] == {Flag.ZERO_VARIANCE} for n in (5, 6, 7, 8))
    assert flags["1.1"] == frozenset()
    assert index.find("1.4")[2].error == "tool: call: KeyError: 'x'"


def test_a_group_of_equal_trained_rewards_teaches_nothing_whatever_the_raw_ones(
    tmp_path: Path,
) -> None:
    write_iteration(tmp_path, 1, varied(0), same(1))
    groups = RunIndex.read(tmp_path).files[0].groups
    assert [group.zero_variance for group in groups] == [False, True]
    assert (groups[0].mean, groups[0].spread) == (0.5, 0.5)
    assert groups[1].spread == 0.0


def test_each_token_has_its_text_mask_and_logprob(tmp_path: Path) -> None:
    write_iteration(tmp_path, 1, varied(0))
    read = read_episode(RunIndex.read(tmp_path), "1.1")
    (stream,) = read.streams
    spans = [(span.author, stream.text(span)) for span in stream.spans]
    assert spans == [
        (Author.PROMPT, "3+4? "),
        (Author.MODEL, "<call>3+4"),
        (Author.ENVIRONMENT, "=7\n"),
        (Author.MODEL, "The answer is 7é"),
    ]
    assert stream.exact
    assert stream.texts[-2:] == ("é", "")
    assert [bool(m) for m in stream.mask] == [value is not None for value in stream.logprobs]
    assert stream.logprobs[5] == pytest.approx(-0.001)
    assert stream.spans[1].action["tool_calls"][0]["arguments"] == {"expression": "3+4"}
    assert stream.spans[3].info == {"success": True}
    assert (read.label, read.metadata, read.weight_versions) == ("7", {"level": 1}, ("1",))


def test_the_trainers_logprobs_stand_beside_the_engines(tmp_path: Path) -> None:
    write_iteration(tmp_path, 1, varied(0))
    index = RunIndex.read(tmp_path)
    row = read_rows(index, "1.1")[0]
    given = [None if bit == 0 else -0.25 for bit in row["loss_mask"]]
    write_trainer_logprobs(tmp_path, 1, [TrainerRow(0, 0, [0.0] * len(given))])
    write_trainer_logprobs(tmp_path, 1, [TrainerRow(0, 0, given), TrainerRow(1, 0, [-1.0])])
    stream = read_episode(index, "1.1").streams[0]
    assert [v for v in stream.trainer_logprobs if v is not None] == [-0.25] * sum(stream.mask)
    other = read_episode(index, "1.2").streams[0]
    assert set(other.trainer_logprobs) == {None}, "a row of another length is not believed"


def test_the_segments_of_an_episode_are_one_episode(tmp_path: Path) -> None:
    rewritten = right(0)
    segments = (*rewritten.segments, Segment(tuple(b"again "), (turn("seven", version="2"),)))
    write_iteration(tmp_path, 1, [replace(rewritten, segments=segments), right(1)])
    index = RunIndex.read(tmp_path)
    assert [e.id for e in index.episodes] == ["1.1", "1.3"]
    read = read_episode(index, "1.1")
    assert [len(stream.spans) for stream in read.streams] == [4, 2]
    assert read.streams[1].spans[1].turn == 2
    assert read.weight_versions == ("1", "2")
    assert (read.summary.turns, len(read_rows(index, "1.1"))) == (3, 2)


def test_a_run_without_pieces_shows_each_stretch_on_its_first_token(tmp_path: Path) -> None:
    (tmp_path / "samples").mkdir()
    path = tmp_path / "samples" / "1.jsonl"
    write_samples(path, samples_of([right(0)]), decode=decode)
    path.write_bytes(path.read_bytes().replace(b'"pieces"', b'"other"'))
    stream = read_episode(RunIndex.read(tmp_path), "1.1").streams[0]
    assert not stream.exact
    assert stream.texts[5] == "<call>3+4"
    assert set(stream.texts[6:14]) == {""}


def test_the_placeholder_of_a_failed_episode_hides_nothing(tmp_path: Path) -> None:
    write_iteration(tmp_path, 1, varied(0))
    read = read_episode(RunIndex.read(tmp_path), "1.4")
    assert read.streams[0].exact
    assert read.error == {"boundary": "tool", "reason": "call: KeyError: 'x'", "traceback": "trace"}
    assert (read.summary.trained, read.summary.turns) == (0, 0)


def test_a_mask_that_cannot_be_right_is_flagged_and_explained(tmp_path: Path) -> None:
    (sample,) = BRIDGE.to_samples(right(0), 0.5)
    reply = len("<call>3+4")
    sample.loss_mask[reply] = 1
    (tmp_path / "samples").mkdir()
    write_samples(tmp_path / "samples" / "1.jsonl", [sample], decode=decode)
    (found,) = RunIndex.read(tmp_path).episodes
    assert Flag.MASK_FAULT in found.flags
    assert found.mask_faults == ("1 tokens of the environment are trained on",)


def test_what_cannot_be_read_is_named_and_the_rest_is_kept(tmp_path: Path) -> None:
    write_iteration(tmp_path, 1, varied(0))
    path = tmp_path / "samples" / "1.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    broken = [
        lines[0],
        b'{"torn\n',
        b"[1]\n",
        b'{"status": "completed"}\n',
        lines[1],
        lines[2][:90],
    ]
    path.write_bytes(b"".join(broken))
    index = RunIndex.read(tmp_path)
    assert [e.id for e in index.episodes] == ["1.1", "1.5"]
    assert [problem.partition(": ")[0] for problem in index.problems] == [
        f"samples/1.jsonl, line {n}" for n in (2, 3, 4, 6)
    ]
    assert "another version of retrain" in index.problems[2]
    assert "half-written" in index.problems[3]


def test_columns_that_do_not_fit_are_a_problem_and_no_crash(tmp_path: Path) -> None:
    write_iteration(tmp_path, 1, [right(0)])
    path = tmp_path / "samples" / "1.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"loss_mask":[1,', b'"loss_mask":['))
    index = RunIndex.read(tmp_path)
    assert list(index.episodes) == []
    assert "mask values" in index.problems[0]


def test_only_what_is_new_is_read_again(tmp_path: Path) -> None:
    write_iteration(tmp_path, 1, varied(0))
    index = RunIndex.read(tmp_path)
    version = index.state.version
    assert list(index.refresh()) == []
    assert index.state.version == version
    write_iteration(tmp_path, 2, varied(1))
    assert [file.name.stem for file in index.refresh()] == ["2"]
    (tmp_path / "samples" / "1.jsonl").unlink()
    assert list(index.refresh()) == []
    assert {e.iteration for e in index.episodes} == {2}


@pytest.mark.parametrize("id", ["9.1", "1.99", "", "../1.1", "x/../1.1", "1", "config.yaml"])
def test_an_id_leads_nowhere_else(tmp_path: Path, id: str) -> None:
    index = RunIndex.read(write_run(tmp_path / "run"))
    with pytest.raises(DataError, match="no sample"):
        read_episode(index, id)


def test_an_episode_is_found_before_its_file_was_indexed(tmp_path: Path) -> None:
    index = RunIndex(write_run(tmp_path))
    assert read_episode(index, "2.1").summary.iteration == 2


def test_hostile_text_travels_unchanged(tmp_path: Path) -> None:
    write_iteration(tmp_path, 1, [episode(turn(HOSTILE), task=HOSTILE)])
    read = read_episode(RunIndex.read(tmp_path), "1.1")
    assert read.streams[0].text(read.streams[0].spans[1]) == HOSTILE
    assert read.summary.task_id == HOSTILE


def test_stages_are_runs_of_their_own_in_the_order_they_began(tmp_path: Path) -> None:
    for name in ("warm", "again"):
        write_run(tmp_path / "stages" / name, iterations=1)
        (tmp_path / "stages" / name / "config.yaml").write_text("seed: 1\n")
    (tmp_path / "stages" / "notes").mkdir()
    assert [place.name for place in find_runs(tmp_path)] == ["warm", "again"]
    assert [place.name for place in find_runs(tmp_path / "stages" / "again")] == ["again"]


@pytest.mark.parametrize(
    ("name", "message"),
    [("absent", "does not exist"), ("file", "is not a folder"), ("empty", "holds no run")],
)
def test_a_path_that_is_no_run_says_so(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=message):
        find_runs(tmp_path / name)
