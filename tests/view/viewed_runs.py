"""Run folders to look at, written by the code that writes real ones; token i is byte i."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from byte_text import ByteRenderer, decode

from bridges.data_format import DataFormatBridge
from retrain.errors import Boundary, EpisodeError
from retrain.report.batch_metrics import batch_metrics
from retrain.report.metrics import MetricsLog
from retrain.report.run_folder import RunFolder
from retrain.report.samples import write_samples
from retrain.sample import Sample, Status
from retrain.seeds import EpisodeSeed
from retrain.types import (
    Action,
    FinishReason,
    Group,
    Segment,
    StopReason,
    Task,
    Timing,
    ToolCall,
    Trajectory,
    Turn,
)

HOSTILE = (
    "</script><script>window.stolen = 1</script><img src=x onerror='window.stolen = 1'>"
    "\x1b[31mred\x1b[0m \u202eesrever \u2066 \x00 {{7*7}} ${7*7} javascript:alert(1) \U000e0041"
)
"""What must be shown and must not do anything."""


BRIDGE = DataFormatBridge(ByteRenderer())  # type: ignore[arg-type]


def turn(said: str, reply: str = "", *, version: str = "1", **fields: Any) -> Turn:
    ids = tuple(said.encode())
    logprobs = tuple(-0.001 - (n % 7) * 0.6 for n in range(len(ids)))
    fields.setdefault("action", Action(said))
    return Turn(
        ids,
        logprobs,
        FinishReason.STOP,
        weight_version=version,
        env_ids=tuple(reply.encode()),
        **fields,
    )


def call(expression: str, reply: str) -> Turn:
    calls = (ToolCall("calculator", {"expression": expression}),)
    return turn(f"<call>{expression}", f"={reply}\n", action=Action("", "", calls))


def episode(
    *turns: Turn,
    slot: int = 0,
    group: int = 0,
    task: str = "sum-1",
    reward: float | None = 1.0,
    status: Status = Status.COMPLETED,
    prompt: str = "3+4? ",
    size: int = 4,
    **fields: Any,
) -> Trajectory:
    if status is Status.FAILED:
        fields.setdefault("error", EpisodeError(Boundary.TOOL, "call: KeyError: 'x'", "trace"))
    fields.setdefault("segments", (Segment(tuple(prompt.encode()), turns),) if turns else ())
    fields.setdefault("stop_reason", StopReason.TERMINATED)
    fields.setdefault("rewards", {} if reward is None else {"exact": reward, "format": 0.25})
    waits = [Timing("engine", n, n * 1.0, 0.8) for n in range(len(turns))]
    waits += [Timing("environment", n, n + 0.8, 0.2) for n in range(len(turns))]
    return Trajectory(
        Task(task, prompt, label="7", metadata={"level": 1}),
        EpisodeSeed(7, "train", task, 0, slot),
        status=status,
        reward=reward,
        index=group * size + slot,
        group_index=group,
        timings=tuple(waits),
        **fields,
    )


def right(slot: int, **fields: Any) -> Trajectory:
    return episode(
        call("3+4", "7"), turn("The answer is 7é", info={"success": True}), slot=slot, **fields
    )


def wrong(slot: int, **fields: Any) -> Trajectory:
    return episode(turn("no idea", info={"success": False}), slot=slot, reward=0.0, **fields)


def varied(group: int, task: str = "sum-1") -> list[Trajectory]:
    """Right, wrong, cut short and failed."""
    given: dict[str, Any] = {"group": group, "task": task}
    cut = {"status": Status.TRUNCATED, "stop_reason": StopReason.MAX_TURNS}
    return [
        right(0, **given),
        wrong(1, **given),
        episode(turn("so long"), slot=2, reward=0.5, **cut, **given),
        episode(slot=3, reward=None, status=Status.FAILED, stop_reason=StopReason.FAILED, **given),
    ]


def same(group: int, task: str = "sum-2") -> list[Trajectory]:
    """A group from which nothing is learned."""
    return [right(slot, group=group, task=task) for slot in range(4)]


def samples_of(trajectories: Sequence[Trajectory], advantage: float = 0.5) -> list[Sample]:
    return [sample for t in trajectories for sample in BRIDGE.to_samples(t, advantage)]


def write_iteration(
    folder: RunFolder | Path, iteration: int, *groups: Sequence[Trajectory], split: str = "train"
) -> None:
    """Samples and metrics of one iteration, as a backend leaves them."""
    path = folder.path if isinstance(folder, RunFolder) else folder
    (path / "samples").mkdir(parents=True, exist_ok=True)
    name = f"{iteration}.jsonl" if split == "train" else f"{split}-{iteration}.jsonl"
    rows = [sample for group in groups for sample in samples_of(group)]
    write_samples(path / "samples" / name, rows, decode=decode)
    played = [Group(n, group[0].task, 0, tuple(group)) for n, group in enumerate(groups)]
    prefix = "" if split == "train" else f"{split}/"
    with MetricsLog(path / "metrics.jsonl") as log:
        log.write(iteration, batch_metrics(played, seconds=2.0, prefix=prefix))


def write_run(path: Path, iterations: int = 3) -> Path:
    """A small run: two groups an iteration, and an evaluation before them."""
    write_iteration(path, 0, [right(0)], [wrong(0, group=1, task="sum-9")], split="eval")
    for iteration in range(1, iterations + 1):
        number = 2 * (iteration - 1)
        write_iteration(path, iteration, varied(number), same(number + 1))
    return path
