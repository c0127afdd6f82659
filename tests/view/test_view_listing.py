from pathlib import Path
from typing import Any

import pytest
from viewed_runs import episode, right, turn, varied, write_iteration, write_run

from retrain.view.groups import GroupSummary
from retrain.view.index import RunIndex
from retrain.view.listing import FileHead, Listing, LoneEpisode, list_episodes
from retrain.view.query import Order, Query
from retrain.view.requests import BadRequest, read_query, read_window
from retrain.view.summary import EpisodeSummary, Flag


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> RunIndex:
    return RunIndex.read(write_run(tmp_path_factory.mktemp("run")))


def ids(listing: Listing) -> list[str]:
    rows = [row.episode if isinstance(row, LoneEpisode) else row for row in listing.rows]
    return [row.id for row in rows if isinstance(row, EpisodeSummary)]


def listed(index: RunIndex, **query: Any) -> list[str]:
    return ids(list_episodes(index, Query(**query)))


def test_the_newest_iteration_stands_first_in_its_groups(index: RunIndex) -> None:
    listing = list_episodes(index, Query())
    kinds = [type(row) for row in listing.rows[:7]]
    assert kinds == [FileHead, GroupSummary, *[EpisodeSummary] * 4, GroupSummary]
    assert ids(listing)[:2] == ["3.1", "3.2"]
    assert listing.episodes == 26
    assert listing.rows[listing.place_of("2.1")].id == "2.1"  # type: ignore[union-attr]
    assert listing.place_of("nobody") == -1


def test_a_group_of_one_has_no_head(index: RunIndex) -> None:
    rows = list_episodes(index, Query(split="eval")).rows
    assert [type(row) for row in rows] == [FileHead, LoneEpisode, LoneEpisode]


def test_filters_narrow_together_and_heads_say_how_many_are_left(index: RunIndex) -> None:
    assert listed(index, flags=frozenset({Flag.FAILED}), file="2") == ["2.4"]
    assert listed(index, flags=frozenset({Flag.FAILED, Flag.TRUNCATED}), file="2") == ["2.3", "2.4"]
    assert listed(index, least=0.2, most=0.6, order=Order.RUN) == ["1.3", "2.3", "3.3"]
    head, group = list_episodes(index, Query(most=0.0, file="2")).rows[:2]
    assert isinstance(head, FileHead) and isinstance(group, GroupSummary)
    assert (head.episodes, len(group.episodes), group.size) == (1, 1, 4)


def test_sorting_by_reward_takes_episodes_out_of_their_groups(index: RunIndex) -> None:
    rewards = [index.find(id)[2].reward for id in listed(index, order=Order.REWARD_UP)]
    known = [reward for reward in rewards if reward is not None]
    assert known == sorted(known)
    assert rewards[len(known) :] == [None] * 3, "the unknown ones stand last"


@pytest.mark.parametrize("words", ["ANSWER IS", "7é", '"quoted"', "back\\slash", "sum-2"])
def test_words_are_found_in_texts_and_tasks(tmp_path: Path, words: str) -> None:
    said = 'answer is 7é "quoted" back\\slash'
    write_iteration(tmp_path, 1, [episode(turn(said), task="sum-2"), episode(turn("no"), slot=1)])
    found = listed(RunIndex.read(tmp_path), words=words)
    assert "1.1" in found
    assert ("1.2" in found) == (words == "no")


@pytest.mark.parametrize("words", ["rollout_log_probs", "loss_mask", "1.0", "completed"])
def test_words_of_the_files_own_making_are_not_found(tmp_path: Path, words: str) -> None:
    write_iteration(tmp_path, 1, [right(0)])
    assert listed(RunIndex.read(tmp_path), words=words) == []


def test_an_error_is_found_by_its_words(tmp_path: Path) -> None:
    write_iteration(tmp_path, 1, varied(0))
    assert listed(RunIndex.read(tmp_path), words="keyerror") == ["1.4"]


def test_a_request_becomes_a_query() -> None:
    given = {"flags": "failed,truncated", "least": "-1", "words": " x ", "order": "longest"}
    query = read_query(given)
    assert query.flags == {Flag.FAILED, Flag.TRUNCATED}
    assert (query.least, query.most, query.words, query.order) == (-1.0, None, "x", Order.LONGEST)
    assert read_window({"start": "5", "count": "100000"}).count == 500


@pytest.mark.parametrize(
    "given", [{"flags": "odd"}, {"order": "odd"}, {"least": "nan"}, {"most": "1e999"}]
)
def test_a_value_that_there_is_not_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(BadRequest):
        read_query(given)


def test_a_window_is_whole_numbers() -> None:
    with pytest.raises(BadRequest):
        read_window({"start": "-1"})
