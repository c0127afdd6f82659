"""The dry run's episode in an environment that rewrites history."""

from __future__ import annotations

from typing import Any

from rewriting_worlds import Rewriter, compact

from bridges.limits import EpisodeLimits
from bridges.preview import preview_episode
from retrain.types import Task


async def test_the_preview_shows_both_segments(renderer: Any) -> None:
    world = Rewriter(compact("So far: nothing."))
    task = Task("t", "What is 2 + 2?", label="4")
    episode = await preview_episode(task, renderer, lambda: world, EpisodeLimits(500))
    assert episode.error is None and len(episode.segments) == 2
    assert "So far: nothing." in renderer.decode(episode.segments[1].prompt_ids)
    assert renderer.decode(episode.turns[1].output_ids) == "4<|im_end|>"


async def test_an_undeclared_rewrite_shows_in_the_preview(renderer: Any) -> None:
    world = Rewriter(compact("short"))
    world.rewrites_history = False  # type: ignore[misc]
    episode = await preview_episode(Task("t", "q"), renderer, lambda: world, EpisodeLimits(500))
    assert "rewrites_history = True" in episode.error.reason  # type: ignore[union-attr]
