"""`DataFormatBridge`: trajectories to samples and back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from echo_environment import SEED
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from bridges import DataFormatBridge
from bridges.data_format import KEY
from retrain.errors import Boundary, EpisodeError
from retrain.sample import Sample, Status
from retrain.types import (
    Action,
    FinishReason,
    Group,
    Message,
    Segment,
    StopReason,
    Task,
    Timing,
    ToolCall,
    Trajectory,
    Turn,
)

ids = st.lists(st.integers(0, 150_000), min_size=1, max_size=8)
logprob = st.floats(-30, 0, allow_nan=False)
text = st.text(max_size=12)
json_values = st.none() | st.booleans() | st.integers(-9, 9) | text
mappings = st.dictionaries(text, json_values, max_size=3)
actions = st.builds(
    Action,
    text=text,
    reasoning=text,
    tool_calls=st.lists(st.builds(ToolCall, text, mappings, st.none() | text), max_size=2).map(
        tuple
    ),
    parse_error=st.none() | text,
)


@st.composite
def turns(draw: st.DrawFn, last: bool) -> Turn:
    output = draw(ids)
    return Turn(
        output_ids=tuple(output),
        output_logprobs=tuple(draw(logprob) for _ in output),
        finish_reason=draw(st.sampled_from(FinishReason)),
        action=draw(actions),
        weight_version=draw(text),
        reward=draw(st.floats(-5, 5)),
        info=draw(mappings),
        env_ids=() if last else tuple(draw(ids)),
        cached_tokens=draw(st.integers(0, 50)),
    )


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    count = draw(st.integers(0, 4))
    return Segment(tuple(draw(ids)), tuple(draw(turns(i == count - 1)) for i in range(count)))


trajectories = st.builds(
    Trajectory,
    task=st.builds(
        Task,
        id=text,
        prompt=text | st.lists(st.builds(Message, text, text), max_size=2).map(tuple),
        label=json_values,
        metadata=mappings,
    ),
    seed=st.just(SEED),
    segments=st.lists(segments(), max_size=3).map(tuple),
    status=st.sampled_from([s for s in Status if s is not Status.PENDING]),
    stop_reason=st.sampled_from(StopReason),
    rewards=st.dictionaries(text, st.floats(-5, 5), max_size=2),
    reward=st.none() | st.floats(-5, 5),
    error=st.none() | st.builds(EpisodeError, st.sampled_from(Boundary), text, text),
    timings=st.lists(
        st.builds(Timing, text, st.integers(-1, 3), st.floats(0, 9), st.floats(0, 9)), max_size=2
    ).map(tuple),
    group_index=st.integers(0, 9),
    index=st.integers(0, 99),
    masked=st.booleans(),
)


class PlainRenderer:
    pad_token_id = 0

    def decode(self, ids: Any) -> str:
        return " ".join(map(str, ids))


BRIDGE = DataFormatBridge(PlainRenderer())  # type: ignore[arg-type]


@given(trajectories, st.floats(-3, 3))
def test_conversion_is_lossless(trajectory: Trajectory, advantage: float) -> None:
    samples = BRIDGE.to_samples(trajectory, advantage)
    assert BRIDGE.to_trajectory(samples) == trajectory


@given(trajectories)
def test_conversion_survives_json(trajectory: Trajectory) -> None:
    adapter = TypeAdapter(list[Sample])
    written = json.dumps(adapter.dump_python(BRIDGE.to_samples(trajectory), mode="json"))
    assert BRIDGE.to_trajectory(adapter.validate_python(json.loads(written))) == trajectory


@given(trajectories, st.floats(-3, 3))
def test_mask_marks_exactly_the_sampled_tokens(trajectory: Trajectory, advantage: float) -> None:
    for segment, sample in zip(
        trajectory.segments, BRIDGE.to_samples(trajectory, advantage), strict=False
    ):
        if not segment.turns:
            assert not any(sample.loss_mask)
            continue
        expected = [
            flag
            for turn in segment.turns
            for flag in [1] * len(turn.output_ids) + [0] * len(turn.env_ids)
        ]
        assert sample.tokens == list(segment.ids)
        assert sample.loss_mask == (expected if trajectory.valid else [0] * len(expected))
        assert sample.advantage == (advantage if trajectory.valid else 0.0)
        assert sample.remove_sample is not trajectory.valid


def test_failure_before_the_prompt_keeps_its_slot() -> None:
    failed = Trajectory(
        Task("t", "hi"), SEED, (), Status.FAILED, StopReason.FAILED, group_index=3, index=24
    )
    (sample,) = BRIDGE.to_samples(failed, 0.7)
    assert (sample.tokens, sample.response_length, sample.loss_mask) == ([0, 0], 1, [0])
    assert (sample.rollout_log_probs, sample.remove_sample, sample.advantage) == ([0.0], True, 0.0)
    assert (sample.group_index, sample.rollout_id) == (3, 24)


def test_siblings_share_the_rollout_and_come_back_in_any_order() -> None:
    segment = Segment((1, 2), (Turn((3,), (-0.1,), FinishReason.STOP, Action("a")),))
    trajectory = Trajectory(
        Task("t", "hi"),
        SEED,
        (segment, replace(segment, prompt_ids=(4,))),
        Status.COMPLETED,
        StopReason.TERMINATED,
        reward=1.0,
        index=5,
    )
    first, second = BRIDGE.to_samples(trajectory)
    assert first.rollout_id == second.rollout_id == 5
    assert BRIDGE.to_trajectory([second, first]) == trajectory
    with pytest.raises(ValueError, match="has 2 segments, got"):
        BRIDGE.to_trajectory([first])


def test_samples_of_others_are_refused() -> None:
    with pytest.raises(ValueError, match=KEY):
        BRIDGE.to_trajectory([Sample(tokens=[1, 2], response_length=1)])


def test_group_gives_a_list_per_slot() -> None:
    failed = Trajectory(Task("t", "hi"), SEED, (), Status.FAILED, StopReason.FAILED)
    group = Group(0, failed.task, 0, (failed, failed), (0.0, 0.0))
    assert [len(slot) for slot in BRIDGE.group_samples(group)] == [1, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss_mask": [1]}, "loss_mask must have response_length entries"),
        ({"rollout_log_probs": []}, "rollout_log_probs must have response_length entries"),
        ({"loss_mask": [1, 2]}, "loss_mask must hold 0 and 1 only"),
        ({"rollout_log_probs": [float("nan"), 0.0]}, "finite logprob"),
        ({"rollout_log_probs": [0.5, 0.0]}, "finite logprob of at most 0"),
        ({"response_length": 4}, "at least one prompt token"),
        ({"advantage": float("inf")}, "advantage must be finite"),
        ({"remove_sample": True}, "removed sample needs mask 0"),
        ({"status": Status.PENDING}, "unfinished"),
    ],
)
def test_broken_sample_is_named(change: dict[str, Any], message: str) -> None:
    sample = Sample(
        index=4,
        tokens=[1, 2, 3, 4],
        response_length=2,
        loss_mask=[1, 0],
        rollout_log_probs=[-0.5, 0.0],
        status=Status.COMPLETED,
    )
    sample.validate()
    for name, value in change.items():
        setattr(sample, name, value)
    with pytest.raises(ValueError, match=message) as caught:
        sample.validate()
    assert "sample 4" in str(caught.value)


def test_tokens_of_older_weights_are_masked_and_keep_their_logprobs(renderer: Any) -> None:
    spans = ((2, "1"), (3, "2"))
    turn = Turn(
        (5, 6, 7, 8, 9), (-0.5,) * 5, FinishReason.STOP, Action("a"), "2", weight_spans=spans
    )
    old = replace(turn, weight_version="1", weight_spans=(), env_ids=(4,))
    episode = Trajectory(
        Task("t", "q"),
        SEED,
        (Segment((1, 2), (old, turn)),),
        Status.COMPLETED,
        StopReason.TERMINATED,
        reward=1.0,
    )
    bridge = DataFormatBridge(renderer)
    (whole,) = bridge.to_samples(episode, 0.5)
    (fresh,) = bridge.to_samples(episode, 0.5, fresh={"2"})
    (none,) = bridge.to_samples(episode, 0.5, fresh=())
    assert whole.loss_mask == [1] * 5 + [0] + [1] * 5
    assert fresh.loss_mask == [0] * 6 + [0, 0, 1, 1, 1]
    assert not any(none.loss_mask) and not none.remove_sample
    assert whole.rollout_log_probs == fresh.rollout_log_probs == none.rollout_log_probs
    assert whole.weight_versions == ["1", "1", "2"]
    assert bridge.to_trajectory([fresh]) == episode
