"""The same actions earn the same rewards in TRL's own environment loop and in ours.

TRL's side is the real GRPOTrainer; only the sampling is replaced, by turns that are given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import trl_style_environments as written

pytest.importorskip("trl", reason="needs TRL: pip install 'retrain[trl]'")

from real_tokenizers import qwen_tokenizer

from bridges import EnvironmentBridge, EpisodeLimits, RewardBridge
from retrain.config.rewards import RewardSetupConfig
from retrain.engine.base import SamplingParams
from retrain.engine.scripted import ScriptedEngine
from retrain.environment import make_environment_factory
from retrain.rendering import DeltaRenderer, load_renderer
from retrain.reward import build_reward_calculator
from retrain.reward.completions import completion_of, prompt_of
from retrain.rollout.sources import RowKeys, list_tasks
from retrain.seeds import EpisodeSeed
from retrain.types import Trajectory

STOP = "<|im_end|>"
HOME = "trl_style_environments"
TYPED = find_spec("transformers.utils.chat_parsing") is not None
"""Whether TRL parses with a `response_template` (transformers 5.15 and later). Its older parser
leaves arguments untyped and white space around the text; ours is the same everywhere."""
QUOTED = '"40"' if TYPED else "40"
"""An integer, as a string where TRL's parser types arguments too."""
DONE = "  done  \n" if TYPED else "done"
"""A last turn, with white space around it where TRL's parser takes it off too."""
CUT = (12, 30, 48, 56, 70, 100)
"""Budgets that end episodes within a turn, or at a reply that no longer fits."""


