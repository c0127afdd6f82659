"""Episodes that slime aborts: suspended under `partial_rollout`, and gone on with later."""

from __future__ import annotations

import asyncio
import copy
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest
from virtual_clock import run_virtual

from backends.slime import plugin
from backends.slime.context import context_of
from backends.slime.interruption import InterruptibleEngine, slime_aborts
from backends.slime.live_episodes import BEGUN_AGAIN, LIVE, LiveEpisodes
from backends.slime.stream_record import StreamRecord
from retrain.engine.base import EngineCapabilities, Generation, SamplingParams
from retrain.environment.base import Environment
from retrain.errors import EngineFailure, boundary
from retrain.types import Action, FinishReason

RAW = {"temperature": 0.8, "top_p": 1.0, "top_k": -1, "max_new_tokens": 90}


class Worlds:
    """The environments of an episode's kind, and how often each call reached them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from plugin_world import World

        self.begun: list[Environment] = []
        self.closed: list[Environment] = []
        reset = World.reset

        async def watched(world: Any, task: Any, seed: int) -> Any:
            self.begun.append(world)
            return await reset(world, task, seed)

        async def close(world: Any) -> None:
            self.closed.append(world)

        monkeypatch.setattr(World, "reset", watched)
        monkeypatch.setattr(World, "close", close)


@pytest.fixture
def worlds(monkeypatch: pytest.MonkeyPatch) -> Worlds:
    return Worlds(monkeypatch)


@pytest.fixture
def partial_args(slime_config: Any, router_args: Any) -> Callable[..., Any]:
    def make(**options: Any) -> Any:
        chosen = {"partial_rollout": True, "mask_offpolicy_in_partial_rollout": False, **options}
        return router_args(slime_config(max_tokens_per_turn=20, **OWNER), **chosen)

    return make


OWNER = {"sections": {"rollout": {"owner": "slime", "generate_timeout": 5.0}}}


def after(tokens: int, version: str) -> Callable[[Any], Any]:
    """The answer of a server that was told to abort after some tokens."""

    def cut(reply: Any) -> Any:
        meta = reply["meta_info"]
        figures = {
            **meta,
            "finish_reason": {"type": "abort"},
            "completion_tokens": tokens,
            "weight_version": version,
            "output_token_logprobs": meta["output_token_logprobs"][:tokens],
        }
        return {**reply, "output_ids": reply["output_ids"][:tokens], "meta_info": figures}

    return cut


def drawn(args: Any) -> Any:
    return plugin.DataSource(args).get_samples(1)[0][0]


def asked(served: Any) -> list[dict[str, Any]]:
    return [body for body in served.calls("/generate") if "rid" in body]


async def test_an_aborted_episode_goes_on_from_its_tokens_in_the_same_world(
    partial_args: Any, served: Any, worlds: Worlds
) -> None:
    args = partial_args()
    sample = drawn(args)
    sample.session_id = "the-key"
    served.faults.extend([None, after(3, "old")])
    assert await plugin.generate(args, sample, RAW) is sample
    assert sample.status.value == "aborted"
    assert sample.reward is None
    assert not worlds.closed
    before = copy.deepcopy(sample)
    turns = [turn["output"] for turn in before.metadata["retrain"]["turns"]]
    assert before.response and turns[1:] == [3], "in the middle of the second turn"

    assert await plugin.generate(args, sample, RAW) is sample
    assert sample.status.value in ("completed", "truncated")
    assert sample.reward is not None and not sample.remove_sample
    assert sample.tokens[: len(before.tokens)] == before.tokens
    written = before.response_length
    assert sample.rollout_log_probs[:written] == before.rollout_log_probs
    first, second, again = asked(served)[:3]
    assert again["input_ids"] == before.tokens, "exactly what was there"
    left = second["sampling_params"]["max_new_tokens"] - 3
    assert again["sampling_params"]["max_new_tokens"] == left
    assert sample.weight_versions == ["default", "old", *["default"] * len(asked(served)[2:])]
    assert sample.prefix_cache_info.total_prompt_tokens == sum(
        len(body["input_ids"]) for body in asked(served)
    )
    assert first["input_ids"] == second["input_ids"][: len(first["input_ids"])]
    assert (len(worlds.begun), len(worlds.closed)) == (1, 1), "the same world, to its end"
    assert not {LIVE, BEGUN_AGAIN} & sample.metadata.keys()
    assert sum(sample.loss_mask) == sum(t["output"] for t in sample.metadata["retrain"]["turns"])
    context = context_of(args)
    assert len(context.live) == 0
    played = context.composition.data_format.to_trajectory([ours_of(sample)])
    assert played.turns[1].weight_spans[0] == (3, "old")


def ours_of(sample: Any) -> Any:
    from backends.slime.samples import ours

    return ours(sample)


async def test_what_older_weights_wrote_is_masked_where_slime_says_so(
    partial_args: Any, served: Any
) -> None:
    args = partial_args(mask_offpolicy_in_partial_rollout=True)
    sample = drawn(args)
    served.faults.extend([None, after(3, "old"), after(2, "older")])
    await plugin.generate(args, sample, RAW)
    await plugin.generate(args, sample, RAW)
    assert sample.status.value == "aborted", "it may be aborted more than once"
    stale = sample.response_length
    sample.loss_mask = [0] * stale  # as slime's generate_and_rm does
    await plugin.generate(args, sample, RAW)
    assert sample.loss_mask[:stale] == [0] * stale
    assert sample.loss_mask[stale:].count(1) > 0
    assert len(sample.loss_mask) == len(sample.rollout_log_probs) == sample.response_length
    assert not sample.remove_sample


async def test_without_partial_rollout_an_aborted_episode_is_over(
    partial_args: Any, served: Any, worlds: Worlds
) -> None:
    args = partial_args(partial_rollout=False)
    sample = drawn(args)
    served.faults.append(after(3, "old"))
    await plugin.generate(args, sample, RAW)
    assert sample.status.value == "aborted"
    assert len(worlds.closed) == 1
    await plugin.generate(args, sample, RAW)
    assert sample.status.value in ("completed", "truncated")
    assert len(worlds.begun) == 2


def test_where_the_live_episode_is_gone_it_begins_afresh_and_says_so(
    partial_args: Any, served: Any, worlds: Worlds
) -> None:
    args = partial_args()
    sample = drawn(args)
    served.faults.append(after(3, "old"))
    asyncio.run(plugin.generate(args, sample, RAW))  # its loop ends here, as with its process
    assert sample.status.value == "aborted"
    assert len(worlds.closed) == 1
    asyncio.run(plugin.generate(args, sample, RAW))
    assert sample.status.value in ("completed", "truncated")
    assert sample.metadata[BEGUN_AGAIN] is True
    assert "old" not in sample.weight_versions
    assert len(worlds.begun) == 2


def test_groups_of_a_run_that_was_killed_begin_afresh_and_say_so(
    slime_config: Any, slime_args: Any
) -> None:
    args = slime_args(slime_config(**OWNER))
    source = plugin.DataSource(args)
    source.add_samples(source.get_samples(1))
    source.snapshot(0)
    source.save(0)
    resumed = plugin.DataSource(args)
    resumed.load(0)
    (again,), (fresh,) = resumed.get_samples(1), resumed.get_samples(1)
    assert [sample.metadata.get(BEGUN_AGAIN) for sample in again] == [True] * len(again)
    assert not any(BEGUN_AGAIN in sample.metadata for sample in fresh)


@pytest.mark.parametrize("bound", [{"most_episodes": 1}, {"most_tokens": 20}])
async def test_beyond_the_bound_the_episode_kept_longest_ends(
    partial_args: Any, served: Any, worlds: Worlds, bound: dict[str, int]
) -> None:
    args = partial_args()
    context_of(args).live = LiveEpisodes(**bound)
    samples = [sample for group in plugin.DataSource(args).get_samples(1) for sample in group][:2]
    for sample in samples:
        served.faults.append(after(3, "old"))
        await plugin.generate(args, sample, RAW)
    assert len(context_of(args).live) == 1
    assert worlds.closed == worlds.begun[:1]
    for sample in samples:
        await plugin.generate(args, sample, RAW)
        assert sample.status.value in ("completed", "truncated")
    assert [BEGUN_AGAIN in sample.metadata for sample in samples] == [True, False]


def test_a_suspension_is_no_answer_that_takes_too_long() -> None:
    async def suspended_for_an_hour() -> list[int]:
        answers = [FinishReason.ABORT, FinishReason.STOP]
        engine = InterruptibleEngine(Answering(answers, seconds=4.0), goes_on=True)

        async def turn() -> Generation:
            async with boundary(EngineFailure, "generate", timeout=10.0):
                return await engine.generate([1], SamplingParams(9), session_id="s", seed=1)

        playing = asyncio.create_task(turn())
        await engine.suspended.wait()
        await asyncio.sleep(3600.0)
        engine.go_on()
        return [*(await playing).output_ids]

    assert run_virtual(suspended_for_an_hour()) == [7, 7]


async def test_the_end_of_the_last_rollout_ends_what_is_suspended(
    partial_args: Any, served: Any, worlds: Worlds
) -> None:
    args = partial_args()
    served.faults.append(after(3, "old"))
    await plugin.generate(args, drawn(args), RAW)
    live = context_of(args).live
    await live.end_all()
    assert len(live) == 0
    assert worlds.closed == worlds.begun


class _Meta(type):
    _instances: ClassVar[dict[type, Any]] = {}


class _GenerateState(metaclass=_Meta):
    pass


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The state of slime's manager, where the plugin looks for it."""
    state = SimpleNamespace(aborted=False)
    for name, found in (
        ("slime.rollout.sglang_rollout", {"GenerateState": _GenerateState}),
        ("slime.utils.misc", {"SingletonMeta": _Meta}),
    ):
        module = ModuleType(name)
        vars(module).update(found)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(_Meta._instances, _GenerateState, state)
    return state


