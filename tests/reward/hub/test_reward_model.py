"""A reward model scores conversations as transformers itself does, in batches of any kind."""

from __future__ import annotations

import gc
import json
import math
import threading
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from reward.reward_episodes import make_episode  # noqa: E402

from retrain.cli.main import app  # noqa: E402
from retrain.config.rewards import RewardSetupConfig  # noqa: E402
from retrain.errors import ConfigError  # noqa: E402
from retrain.reward.hub.reward_model import ModelReward, reward_model  # noqa: E402
from retrain.reward.hub.reward_model_conversations import episode_chat  # noqa: E402
from retrain.reward.setup import build_reward_calculator  # noqa: E402
from retrain.types import Message, Segment, Trajectory, Witness  # noqa: E402

TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}"
    "{% endif %}<|{{ m.role }}|>{{ m.content }}</s>{% endfor %}"
)
"""It ends on `</s>`, which many decoders also pad with."""


def save_tokenizer(folder: Path, **options: Any) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    ids = {letter: place for place, letter in enumerate(["</s>", "<pad>", *letters])}
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="</s>", **options
    )
    fast.save_pretrained(folder)
    return fast


def save_decoder(folder: Path, *, labels: int = 1, pad: int | None = None, **options: Any) -> Path:
    torch.manual_seed(7)
    config = transformers.LlamaConfig(
        vocab_size=300,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        num_labels=labels,
        pad_token_id=pad,
        bos_token_id=None,
        eos_token_id=0,
        initializer_range=0.5,
    )
    transformers.LlamaForSequenceClassification(config).save_pretrained(folder)
    save_tokenizer(folder, **{"chat_template": TEMPLATE, **options})
    return folder


def save_encoder(folder: Path) -> Path:
    torch.manual_seed(8)
    config = transformers.BertConfig(
        vocab_size=300,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=128,
        num_labels=1,
        initializer_range=0.5,
    )
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    save_tokenizer(
        folder,
        pad_token="<pad>",
        padding_side="left",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )
    return folder


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_decoder(tmp_path_factory.mktemp("decoder"))


EPISODES = [make_episode(text) for text in ("ab", "a longer answer", "x" * 60, "", "\u00e9", "ab")]


def scores_of(folder: Path, episodes: list[Trajectory] = EPISODES, **params: Any) -> list[float]:
    reward = reward_model(str(folder), **params)
    assert isinstance(reward, ModelReward)
    try:
        return reward(episodes)
    finally:
        reward.close()


def direct_scores(folder: Path, **options: Any) -> list[Any]:
    """What transformers gives when it is called by hand, one conversation at a time."""
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    scores = []
    for episode in EPISODES:
        answer = episode.turns[-1].action.text
        if tokenizer.chat_template:
            chat = [
                {"role": "user", "content": "Go."},
                {"role": "assistant", "content": answer},
            ]
            encoded = tokenizer.apply_chat_template(chat, return_tensors="pt", return_dict=True)
        else:
            encoded = tokenizer("Go.", answer, return_tensors="pt")
        with torch.inference_mode():
            scores.append(model.eval()(**encoded, **options).logits[0])
    return scores


def close_to(expected: list[float]) -> Any:
    return pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("pad", "options"),
    [
        (None, {}),
        (None, {"pad_token": "</s>", "padding_side": "left"}),
        (1, {"pad_token": "<pad>", "padding_side": "left"}),
        (1, {"pad_token": "<pad>", "padding_side": "right"}),
        (0, {"pad_token": "</s>"}),
    ],
)
def test_a_decoder_gives_what_transformers_gives_whatever_pads(
    tmp_path: Path, pad: int | None, options: dict[str, Any]
) -> None:
    folder = save_decoder(tmp_path, pad=pad, **options)
    expected = [float(row[0]) for row in direct_scores(folder)]
    assert max(expected) - min(expected) > 0.01
    assert scores_of(folder, batch_tokens=120) == close_to(expected)


def test_an_encoder_without_a_chat_template_reads_a_pair_of_texts(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path)
    expected = [float(row[0]) for row in direct_scores(folder)]
    assert scores_of(folder) == close_to(expected)


def test_the_order_and_the_company_of_episodes_change_nothing(decoder: Path) -> None:
    together = scores_of(decoder)
    assert scores_of(decoder, EPISODES[::-1]) == close_to(together[::-1])
    assert scores_of(decoder, batch_tokens=1) == close_to(together)


def test_one_of_several_labels_is_chosen_by_its_number(tmp_path: Path) -> None:
    folder = save_decoder(tmp_path, labels=3)
    expected = [float(row[2]) for row in direct_scores(folder)]
    assert scores_of(folder, index=2) == close_to(expected)
    squashed = [1 / (1 + math.exp(-score)) for score in expected]
    assert scores_of(folder, index=2, sigmoid=True) == close_to(squashed)
    for index in (None, 3, -1):
        with pytest.raises(ConfigError, match=r"has 3 labels; give the number"):
            scores_of(folder, index=index)


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_long_conversation_is_cut_on_the_side_that_was_asked_for(
    decoder: Path, side: Any
) -> None:
    reward = reward_model(str(decoder), max_length=8, truncation=side)
    assert isinstance(reward, ModelReward)
    first, second = make_episode("a" * 40), make_episode("b" * 20 + "a" * 20)
    third = make_episode("a" * 30)
    one, other, another = reward([first, second, third])
    assert one == pytest.approx(other, abs=1e-6)  # both show `<|user|>`, or seven a and the end
    assert one == pytest.approx(another, abs=1e-6)
    assert reward.measured()["truncated"] == 3
    assert len({round(score, 6) for score in scores_of(decoder, [first, second, third])}) == 3
    reward.close()