def call(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


ACCOUNT = [
    [call("deposit", '{"amount": 30}'), call("deposit", '{"amount": 5, "times": 4}'), "50 it is."],
    [call("deposit", '{"amount": 5000}'), call("deposit", '{"amount": 10}'), "Oh."],
    [
        call("deposit", f'{{"amount": {QUOTED}}}') + call("statement", "{}"),
        "<think>\nx\n</think>\n\nYes.",
    ],
    [call("deposit", '{"sum": 1}') + call("deposit", "{}") + call("withdraw", "{}"), "No."],
    ["I think\n" + call("interest", '{"rate": 0.5}'), DONE],
    [call("deposit", '{"amount": 10}') + '<tool_call>\n{"name": "deposit", "arg', "never said"],
    ["<think>\nhm\n</think>\n\nNo tool for me."],
    [call("_hidden", "{}"), call("reset", "{}") + call("get_reward", "{}"), "Hm."],
]
LIBRARY = [
    [call("fetch", '{"title": "a"}') + call("count", "{}") + call("fetch", '{"title": "b"}'), "."],
    [call("fetch", '{"title": "lost"}') + call("fetch", '{"name": 1}'), call("count", "{}"), "Ok"],
    ["Nothing."],
    [call("count", "{}") + call("count", "{}"), "two"],
]


def rows(turns: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    return [
        {
            "prompt": [
                {"role": "system", "content": "Use the tools."},
                {"role": "user", "content": f"row {number}."},
            ],
            "start": 0,
            "goal": 50,
        }
        for number in range(len(turns))
    ]


@pytest.fixture(scope="module")
def tokenizer(pytestconfig: pytest.Config) -> Any:
    return qwen_tokenizer(pytestconfig.cache.mkdir("tokenizers"), "qwen3")


@pytest.fixture(scope="module")
def renderer(tokenizer: Any) -> DeltaRenderer:
    return load_renderer(tokenizer)


def next_turn(tokenizer: Any, turns: Sequence[Sequence[str]], ids: Sequence[int]) -> list[int]:
    """The turn that follows a stream; the stream itself says which row and turn it is."""
    text = tokenizer.decode(ids)
    number = int(re.findall(r"row (\d+)\.", text)[0])
    turn = turns[number][text.count("<|im_start|>assistant") - 1]
    given: list[int] = tokenizer.encode(turn + STOP, add_special_tokens=False)
    return given


def play_in_trl(
    tokenizer: Any,
    turns: Sequence[Sequence[str]],
    environment: type,
    functions: Sequence[Callable[..., Any]],
    folder: Path,
    budget: int = 2000,
) -> tuple[dict[str, list[float]], dict[str, list[Any]]]:
    """Rewards by function, and what a reward function sees, of a real GRPOTrainer."""
    import torch
    from datasets import Dataset
    from transformers import Qwen3Config, Qwen3ForCausalLM
    from trl import GRPOConfig, GRPOTrainer

    class Scripted(GRPOTrainer):
        def _generate_single_turn(self, prompt_ids: Any, *_: Any, **__: Any) -> Any:
            return [next_turn(tokenizer, turns, ids)[:budget] for ids in prompt_ids], None

    seen: dict[str, list[Any]] = {}

    def witness(prompts: Any, completions: Any, completion_ids: Any, **_: Any) -> list[None]:
        seen.update(prompts=prompts, completions=completions, ids=completion_ids)
        return [None] * len(prompts)

    torch.set_num_threads(1)
    size = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "head_dim": 8}
    heads = {"num_attention_heads": 1, "num_key_value_heads": 1}
    config = Qwen3Config(vocab_size=len(tokenizer), **size, **heads, tie_word_embeddings=True)
    data = rows(turns)
    trainer = Scripted(
        model=Qwen3ForCausalLM(config),
        reward_funcs=[*functions, witness],
        args=GRPOConfig(
            output_dir=str(folder),
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            report_to=[],
            per_device_train_batch_size=len(turns),
            num_generations=len(turns),
            max_completion_length=budget,
        ),
        train_dataset=Dataset.from_list(data),
        processing_class=tokenizer,
        environment_factory=environment,
    )
    trainer._generate_and_score_completions(data)
    rewards = {name: list(values) for name, values in trainer._logs["rewards"].items()}
    return rewards, seen


async def play_in_ours(
    tokenizer: Any,
    renderer: DeltaRenderer,
    turns: Sequence[Sequence[str]],
    environment: str,
    functions: Sequence[str],
    budget: int = 2000,
) -> tuple[list[Trajectory], tuple[Trajectory, ...]]:
    """The episodes, unscored and scored."""
    factory = make_environment_factory(f"{HOME}:{environment}")
    setup = RewardSetupConfig.model_validate(
        {"rollout_reward_configs": {f"{HOME}:{name}": {} for name in functions}}
    )
    calculator = build_reward_calculator(
        setup, environment_rewards=factory.rewards, decode=renderer.text
    )
    bridge = EnvironmentBridge(renderer, factory, EpisodeLimits(max_response_len=budget))
    engine = ScriptedEngine(lambda ids, *_: next_turn(tokenizer, turns, ids))
    episodes = [
        await bridge.run(
            task,
            engine=engine,
            params=SamplingParams(max_tokens=budget),
            seed=EpisodeSeed(0, "train", task.id, 0, 0),
        )
        for task in list_tasks(rows(turns), RowKeys(), "rows")
    ]
    return episodes, await RewardBridge(calculator).score(episodes)


@pytest.mark.parametrize(
    ("environment", "functions", "turns", "budget"),
    [
        ("Account", ["told_errors", "length"], ACCOUNT, 2000),
        ("Library", ["books", "told_errors"], LIBRARY, 2000),
        ("AsyncJudge", ["books"], LIBRARY, 2000),
        *[("Account", ["told_errors", "length"], ACCOUNT, budget) for budget in CUT],
    ],
)
async def test_the_same_actions_earn_the_same_rewards(
    environment: str,
    functions: list[str],
    turns: list[list[str]],
    budget: int,
    tokenizer: Any,
    renderer: DeltaRenderer,
    tmp_path: Path,
) -> None:
    theirs, seen = play_in_trl(
        tokenizer,
        turns,
        getattr(written, environment),
        [getattr(written, name) for name in functions],
        tmp_path,
        budget,
    )
    episodes, scored = await play_in_ours(
        tokenizer, renderer, turns, environment, functions, budget
    )

    assert [episode.error for episode in episodes] == [None] * len(turns)
    assert [prompt_of(episode) for episode in episodes] == seen["prompts"]
    assert [completion_of(e, renderer.text) for e in episodes] == seen["completions"]
    assert [[*e.segments[0].response_ids] for e in episodes] == seen["ids"]
    ours = {name: [t.rewards.get(name) for t in scored] for name in functions}
    if environment in theirs:
        ours[environment] = [t.rewards["environment"] for t in scored]
    theirs.pop("witness")
    assert ours.keys() == theirs.keys()
    for name, values in theirs.items():
        expected = [None if value != value else pytest.approx(value, rel=1e-6) for value in values]
        assert ours[name] == expected, name


def test_the_tools_are_described_as_trl_describes_them(tokenizer: Any) -> None:
    from transformers.utils import get_json_schema

    account = written.Account()
    tools = make_environment_factory(f"{HOME}:Account")().tools

    assert [tool["function"]["name"] for tool in tools] == ["deposit", "interest", "statement"]
    assert [*tools] == [get_json_schema(getattr(account, t["function"]["name"])) for t in tools]
