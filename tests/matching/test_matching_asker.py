"""The player that is imitated: what it thinks, says and asks, and the run that imitates it."""

from __future__ import annotations

import itertools
from pathlib import Path
from random import Random

import pytest

from examples.matching.asker import Asker, think, write_proposal
from examples.matching.drawing import draw_board
from examples.matching.generate import SMALL, draw_games
from examples.matching.messages import Said, Tag, read_said
from examples.matching.names import PAPERS, REVIEWERS, Names
from examples.matching.prepare import MAX_TURNS, PARTNER, demonstrations, text_of
from retrain.config import load_config

CONFIG = load_config(Path(__file__).parents[2] / "examples" / "matching" / "config.yaml")
THREE = Names(REVIEWERS[:3], PAPERS[:3])

THOUGHTS = """\
Ava: BLEU 1, Electra 2, GloVe 9
Daniel: BLEU 5, Electra 5, GloVe 6
Sofia: BLEU 0, Electra 8, GloVe 5
Ava: BLEU, Daniel: Electra, Sofia: GloVe = 11
Ava: BLEU, Daniel: GloVe, Sofia: Electra = 15
Ava: Electra, Daniel: BLEU, Sofia: GloVe = 12
Ava: Electra, Daniel: GloVe, Sofia: BLEU = 08
Ava: GloVe, Daniel: BLEU, Sofia: Electra = 22
Ava: GloVe, Daniel: Electra, Sofia: BLEU = 14
best 22
[propose] Ava: GloVe, Daniel: BLEU, Sofia: Electra"""


def test_its_thoughts_list_what_it_knows_and_every_sum_and_the_partner_hears_none() -> None:
    thought = think([[1, 2, 9], [5, 5, 6], [0, 8, 5]], THREE)
    assert thought == THOUGHTS
    assert read_said(thought) == Said(Tag.PROPOSE, write_proposal((2, 0, 1), THREE))


def test_what_it_was_told_stands_in_its_thoughts_and_decides() -> None:
    view = draw_board(Random(5), SMALL).view(0)
    reviewer, paper = next(
        (r, p) for r, p in itertools.product(range(3), repeat=2) if view.scores[r][p] is None
    )
    about = f"{THREE.reviewer(reviewer)} on {THREE.paper(paper)}"
    player = Asker(view, 1, SMALL.unseen, thinks=True)
    assert player.turn(None) == f"[message] {about}?"
    thought = player.turn(f"[message] {about}: 40")
    assert f"{THREE.paper(paper)} 40" in thought.splitlines()[reviewer]
    pair = f"{THREE.reviewer(reviewer)}: {THREE.paper(paper)}"
    assert pair in read_said(thought).text


def test_demonstrations_are_games_of_the_configuration() -> None:
    assert CONFIG.environment is not None
    settings = CONFIG.environment.env_specific_config
    assert settings == {
        "partner": "scripted",
        "partner_config": PARTNER,
        "max_turns": MAX_TURNS,
    }


async def test_what_is_demonstrated_fits_into_a_turn_of_the_run(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="needs transformers: pip install 'retrain[engine]'")
    from transformers import AutoTokenizer

    from retrain.small_model import make_small_model

    shown = await demonstrations(draw_games(300, 3, SMALL), 0)
    make_small_model(tmp_path, text_of(shown))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    hyper = CONFIG.algorithm.hyperparameters
    for row in shown:
        turns = [m["content"] for m in row["messages"] if m["role"] == "assistant"]
        counts = [len(tokenizer.encode(f"{turn}<|im_end|>")) for turn in turns]
        assert max(counts) <= hyper.max_tokens_per_turn
        dialogue = tokenizer.apply_chat_template(row["messages"][1:], tokenize=False)
        assert len(tokenizer.encode(dialogue)) <= hyper.max_response_len