async def test_while_slime_aborts_no_turn_is_sent(
    partial_args: Any, served: Any, manager: Any
) -> None:
    args = partial_args()
    sample = drawn(args)

    def last_answer(reply: Any) -> Any:
        manager.aborted = True  # slime aborts while the environment is at work
        return reply

    served.faults.append(last_answer)
    await plugin.generate(args, sample, RAW)
    assert sample.status.value == "aborted"
    assert len(asked(served)) == 1, "the turn after it waits"
    before = list(sample.tokens)
    manager.aborted = False
    await plugin.generate(args, sample, RAW)
    assert sample.tokens[: len(before)] == before
    assert sample.status.value in ("completed", "truncated")


def test_a_manager_that_was_never_made_aborts_nothing(
    manager: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager.aborted = True
    assert slime_aborts()
    monkeypatch.setattr(_Meta, "_instances", {})
    assert not slime_aborts()


async def test_a_turn_that_is_aborted_at_its_last_token_has_its_length() -> None:
    engine = InterruptibleEngine(Answering([FinishReason.ABORT]), goes_on=True)
    turn = await engine.generate([1, 2], SamplingParams(1), session_id="s", seed=1)
    assert (turn.output_ids, turn.finish_reason) == ((7,), FinishReason.LENGTH)


class Answering:
    """Answers with one token, for the reasons given, in order."""

    capabilities = EngineCapabilities()

    def __init__(self, reasons: list[FinishReason], *, seconds: float = 0.0) -> None:
        self._reasons = reasons
        self._seconds = seconds

    async def generate(self, *given: Any, **named: Any) -> Generation:
        await asyncio.sleep(self._seconds)
        return Generation((7,), (-1.0,), self._reasons.pop(0))

    async def abort(self, session_id: str) -> None:
        """Nothing runs."""

    async def release(self, session_id: str) -> None:
        """Nothing is kept."""


def test_an_episode_that_is_begun_again_has_nothing_stale() -> None:
    record = StreamRecord()
    record.asked("first", [1, 2])
    record.wrote(Generation((3, 4), (-1.0, -1.0), FinishReason.STOP), seed=0)
    record.asked("first", [1, 2, 3, 4, 5])
    record.mark_stale()
    assert (record.stale, record.tokens) == ((3,), 5), "the reply counts"
    record.asked("second", [1, 2])
    assert (record.stale, record.tokens) == ((), 2)


def test_a_rewritten_history_is_a_stream_of_its_own() -> None:
    record = StreamRecord()
    record.asked("s", [1, 2])
    record.wrote(Generation((3,), (-1.0,), FinishReason.STOP), seed=0)
    record.asked("s", [1, 9])
    record.wrote(Generation((4,), (-2.0,), FinishReason.STOP), seed=1)
    first, second = record.segments(lambda ids: Action(text=str(ids)))
    assert (first.prompt_ids, second.prompt_ids) == ((1, 2), (1, 9))
    assert first.response_ids == (3,) and second.response_ids == (4,)
    assert record.seeds == [0, 1]
