"""The four bridges, step by step: from an environment to the rows that TRL trains on.

    python examples/bridges/trl_bridge.py                         # scripted turns, no network
    python examples/bridges/trl_bridge.py --engine transformers   # turns that a model samples
    python examples/bridges/trl_bridge.py --engine transformers --model DIR

Without --model it makes a tiny model with random weights. The turns of an untrained model are
noise, so the default is a script of good and bad ones.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from backends.trl.feed import as_columns
from bridges import (
    DataFormatBridge,
    EnvironmentBridge,
    EpisodeLimits,
    RewardBridge,
    RolloutBridge,
    RolloutSettings,
)
from retrain.engine.base import InferenceEngine, SamplingParams
from retrain.engine.scripted import ScriptedEngine
from retrain.environment import make_environment_factory
from retrain.rendering import DeltaRenderer, load_renderer
from retrain.reward import ComponentKind, RewardCalculator, RewardComponent
from retrain.rollout.request import GroupRequest
from retrain.sample import Sample
from retrain.seeds import EpisodeSeed
from retrain.small_model import make_small_model
from retrain.types import Group, Task, Trajectory

Show = Callable[[DeltaRenderer, InferenceEngine], Coroutine[Any, Any, None]]

TASK = Task("demo", "75+99 then *6", label="1044")
SEEDS = [
    EpisodeSeed(run=42, split="train", task_id=TASK.id, visit=0, sample_index=i) for i in range(4)
]
PARAMS = SamplingParams(max_tokens=48)
POSITIONS = 512
LIMITS = EpisodeLimits(max_response_len=400, max_context_len=POSITIONS)

CALL = '<tool_call>\n{{"name": "calculator", "arguments": {{"expression": "{}"}}}}\n</tool_call>'
SCRIPT = (
    (CALL.format("75+99"), CALL.format("174*6"), "1044"),  # right
    (CALL.format("75+99"), CALL.format("174+6"), "180"),  # another operator
    (CALL.format("75+99"), "174"),  # stops half-way
    ("<tool_call>\n75+99\n</tool_call>", "75"),  # a call that cannot be read
)
"""What the model writes, turn by turn, in each episode of the group."""


async def show(renderer: DeltaRenderer, engine: InferenceEngine) -> None:
    """Take one group through the four bridges."""
    environment = make_environment_factory("calculator", {"max_turns": 4})
    own_reward = RewardComponent("environment", ComponentKind.ENVIRONMENT)
    play = EnvironmentBridge(renderer, environment, LIMITS)
    rewards = RewardBridge(RewardCalculator([own_reward]), advantage="grpo")
    data_format = DataFormatBridge(renderer)

    title("1. EnvironmentBridge.run: an episode, turn by turn")
    episodes = [await play.run(TASK, engine=engine, params=PARAMS, seed=seed) for seed in SEEDS]
    print_turns(episodes[0], renderer)

    title("2. RewardBridge.group: raw rewards, and advantages within the group")
    group = await rewards.group(0, TASK, 0, episodes)
    print_rewards(group)

    title("3. DataFormatBridge.group_samples: what a trainer reads")
    samples = [sample for slot in data_format.group_samples(group) for sample in slot]
    print_tokens(samples[0], renderer)

    title("4. RolloutBridge.collect: steps 1 and 2 for many groups at once")
    settings = RolloutSettings(PARAMS, n_samples=len(SEEDS), run_seed=SEEDS[0].run)
    rollouts = RolloutBridge(play, rewards, engine, settings)
    (collected,) = await rollouts.collect([GroupRequest(0, TASK, 0)])
    rows = [sample for slot in data_format.group_samples(collected) for sample in slot]
    same = [row.tokens for row in rows] == [sample.tokens for sample in samples]
    print(f"the same tokens as step by step: {'yes' if same else 'no'}")

    title("What TRL's rollout_func returns: one entry per episode in every column")
    print_columns(as_columns(rows))
    print("\nTRL's own reward normalisation is passed by; the loss gets these advantages:")
    print(" ", [round(row.advantage, 4) for row in rows])


def title(text: str) -> None:
    """Print the headline of a step."""
    print(f"\n== {text} ==")


def print_turns(episode: Trajectory, renderer: DeltaRenderer) -> None:
    """Print an episode as it came about: the prompt, then each turn and the reply to it."""
    (segment,) = episode.segments
    print_ids("prompt", segment.prompt_ids, renderer)
    for turn in segment.turns:
        print_ids("model", turn.output_ids, renderer)
        if turn.env_ids:
            print_ids("reply", turn.env_ids, renderer)
    print(f"ended: {episode.status}, {episode.stop_reason}; not scored yet: {episode.reward}")


def print_ids(who: str, ids: Sequence[int], renderer: DeltaRenderer) -> None:
    """Print some ids and their text."""
    print(f"{who:>6}  {list(ids)}\n        {renderer.decode(ids)!r}")


def print_rewards(group: Group) -> None:
    """Print the reward and the advantage of every episode."""
    for trajectory, advantage in zip(group.trajectories, group.advantages, strict=True):
        print(
            f"episode {trajectory.seed.sample_index}: reward {trajectory.reward} "
            f"{dict(trajectory.rewards)}  advantage {advantage:+.4f}  "
            f"last words {trajectory.response_text!r}"
        )


def print_tokens(sample: Sample, renderer: DeltaRenderer) -> None:
    """Print a sample token by token: those that the model sampled have mask 1."""
    print(f"{'id':>6}  {'mask':>6}  {'logprob':>8}  text")
    for token in sample.prompt_ids:
        print(f"{token:6}  {'prompt':>6}  {'':8}  {renderer.decode([token])!r}")
    for token, mask, logprob in zip(
        sample.response_ids, sample.loss_mask, sample.rollout_log_probs, strict=True
    ):
        print(f"{token:6}  {mask:6}  {logprob:8.4f}  {renderer.decode([token])!r}")
    print(f"reward {sample.reward}, advantage {sample.advantage:+.4f} for every token of mask 1")


def print_columns(columns: dict[str, list[Any]]) -> None:
    """Print the sizes of the columns, and how their first row begins."""
    for name, rows in columns.items():
        if isinstance(rows[0], list):
            start = ", ".join(f"{value:.4g}" for value in rows[0][:8])
            print(f"{name:>15}  lengths {[len(row) for row in rows]}, first row [{start}, …]")
        else:
            print(f"{name:>15}  {rows}")


def load_tokenizer(model: Path) -> Any:
    """The tokenizer of a model's folder."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(model)


