"""The analysis of a run: what is counted, what is drawn, and what is said about it."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'retrain[matching]'")

from examples.matching.analyze import main
from examples.matching.dialogues import read_run
from examples.matching.findings import findings_of, pearson
from examples.matching.page import verdict

CONFIG = Path(__file__).parents[2] / "examples" / "matching" / "config.yaml"
ASK = "[message] Ava on BLEU?"
START, END = "<|im_start|>", "<|im_end|>"


def row(group: int, asked: int, reward: float, **more: Any) -> dict[str, Any]:
    """A line of samples/ITERATION.jsonl, as far as the analysis reads it."""
    turns = [{"from": "prompt", "text": f"{START}user\nAva on BLEU? Who?{END}"}]
    for _ in range(asked):
        reply = f"\n{START}user\n[message] What?{END}\n{START}assistant\n"
        turns += [{"from": "model", "text": ASK + END}, {"from": "environment", "text": reply}]
    turns.append({"from": "model", "text": f"[propose] Ava: BLEU?{END}"})
    base = {"group_index": group, "rewards": {"environment": reward}, "remove_sample": False}
    return {**base, "turns": turns, **more}


def write_run(folder: Path, rounds: Sequence[Sequence[dict[str, Any]]], backend: str) -> Path:
    """A run folder with one line of `rounds` for each iteration, from 1."""
    stage = folder / "stages" / "grpo"
    (stage / "samples").mkdir(parents=True)
    for iteration, rows in enumerate(rounds, start=1):
        text = "".join(json.dumps(one) + "\n" for one in rows)
        (stage / "samples" / f"{iteration}.jsonl").write_text(text)
    (stage / "samples" / "eval-0.jsonl").write_text(json.dumps(row(0, 9, 0.0)) + "\n")
    held_out = {"eval/reward/environment": 0.5, "eval/reward/questions": 2.0}
    metrics = {"iteration": 0, "time": 0.0, **held_out}
    (stage / "metrics.jsonl").write_text(json.dumps(metrics) + "\n")
    shutil.copy(CONFIG, stage / "config.yaml")
    text = CONFIG.read_text(encoding="utf-8").replace("backend: trl ", f"backend: {backend} ")
    (stage / "config.yaml").write_text(text, encoding="utf-8")
    return folder


def rising(backend: str, folder: Path) -> Path:
    """Twenty iterations; in the last ten each dialogue asks two questions more."""
    rounds = [
        [row(n, 1 + 2 * (n >= 10) + one % 2, 0.4 + 0.02 * n + 0.1 * (one % 2)) for one in range(4)]
        for n in range(20)
    ]
    rounds[0].append(row(0, 50, 0.0, remove_sample=True))
    return write_run(folder, rounds, backend)


def test_the_questions_of_the_model_are_counted_and_nobody_else_s(tmp_path: Path) -> None:
    run = read_run(rising("trl", tmp_path / "run"))
    assert run.label == "trl"
    assert len(run.dialogues) == 80, "masked samples and evaluations are left out"
    first = run.dialogues[1]
    assert (first.questions.asked, first.questions.pairs, first.turns) == (2, 2, 3)
    assert first.lines[:2] == (("model", ASK), ("environment", "[message] What?"))
    assert run.held_out == {"reward": {0: 0.5}, "questions": {0: 2.0}}


def test_growth_and_correlations_are_those_of_the_numbers(tmp_path: Path) -> None:
    found = findings_of(read_run(rising("trl", tmp_path / "run")))
    assert (found.first.questions, found.last.questions) == (1.5, 3.5)
    assert found.grown == 2.0
    assert found.first.reward == pytest.approx(0.54)
    assert found.within == pytest.approx(1.0), "in each game who asks more earns more"
    assert 0 < found.overall < 1
    assert math.isnan(pearson([(1, 2), (1, 3)]))


def test_pictures_and_a_page_are_written(tmp_path: Path, capsys: Any) -> None:
    runs = [rising(name, tmp_path / name) for name in ("trl", "slime")]
    main([*map(str, runs), "--output", str(tmp_path / "out")])
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "curves.png",
        "scatter.png",
        "index.html",
    }
    for name in ("curves.png", "scatter.png"):
        assert (tmp_path / "out" / name).read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "out" / "index.html").read_text()
    assert "<th>slime, last</th>" in page
    assert "model    [message] Ava on BLEU?" in page
    said = capsys.readouterr().out
    assert "On slime the model learns to ask more" in said and "1.50 questions" in said


def test_the_verdict_follows_the_growth_against_its_noise(tmp_path: Path) -> None:
    def noisy(change: int) -> str:
        rounds = [
            [row(n, 5 + n % 3 + change * (n >= 10), 0.5), row(n, 5 + n % 3 + change * (n >= 10), 1)]
            for n in range(20)
        ]
        run = read_run(write_run(tmp_path / f"{change}", rounds, "trl"))
        return verdict(run, findings_of(run))

    assert "learns to ask more" in noisy(3)
    assert "learns to ask less" in noisy(-3)
    assert "does not change what it asks beyond the noise" in noisy(0)


def test_a_folder_without_dialogues_is_bad_input(tmp_path: Path, capsys: Any) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([str(tmp_path)])
    assert stopped.value.code == 2
    assert "is no run folder" in capsys.readouterr().err
