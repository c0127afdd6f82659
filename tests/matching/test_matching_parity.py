"""Ten recorded games against the scripted partner are the same rows on both backends."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

pytest.importorskip("trl", reason="needs TRL: pip install 'retrain[trl]'")

from typer.testing import CliRunner

from examples.matching.asker import Asker
from examples.matching.generate import SMALL, draw_games, game_row, write_rows
from retrain.cli.main import app
from retrain.config import load_config
from retrain.engine.scripted import ScriptedEngine
from retrain.rollout.tape import RecordingEngine, Tape, recording_tape
from retrain.rollout.tape.header import make_header

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples" / "matching"
BOARDS = tuple(draw_games(5, 77, SMALL))


@pytest.fixture(scope="module")
def workplace(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's configuration with five games and a tiny model."""
    folder = tmp_path_factory.mktemp("matching")
    rows = [game_row(number, board, "scores") for number, board in enumerate(BOARDS)]
    write_rows(folder / "games.jsonl", rows)
    config = yaml.safe_load((EXAMPLE / "config.yaml").read_text(encoding="utf-8"))
    config["model"]["name_or_path"] = str(tiny_model)
    config["prompt_source"]["source_config"]["path"] = "games.jsonl"
    config["output_dir"] = str(folder / "run")
    del config["evaluation"], config["stages"]
    hyper = config["algorithm"]["hyperparameters"]
    hyper |= {"rollout_batch_size": 5, "n_samples_per_prompt": 2, "max_tokens_per_turn": 128}
    hyper |= {"max_response_len": 2000, "num_iterations": 1, "eval_interval": None}
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    return folder


class Askers:
    """Plays every session as an `Asker` that now and then forgets its tag."""

    def __init__(self, decode: Any) -> None:
        self._decode = decode
        self._players: dict[str, tuple[Asker, Random]] = {}

    def __call__(self, input_ids: tuple[int, ...], params: Any, session: str, seed: int) -> str:
        said = re.findall(r"user\n(.*?)<\|im_end\|>", self._decode(input_ids), re.S)
        if session not in self._players:
            (board,) = (one for one in BOARDS if game_row(0, one, "scores")["prompt"] == said[0])
            rng = Random(session)
            self._players[session] = Asker(board.view(0), rng.randrange(5), 5), rng
        player, rng = self._players[session]
        if rng.random() < 0.15:
            return "let me think<|im_end|>"
        return player.turn(said[-1] if len(said) > 1 else None) + "<|im_end|>"


@pytest.fixture(scope="module")
def tape(workplace: Path) -> Path:
    from retrain.cli.rollout_playing import play
    from retrain.compose import compose, make_buffer, make_tasks
    from retrain.model_files import load_tokenizer

    config = load_config(workplace / "config.yaml")
    composition = compose(config)
    tokenizer = load_tokenizer(config)
    engine = RecordingEngine(
        ScriptedEngine(
            Askers(composition.renderer.decode),
            encode=lambda text: tokenizer.encode(text, add_special_tokens=False),
        )
    )
    requests = make_buffer(config, make_tasks(config)).draw(5)
    path = workplace / "games.tape"
    with recording_tape(path, make_header(config, "scripted")) as recorder:
        play(composition, engine, requests, 2, lambda group: recorder.add(group, engine))
    composition.close()
    return path


def test_the_ten_games_are_played_to_their_end(tape: Path) -> None:
    with Tape(tape) as opened:
        episodes = [e for recorded in opened.groups() for e in recorded.group.trajectories]
    assert len(episodes) == 10
    assert all(episode.error is None for episode in episodes)
    last = [episode.turns[-1].info for episode in episodes]
    assert sum(info["agreed"] for info in last) >= 7
    assert sum(info["errors"] for info in last) >= 1
    assert sum(turn.info["questions"] for episode in episodes for turn in episode.turns) >= 10
    for episode, info in zip(episodes, last, strict=True):
        assert episode.rewards["environment"] == info["value"] / info["best"]


def test_both_backends_train_on_the_same_rows(
    workplace: Path, tape: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RETRAIN_SLIME", raising=False)
    arguments = ["parity", str(workplace / "config.yaml"), "--tape", str(tape), "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["equal"] and document["tape"]["rows"] == 10
    backends = {entry["backend"] for entry in document["backends"]}
    assert backends >= {"slime", "trl"}
    for sample in document["samples"]:
        assert set(sample["sha256"]) == {"tape", *backends}
        assert len(set(sample["sha256"].values())) == 1


def test_replaying_the_tape_departs_nowhere(workplace: Path, tape: Path) -> None:
    arguments = ["rollout", str(workplace / "config.yaml"), "--replay", str(tape)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
