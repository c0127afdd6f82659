"""The configurations of the fuzz: each plays a few hundred episodes in one way."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from fuzz_models import KINDS, make_model
from fuzz_texts import odd_text

from retrain.config import RunConfig

_SEGMENTED = 5
"""One configuration in so many is of episodes in several segments."""

_ALGORITHMS = ("grpo", "dr_grpo", "rloo", "gspo")


def draw_cases(seed: int, folder: Path) -> Iterator[RunConfig]:
    """Configurations without end; templates and algorithms come round in turn.

    Args:
        seed: The same one gives the same configurations.
        folder: Where models are kept.
    """
    return (draw_case(seed, number, folder) for number in count())


def draw_case(seed: int, number: int, folder: Path) -> RunConfig:
    """Configuration number `number` of `draw_cases`."""
    rng = random.Random(f"{seed} {number}")
    template = list(KINDS)[number % len(KINDS)]
    algorithm = _ALGORITHMS[number % len(_ALGORITHMS)]
    config = _case(rng, seed, number, make_model(folder, template), template, algorithm)
    return _in_segments(rng, config) if _segmented(number) else config


def _segmented(number: int) -> bool:
    return number % _SEGMENTED == _SEGMENTED - 1


def segmented(config: RunConfig) -> bool:
    """Whether episodes may have several segments."""
    return config.rendering.history == "template" or "Rewriting" in config.environment.type


def takers(config: RunConfig) -> tuple[str, ...]:
    """The backends that must take a configuration; the others must refuse it."""
    hyper = config.algorithm.hyperparameters
    divergence = hyper.kl_coef > 0
    refused = {
        "slime": divergence and config.algorithm.name == "dr_grpo",
        "torch": False,
        "trl": segmented(config) or (divergence and hyper.kl_estimator != "k3"),
    }
    return tuple(name for name, wrong in refused.items() if not wrong)


def _in_segments(rng: random.Random, config: RunConfig) -> RunConfig:
    """The same in episodes of several segments, which TRL refuses and the others train on.

    Either the template rewrites what was said before, or the world does.
    """
    if rng.random() < 0.5:
        rendering = config.rendering.model_copy(update={"history": "template"})
        return config.model_copy(update={"rendering": rendering})
    world = config.environment.model_copy(update={"type": "fuzz_world:RewritingWorld"})
    return config.model_copy(update={"environment": world})


def _case(
    rng: random.Random, seed: int, number: int, model: Path, template: str, algorithm: str
) -> RunConfig:
    calls = KINDS[template].calls
    tools = bool(calls) and rng.random() < 0.85
    world = {"tools": tools, "patience": rng.choice((0.1, 0.2, 0.4))}
    return RunConfig.model_validate(
        {
            "experiment_name": f"fuzz-{number}",
            "seed": seed,
            "output_dir": str(model.parent / f"run-{number}"),
            "model": {"name_or_path": str(model), "threads": 1},
            "environment": {"type": "fuzz_world:FuzzWorld", "env_specific_config": world},
            "prompt_source": {"type": "list", "source_config": {"items": _items(rng)}},
            "reward_setup": _rewards(rng),
            "rollout": {
                "engine": {"name": "fuzz_engine:build_fuzz", "calls": calls},
                "max_turns": rng.choice((None, None, None, 1, 3, 6)),
                "engine_retries": rng.choice((0, 1)),
                "failure": dict.fromkeys(("environment", "tool", "rendering", "engine"), "mask"),
                "max_failure_rate": 1.0,
            },
            "algorithm": {
                "name": algorithm,
                "backend": "trl",
                "hyperparameters": _hyperparameters(
                    rng, algorithm, tools=tools, packed=_segmented(number)
                ),
            },
        }
    )


def _items(rng: random.Random) -> list[dict[str, str]]:
    """Tasks; every prompt differs, however little it says."""
    return [{"id": f"t{n}", "prompt": f"{odd_text(rng)}{n}"} for n in range(rng.randint(3, 9))]


def _rewards(rng: random.Random) -> dict[str, Any]:
    if rng.random() < 0.3:
        return {}
    weight = rng.choice((1.0, 0.5, -2.0))
    return {"rollout_reward_configs": {"fuzz_world:odd_reward": {"weight": weight}}}


def _hyperparameters(
    rng: random.Random, algorithm: str, *, tools: bool, packed: bool
) -> dict[str, Any]:
    prompts, samples = rng.randint(2, 8), rng.randint(2, 8)
    rollouts = prompts * samples
    batch = rng.choice([rollouts, *_divisors(rollouts)])
    copies = rng.choice(_divisors(batch)[:3])
    chosen = (
        {} if algorithm == "dr_grpo" else {"loss_aggregation": rng.choice(("token", "sequence"))}
    )
    return {
        **chosen,
        **_loss(rng),
        **_slime(rng, batch, copies, packed=packed),
        "torch_micro_batch_tokens": rng.choice((200, 2_000, 16_384)),
        "torch_packing": rng.random() < 0.5,
        "num_iterations": rng.randint(6, 12),
        "rollout_batch_size": prompts,
        "n_samples_per_prompt": samples,
        "global_batch_size": batch,
        "trl_per_device_train_batch_size": rng.choice(_divisors(batch)),
        "max_response_len": rng.choice((40, 160, 400, 900)),
        "max_tokens_per_turn": rng.choice((None, None, 5, 60)),
        "max_context_len": rng.choice((None, None, 700, 400)),
        "max_prompt_len": rng.choice((None, None, 300 if tools else 60)),
    }


def _loss(rng: random.Random) -> dict[str, Any]:
    """What stands in the loss beside the surrogate; half of the configurations have a KL term."""
    divergence = {
        "kl_coef": rng.choice((0.001, 0.3)),
        "kl_estimator": rng.choice(("k3", "k1", "k2", "k3")),
    }
    low, high = rng.choice(((0.2, 0.2), (0.1, 0.28)))
    return {
        **(divergence if rng.random() < 0.5 else {}),
        "importance_correction": rng.choice(("none", "tis")),
        "temperature": rng.choice((1.0, 0.7)),
        "clip_eps_low": low,
        "clip_eps_high": high,
    }


def _slime(rng: random.Random, batch: int, copies: int, *, packed: bool) -> dict[str, Any]:
    """How slime cuts a step up over its copies: so many rows at a time, or packed by tokens.

    Segments must be packed: nobody knows how many rows their episodes become.
    """
    spread = {"slime_actor_num_gpus_per_node": copies, "slime_balance_data": rng.random() < 0.5}
    if packed or rng.random() < 0.5:
        return {**spread, "slime_max_tokens_per_gpu": rng.choice((600, 1500, 8192))}
    rows = rng.choice(_divisors(batch // copies)[:3])
    return {**spread, "slime_use_dynamic_batch_size": False, "slime_micro_batch_size": rows}


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]
