"""The short HTML page about one run or several."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .dialogues import Dialogue, Run
from .findings import WINDOW, Findings

CERTAIN = 3.0
"""Standard errors from which a change counts as one."""

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse } td, th { padding: .2rem .9rem; text-align: right }
th:first-child, td:first-child { text-align: left } tr + tr { border-top: 1px solid #e6eaee }
img { max-width: 100% } pre { background: #f5f7f9; padding: .8rem; overflow-x: auto }
.columns { display: flex; gap: 1rem; flex-wrap: wrap } .columns > * { flex: 1; min-width: 20rem }
"""
_ROWS = (
    ("reward", "reward"),
    ("questions per episode", "questions"),
    ("... about exactly one pair", "pairs"),
    ("question marks", "marks"),
    ("question words", "words"),
    ("score-seeking phrases", "seeking"),
    ("turns of the model", "turns"),
)


def page(runs: Sequence[Run], findings: Sequence[Findings]) -> str:
    """Write the page; its pictures are `curves.png` and `scatter.png` beside it."""
    parts = [
        "<!doctype html><meta charset='utf-8'><title>Does it learn to ask?</title>",
        f"<style>{_STYLE}</style><h1>Does it learn to ask?</h1>",
        *(f"<p>{escape(verdict(*pair))}</p>" for pair in zip(runs, findings, strict=True)),
        "<img src='curves.png' alt='reward and questions per episode over iterations'>",
        _table(runs, findings),
        "<h2>Questions and reward</h2>",
        "<img src='scatter.png' alt='reward of each episode against its questions'>",
        "<p>The correlation within games compares dialogues about one board that were played with "
        "the same weights; the other one also holds what training changed besides.</p>",
        "<h2>Dialogues</h2>",
        *map(_dialogues, runs),
    ]
    return "\n".join(parts) + "\n"


def verdict(run: Run, found: Findings) -> str:
    """What a run says about the hypothesis, in a sentence."""
    first, last = found.first, found.last
    if abs(found.deviations) < CERTAIN:
        change = "does not change what it asks beyond the noise"
    else:
        change = "learns to ask more" if found.grown > 0 else "learns to ask less"
    return (
        f"On {run.label} the model {change}: {first.questions:.2f} questions an episode over the "
        f"first {WINDOW} iterations, {last.questions:.2f} over the last {WINDOW} "
        f"({found.deviations:+.1f} standard errors), while the reward goes from "
        f"{first.reward:.3f} to {last.reward:.3f}."
    )


def _table(runs: Sequence[Run], findings: Sequence[Findings]) -> str:
    heads = "".join(f"<th>{run.label}, first</th><th>{run.label}, last</th>" for run in runs)
    rows = [f"<tr><th>mean of {WINDOW} iterations</th>{heads}</tr>"]
    for label, name in _ROWS:
        values = (getattr(p, name) for found in findings for p in (found.first, found.last))
        cells = "".join(f"<td>{value:.3f}</td>" for value in values)
        rows.append(f"<tr><td>{label}</td>{cells}</tr>")
    return f"<table>{''.join(rows)}</table>"


def _dialogues(run: Run) -> str:
    """A dialogue of median reward from the beginning, and one from the end."""
    last = max(dialogue.iteration for dialogue in run.dialogues)
    boxes = []
    for when in (run.dialogues[0].iteration, last):
        played = sorted(
            (dialogue for dialogue in run.dialogues if dialogue.iteration == when),
            key=lambda dialogue: dialogue.reward,
        )
        boxes.append(f"<div>{_dialogue(run, played[len(played) // 2])}</div>")
    return f"<div class='columns'>{''.join(boxes)}</div>"


def _dialogue(run: Run, dialogue: Dialogue) -> str:
    who = {"model": "model", "environment": "partner"}
    lines = "\n".join(f"{who.get(name, name):8} {text}" for name, text in dialogue.lines)
    title = f"{run.label}, iteration {dialogue.iteration}, reward {dialogue.reward:.2f}"
    return f"<h3>{escape(title)}</h3><pre>{escape(lines)}</pre>"
