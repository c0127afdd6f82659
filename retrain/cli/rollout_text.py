"""Played episodes for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from retrain.report.attempts import FINISHED
from retrain.report.batch_metrics import batch_metrics

if TYPE_CHECKING:
    from rich.console import Console

    from retrain.compose import Composition
    from retrain.types import Group


def print_groups(
    composition: Composition, groups: Sequence[Group], seconds: float, console: Console
) -> None:
    """Print every episode, and a line that sums them up."""
    from retrain.report.episode_view import print_episode

    for group in groups:
        for slot in composition.data_format.group_samples(group):
            for sample in slot:
                print_episode(sample, composition.renderer.decode, console)
                console.print()
    line = summary_line(groups, seconds)
    console.print(line, style="bold", markup=False, highlight=False, soft_wrap=True)


def summary_line(groups: Sequence[Group], seconds: float) -> str:
    """What a batch came to, in one line."""
    metrics = batch_metrics(groups, seconds=seconds)
    episodes, failed = metrics["rollout/episodes"], metrics["rollout/failed"]
    reward, success = metrics.get("reward/mean"), metrics.get("success")
    unscored = sum(
        episode.status in FINISHED and episode.reward is None
        for group in groups
        for episode in group.trajectories
    )
    facts = [
        f"{episodes:.0f} episodes",
        "reward unknown" if reward is None else f"reward {reward:+.3f}",
        *([] if success is None else [f"success {success:.2f}"]),
        f"{failed:.0f} failed",
        *([f"{unscored} without a reward"] if unscored else []),
        f"{metrics['rollout/truncated']:.0f} truncated",
        f"{metrics['rollout/tokens']:,.0f} tokens in {seconds:.1f} s",
        f"{metrics['rollout/tokens_per_second']:,.0f} tokens/s",
    ]
    return ", ".join(facts)