def test_what_is_too_long_for_the_model_is_cut_and_counted(decoder: Path) -> None:
    reward = reward_model(str(decoder))
    assert isinstance(reward, ModelReward)
    (score,) = reward([make_episode("word " * 40_000)])
    assert math.isfinite(score)
    counted = reward.measured()
    assert (counted["truncated"], counted["tokens"]) == (1, 256)
    assert reward.measured()["truncated"] == 0
    reward.close()


def test_the_whole_conversation_of_an_episode_is_read() -> None:
    episode = make_episode("one", "two", "three")
    prompt = (Message("user", "first"),)
    replies = ((Message("tool", "reply"),), (Message("user", "rewritten"),), ())
    witnessed = replace(episode, witness=Witness(None, prompt, replies))
    contents = [message["content"] for message in episode_chat(witnessed)]
    assert contents == ["first", "one", "reply", "two", "rewritten", "three"]
    turns = episode.turns
    parted = replace(witnessed, segments=(Segment((1,), turns[:2]), Segment((1,), turns[2:])))
    assert [message["content"] for message in episode_chat(parted)] == ["rewritten", "three"]
    assert [message["content"] for message in episode_chat(episode)] == ["Go.", "three"]


def test_a_template_that_refuses_a_conversation_leaves_the_others_scored(decoder: Path) -> None:
    refused = make_episode("ab")
    refused = replace(refused, task=replace(refused.task, prompt=(Message("system", "Be."),)))
    scores = scores_of(decoder, [EPISODES[0], refused])
    assert math.isnan(scores[1])
    assert scores[:1] == close_to(scores_of(decoder, EPISODES[:1]))


async def test_a_configuration_scores_whole_batches_and_counts_a_failure(decoder: Path) -> None:
    setup = RewardSetupConfig.model_validate(
        {
            "environment_reward_weight": 0,
            "rollout_reward_configs": {"reward_model": {"params": {"model": str(decoder)}}},
        }
    )
    calculator = build_reward_calculator(setup)
    refused = replace(
        EPISODES[0], task=replace(EPISODES[0].task, prompt=(Message("system", "Be."),))
    )
    scored = await calculator.score([*EPISODES, refused])
    assert [one.total for one in scored[:-1]] == close_to(scores_of(decoder))
    assert scored[-1].dropped
    counted = calculator.measured()
    assert counted["reward/reward_model/batches"] == 1
    assert "batches 1, conversations 6" in calculator.summaries()[0]
    calculator.close()


def test_closing_frees_the_model_and_a_later_call_loads_it_again(decoder: Path) -> None:
    reward = reward_model(str(decoder))
    assert isinstance(reward, ModelReward)
    before = reward(EPISODES)
    model = weakref.ref(reward._classifier._model)  # type: ignore[union-attr]
    reward.close()
    gc.collect()
    assert model() is None
    assert reward(EPISODES) == close_to(before)
    reward.close()


def test_many_threads_load_one_model(decoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from retrain.reward.hub import reward_model_classifier

    loads = []
    load = reward_model_classifier.load_classifier
    monkeypatch.setattr(
        reward_model_classifier,
        "load_classifier",
        lambda *args: loads.append(args) or load(*args),
    )
    reward = reward_model(str(decoder))
    results: list[list[float]] = []
    threads = [threading.Thread(target=lambda: results.append(reward(EPISODES))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loads) == 1
    assert all(result == close_to(results[0]) for result in results)


def test_a_model_without_a_trained_head_is_refused(tmp_path: Path, decoder: Path) -> None:
    model = transformers.AutoModelForSequenceClassification.from_pretrained(decoder)
    transformers.LlamaForCausalLM(model.config).save_pretrained(tmp_path)
    save_tokenizer(tmp_path, chat_template=TEMPLATE)
    with pytest.raises(ConfigError, match=r"no weights for score\.weight; it is no reward model"):
        scores_of(tmp_path)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"model": "no/such/folder"}, "cannot be loaded"),
        ({"model": "x", "max_length": 0}, "max_length: 0, expected at least 1"),
        ({"model": "x", "batch_tokens": -1}, "batch_tokens: -1, expected at least 1"),
    ],
)
def test_what_cannot_be_is_one_clear_error(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        scores_of(params.pop("model"), **params)


def test_a_file_of_responses_is_scored_on_the_command_line(decoder: Path, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    file = tmp_path / "answers.jsonl"
    rows = [
        {"prompt": "Go.", "response": "<think>hm</think>ab"},
        {"prompt": [{"role": "user", "content": "Go."}], "response": "a longer answer"},
        {"response": "no prompt"},
    ]
    file.write_text("\n".join(map(json.dumps, rows)))
    command = ["reward", str(file), "--reward", "reward_model", "--param", f"model={decoder}"]
    result = CliRunner().invoke(app, [*command, "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    found = [row["reward"] for row in document["rows"]]
    assert found[:2] == close_to(scores_of(decoder, EPISODES[:2]))
    assert found[2] is None
    assert "a prompt is missing" in document["rows"][2]["failure"]
