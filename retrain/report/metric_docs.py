"""Render docs/metrics.md from the table of names: `python -m retrain.report.metric_docs [FILE]`."""

from __future__ import annotations

from collections.abc import Iterable

from retrain.report.metric_names import METRICS, Metric
from retrain.written_pages import write_page

_INTRODUCTION = """\
# Metrics

A run appends its metrics to `metrics.jsonl`: one JSON object a line, with `iteration` (0 is before
training), `time` (seconds since the epoch) and numbers by name. An iteration has several lines:
what was rolled out, what was trained, what was evaluated. A number that is not finite is `null`; a
metric without a value is left out. Every backend writes the same names, and so does every
[logger](loggers.md).

This page is written by `python -m retrain.report.metric_docs`; edit the code it is read from
instead.
"""

_GROUPS = {
    "reward/": "Reward",
    "success": "Success",
    "agent/": "Agents",
    "response/": "Response",
    "rollout/": "Rollout",
    "train/": "Training",
    "eval/": "Evaluation",
}
_NOTES = {
    "Training": """\
On slime, `sft` logs no `train/entropy`, and nothing logs `train/logprob_abs_diff_current`. All
leave out what the algorithm does not have, such as `train/kl` without a KL term.
""",
    "Agents": """\
Of an environment with [several agents](several_agents.md).
""",
    "Evaluation": """\
An evaluation has the names of the reward, agent, response and rollout groups and `success` too,
with `eval/` in front.
""",
}


def render() -> str:
    """The whole page."""
    parts = [_INTRODUCTION]
    for prefix, title in _GROUPS.items():
        rows = [row for row in METRICS if row.name.startswith(prefix)]
        parts.append("\n".join(filter(None, [f"## {title}\n", _NOTES.get(title), _table(rows)])))
    return "\n".join(parts)


def _table(rows: Iterable[Metric]) -> str:
    lines = ["| Name | Means | Unit |", "| --- | --- | --- |"]
    lines += [
        f"| `{row.name}` | {row.meaning.replace('|', chr(92) + '|')} | {row.unit} |" for row in rows
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the page to the file named, or to docs/metrics.md."""
    write_page(render(), "docs/metrics.md")


if __name__ == "__main__":
    main()
