"""Tests about what an environment leaves alone: other episodes, what it said, the event loop."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

import pytest

from retrain.errors import RetrainError
from retrain.runtime import EventLoopThread
from retrain.testing.environment_hooks import SCRIPT_NAMES, EnvironmentHooks, PlayScript, finish
from retrain.testing.environment_playing import (
    Episode,
    MakeEnvironment,
    Played,
    Reply,
    Returned,
    play,
)
from retrain.testing.wording import require, require_unchanged


class IndependenceTests(EnvironmentHooks):
    """Many episodes of one environment, one after the other and side by side."""

    @pytest.mark.parametrize("script", SCRIPT_NAMES)
    def test_one_seed_gives_one_episode(self, played: PlayScript, script: str) -> None:
        """The same task, seed and actions give the same episode: groups are compared by it."""
        self._skip_unless_deterministic()
        _same(played(script), played(script), "under one seed and the same actions")

    def test_episodes_leave_nothing_behind(self, played: PlayScript) -> None:
        """An episode is the same after others have been played, of this task and of another."""
        self._skip_unless_deterministic()
        before = played("tool_call")
        for script in SCRIPT_NAMES:
            played(script, task=self.other_task)
        _same(before, played("tool_call"), "after other episodes")

    def test_episodes_side_by_side_do_not_mix(
        self, played: PlayScript, fresh_environment: MakeEnvironment
    ) -> None:
        """Two episodes that take turns are those that each is alone."""
        self._skip_unless_deterministic()
        tasks = copy.deepcopy((self.task, self.other_task))
        alone = [played("tool_call", task=task) for task in tasks]

        async def together() -> list[Played]:
            episodes = [Episode(fresh_environment(), "tool_call", self.answer) for _ in tasks]
            for episode, task in zip(episodes, tasks, strict=True):
                await episode.reset(task, self.seed)
            going = list(episodes)
            while going:
                going = [episode for episode in going if await episode.step()]
            return [await episode.end() for episode in episodes]

        for one, other in zip(alone, finish("tool_call", together()), strict=True):
            _same(one, other, "beside another episode")

    @pytest.mark.parametrize("script", SCRIPT_NAMES)
    def test_what_was_said_stays(
        self, played: PlayScript, fresh_environment: MakeEnvironment, script: str
    ) -> None:
        """What `reset` and `step` returned is not changed afterwards."""
        environment = fresh_environment()
        try:
            returned = Returned(environment)
        except AttributeError:
            pytest.skip(f"{type(environment).__name__} takes no attributes to listen with")
        played(script, environment=environment)
        for method, was, now in returned.changed():
            require_unchanged(f"what {method} returned", was, now)

    def test_the_task_is_left_as_it_was(self, played: PlayScript) -> None:
        """A task is shared by all episodes of its group."""
        task = copy.deepcopy(self.task)
        played("tool_call", task=task)
        require_unchanged("task", self.task, task)

    @pytest.mark.parametrize("script", SCRIPT_NAMES)
    def test_actions_are_left_as_they_were(
        self, played: PlayScript, fresh_environment: MakeEnvironment, script: str
    ) -> None:
        """An action belongs to the trajectory."""
        given: list[tuple[Any, Any]] = []

        async def episode() -> None:
            playing = Episode(fresh_environment(), script, self.answer)
            try:
                await playing.reset(copy.deepcopy(self.task), self.seed)
                given.extend((action, copy.deepcopy(action)) for action in playing.left)
                while await playing.step():
                    pass
            finally:
                await playing.environment.close()

        played(script)
        finish(script, episode())
        for action, was in given:
            require_unchanged("action", was, action)

    def test_the_event_loop_stays_free(self, fresh_environment: MakeEnvironment) -> None:
        """No call keeps the event loop, on which all other episodes wait."""
        told: list[str] = []
        with EventLoopThread(patience=self.longest_block, tell=told.append) as loop:
            for script in SCRIPT_NAMES:
                episode = play(
                    fresh_environment(), script, self.answer, copy.deepcopy(self.task), self.seed
                )
                with suppress(RetrainError):
                    loop.run(episode)
        require(
            not told, "the event loop was blocked", expected="it answers", came="".join(told[:1])
        )

    def _skip_unless_deterministic(self) -> None:
        if not self.deterministic:
            pytest.skip("deterministic is False")


def _same(one: Played, other: Played, when: str) -> None:
    __tracebackhide__ = True
    require(
        one.prompt == other.prompt,
        f"the first prompt is another one {when}",
        expected=one.prompt,
        came=other.prompt,
    )
    for number, (then, now) in enumerate(zip(one.replies, other.replies, strict=False)):
        for name in Reply.__slots__:
            was, came = getattr(then, name), getattr(now, name)
            require(was == came, f"step {number} has other {name} {when}", expected=was, came=came)
    was, came = (len(one.replies), one.final_reward), (len(other.replies), other.final_reward)
    require(
        was == came,
        f"the episode has another length or final reward {when}",
        expected=was,
        came=came,
    )
