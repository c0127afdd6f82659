"""Draws reward and questions over iterations, and one against the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from random import Random
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .dialogues import Dialogue, Run
from .findings import Findings, by_iteration

COLOURS = ("#3b76d9", "#d1491b", "#12805c", "#7a52b3")
"""The runs' colours, in order, over and over."""

SMOOTHED = 10
"""Iterations that a point of a line is the mean of."""

_MOST_POINTS = 3000
Measure = Callable[[Dialogue], float]


def draw_curves(picture: Path, runs: Sequence[Run]) -> None:
    """Draw the mean reward and the questions per episode over iterations, a line for each run."""
    figure = Figure(figsize=(11, 4), layout="constrained")
    rewards, questions = figure.subplots(1, 2)
    for run, colour in zip(runs, cycle(COLOURS), strict=False):
        _curve(rewards, run, colour, lambda dialogue: dialogue.reward, "reward")
        _curve(questions, run, colour, lambda dialogue: dialogue.questions.asked, "questions")
    rewards.set_title("reward: value over the best value")
    questions.set_title("questions per episode")
    for axes in (rewards, questions):
        axes.set_xlabel("iteration")
        axes.grid(alpha=0.3)
    rewards.legend(frameon=False, loc="lower right")
    figure.savefig(picture, dpi=110)


def draw_scatter(picture: Path, runs: Sequence[Run], findings: Sequence[Findings]) -> None:
    """Draw the reward of each dialogue against its questions, a panel for each run."""
    figure = Figure(figsize=(5.5 * len(runs), 4), layout="constrained")
    panels = figure.subplots(1, len(runs), squeeze=False, sharey=True)[0]
    for axes, run, found in zip(panels, runs, findings, strict=True):
        _scatter(axes, run)
        axes.set_title(f"{run.label}: r = {found.overall:.2f}, within games {found.within:.2f}")
        axes.set_xlabel("questions in the episode")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("reward")
    panels[0].legend(frameon=False, loc="lower right")
    figure.savefig(picture, dpi=110)


def _curve(axes: Axes, run: Run, colour: str, measure: Measure, held_out: str) -> None:
    played = by_iteration(run.dialogues)
    means = [fmean(map(measure, dialogues)) for dialogues in played.values()]
    smooth = [fmean(means[max(0, n - SMOOTHED) : n]) for n in range(1, len(means) + 1)]
    axes.plot(list(played), means, color=colour, alpha=0.2, linewidth=0.8)
    axes.plot(list(played), smooth, color=colour, label=f"{run.label}, training")
    points = sorted(run.held_out[held_out].items())
    if points:
        axes.plot(*zip(*points, strict=True), "o", color=colour, label=f"{run.label}, held out")


def _scatter(axes: Axes, run: Run) -> None:
    rng = Random(0)
    shown = rng.sample(run.dialogues, min(len(run.dialogues), _MOST_POINTS))
    iterations = [dialogue.iteration for dialogue in shown]
    points = axes.scatter(
        [dialogue.questions.asked + rng.uniform(-0.3, 0.3) for dialogue in shown],
        [dialogue.reward for dialogue in shown],
        c=iterations,
        cmap="viridis",
        s=6,
        alpha=0.4,
    )
    rewards: dict[int, list[float]] = defaultdict(list)
    for dialogue in run.dialogues:
        rewards[dialogue.questions.asked].append(dialogue.reward)
    means = {asked: fmean(some) for asked, some in sorted(rewards.items()) if len(some) >= 20}
    axes.plot(list(means), list(means.values()), "o-", color="#d1491b", label="mean")
    axes.figure.colorbar(points, ax=axes, label="iteration")