def load_network(model: Path) -> Any:
    """The weights of a model's folder."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(model)


def scripted_engine(tokenizer: Any) -> ScriptedEngine:
    """An engine that writes the script: each turn of each episode is known by its seed."""
    turns = {
        seed.turn(number): text + tokenizer.eos_token
        for seed, texts in zip(SEEDS, SCRIPT, strict=True)
        for number, text in enumerate(texts)
    }
    return ScriptedEngine(
        lambda input_ids, params, session_id, seed: turns[seed],
        encode=lambda text: tokenizer.encode(text, add_special_tokens=False),
    )


def run_example(description: str | None, show: Show) -> None:
    """Read the command line, and show the bridges over a model.

    Args:
        description: What the example is about.
        show: Shows them, given a renderer and an engine.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--engine", choices=("scripted", "transformers"), default="scripted")
    parser.add_argument("--model", type=Path, metavar="DIR", help="a Hugging Face model's folder")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        model = arguments.model or Path(scratch)
        if arguments.model is None:
            make_small_model(model, (turn for turns in SCRIPT for turn in turns))
        _show_with(show, arguments.engine, model)


def _show_with(show: Show, engine_name: str, model: Path) -> None:
    """Show the bridges over scripted turns, or over those of the model."""
    tokenizer = load_tokenizer(model)
    renderer = load_renderer(tokenizer)
    if engine_name == "scripted":
        print("The model's turns and their logprobs are scripted: no model takes part.")
        asyncio.run(show(renderer, scripted_engine(tokenizer)))
        return
    from retrain.engine.transformers_engine import TransformersEngine

    print("The model's turns are sampled by the in-process engine.")
    engine = TransformersEngine(load_network(model), max_slots=len(SEEDS), max_seq_len=POSITIONS)
    try:
        asyncio.run(show(renderer, engine))
    finally:
        engine.close()


if __name__ == "__main__":
    run_example(__doc__, show)
