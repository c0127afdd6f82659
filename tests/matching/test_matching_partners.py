"""The scripted partner keeps the shy rules exactly; the other one asks a real HTTP server."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import pytest

from examples.matching.asker import write_proposal
from examples.matching.assignment import best_assignment, value_of
from examples.matching.board import View
from examples.matching.drawing import BoardRules, draw_board
from examples.matching.environment import MatchingEnvironment
from examples.matching.generate import SMALL, game_row
from examples.matching.messages import Said, Tag
from examples.matching.prompts import list_scores
from examples.matching.rewards import partner_cost
from examples.matching.scripted_partner import VAGUE, ScriptedShyPartner
from retrain.errors import ConfigError, EnvironmentFailure
from retrain.types import Action, Task

pytest.importorskip("aiohttp", reason="needs aiohttp: pip install 'retrain[http]'")

from scoring_server import ScoringServer, Serve, chats, says

BOARD = draw_board(Random(0), BoardRules(hardness=0))
VIEW = BOARD.view(1)
NAMES = BOARD.names


async def shy(view: View = VIEW, **settings: float) -> ScriptedShyPartner:
    partner = ScriptedShyPartner(**settings)
    await partner.begin(view, 0)
    return partner


async def test_a_direct_question_about_one_pair_gets_that_number_as_the_partner_sees_it() -> None:
    partner = await shy()
    for reviewer, paper in itertools.product(range(8), range(8)):
        question = f"What do you have for {NAMES.papers[paper]} with {NAMES.reviewer(reviewer)}?"
        score = VIEW.scores[reviewer][paper]
        answer = await partner.answer(Said(Tag.MESSAGE, question))
        about = f"[message] {NAMES.reviewer(reviewer)} on {NAMES.paper(paper)}: "
        assert answer == about + ("I see no score" if score is None else str(score))


@pytest.mark.parametrize(
    "text",
    [
        "Hello!",
        "Which scores do you have?",
        "Who is best for BLEU?",
        "What about Ava?",
        "Ava on BLEU and Daniel on GLUE?",
        "Ava on BLEU is 5.",
        "Tell me everything about BLEU, GLUE and Ava.",
    ],
)
async def test_everything_else_is_answered_vaguely_and_without_a_number(text: str) -> None:
    partner = await shy()
    answers = {await partner.answer(Said(Tag.MESSAGE, text)) for _ in range(20)}
    assert answers == {f"[message] {vague}" for vague in VAGUE}


async def test_the_same_seed_is_as_vague() -> None:
    partners = [await shy(), await shy()]
    said = [[await p.answer(Said(Tag.MESSAGE, "Well?")) for _ in range(9)] for p in partners]
    assert said[0] == said[1]


async def test_a_proposal_is_judged_by_what_the_partner_sees() -> None:
    view = draw_board(Random(2), SMALL).view(1)
    guessed = view.guessed()
    best = value_of(guessed, best_assignment(guessed))
    verdicts = set()
    for papers in itertools.permutations(range(3)):
        answer = await (await shy(view)).answer(
            Said(Tag.PROPOSE, write_proposal(papers, view.names))
        )
        good_enough = value_of(guessed, papers) >= 0.75 * best
        assert answer == ("[accept]" if good_enough else "[reject]")
        verdicts.add(answer)
    assert verdicts == {"[accept]", "[reject]"}


async def test_patience_ends_with_any_proposal_accepted() -> None:
    view = draw_board(Random(2), SMALL).view(1)
    worst = best_assignment([[-score for score in row] for row in view.guessed()])
    partner = await shy(view, demand=1.0, patience=0.25)
    said = Said(Tag.PROPOSE, write_proposal(worst, view.names))
    answers = [await partner.answer(said) for _ in range(5)]
    assert answers[0] == "[reject]" and answers[-1] == "[accept]"


def game_with(server: ScoringServer, **settings: Any) -> MatchingEnvironment:
    config = {"base_url": f"{server.url}/v1", "model": "m", "backoff": 0.01, **settings}
    return MatchingEnvironment(partner="endpoint", partner_config=config)


async def begun(server: ScoringServer, **settings: Any) -> MatchingEnvironment:
    environment = game_with(server, **settings)
    board = draw_board(Random(1), SMALL)
    row = game_row(0, board, "scores")
    await environment.reset(Task("t", row["prompt"], metadata=row), 0)
    return environment


async def test_the_model_behind_the_endpoint_reads_its_rules_and_its_own_scores(
    serve: Serve, monkeypatch: Any
) -> None:
    monkeypatch.setenv("PARTNER_KEY", "k-7")
    server = serve(chats("[message] Ava on BLEU is 4", "[accept]"))
    environment = await begun(server, api_key_env="PARTNER_KEY", temperature=0.2)
    first = await environment.step(Action("[message] Ava on BLEU?"))
    last = await environment.step(Action("[propose] Ava: BLEU, Daniel: Electra, Sofia: GloVe"))
    assert first.observation.messages[0].content == "[message] Ava on BLEU is 4"
    assert last.terminated and last.reward > 0
    (_, headers, _), (path, _, body) = server.seen
    assert path == "/v1/chat/completions" and headers["Authorization"] == "Bearer k-7"
    assert (body["model"], body["temperature"]) == ("m", 0.2)
    assert [message["role"] for message in body["messages"]] == [
        "system",
        "user",
        "assistant",
        "user",
    ]
    system = body["messages"][0]["content"]
    board = environment.game.board
    for text in ("Volunteer nothing", "sees counts 5.", list_scores(board.view(1))):
        assert text in system
    assert list_scores(board.view(0)) not in system


async def test_a_turn_that_breaks_a_rule_is_sent_back(serve: Serve) -> None:
    server = serve(chats("Hm.", "[message] It depends."))
    environment = await begun(server)
    result = await environment.step(Action("[message] Well?"))
    assert result.observation.messages[0].content == "[message] It depends."
    assert server.bodies()[1]["messages"][-1]["content"].startswith("[error] begin your turn")


async def test_tokens_and_cost_are_counted_for_the_game(serve: Serve) -> None:
    server = serve(chats("[message] Hm.", usage=(2000, 500)))
    environment = await begun(server, price_in=2.0, price_out=8.0)
    await environment.step(Action("[message] Well?"))
    result = await environment.step(Action("[message] Well?"))
    assert result.info["partner_tokens_in"] == 4000
    assert result.info["partner_cost"] == pytest.approx(2 * (0.004 + 0.004))
    again = await begun(server, price_in=2.0, price_out=8.0)
    result = await again.step(Action("[message] Well?"))
    assert result.info["partner_cost"] == pytest.approx(0.008), "each game counts its own"
    assert partner_cost.__doc__


async def test_the_budget_is_one_for_all_games(serve: Serve) -> None:
    server = serve(chats("[message] Hm.", usage=(100, 10)))
    games = [await begun(server, budget_tokens=200) for _ in range(3)]
    for environment in games[:2]:
        await environment.step(Action("[message] Well?"))
    with pytest.raises(EnvironmentFailure, match="the budget of 200 tokens is spent"):
        await games[2].step(Action("[message] Well?"))
    assert len(server.seen) == 2


async def test_a_passing_error_is_tried_again_and_another_fails_the_episode(serve: Serve) -> None:
    server = serve(chats("[message] Hm."))
    server.next.append(says("busy", 503))
    environment = await begun(server)
    result = await environment.step(Action("[message] Well?"))
    assert result.observation.messages[0].content == "[message] Hm."
    server.next.append(says("no such key", 401))
    with pytest.raises(EnvironmentFailure, match=r"the partner gave no turn: .*HTTP 401"):
        await environment.step(Action("[message] Well?"))


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"model": "m"}, r"partner_config\.base_url"),
        ({"base_url": "http://x/v1", "model": "m", "modle": 1}, r"partner_config\.modle"),
        ({"base_url": "ftp://x", "model": "m"}, "is no URL"),
        ({"base_url": "http://x/v1", "model": "m", "api_key_env": "NO_SUCH_KEY_7"}, "not set"),
        ({"base_url": "http://x/v1", "model": "m", "budget": 1}, "needs price_in and price_out"),
        ({"base_url": "http://x/v1", "model": "m", "retries": -1}, "retries"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        MatchingEnvironment(partner="endpoint", partner_config=settings)
