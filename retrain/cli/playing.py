"""What `rollout` and `eval` play: a stage that plays episodes, and the weights to play with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrain.cli.exits import say
from retrain.cli.run_stages import last_finished_stage
from retrain.errors import ConfigError

if TYPE_CHECKING:
    from retrain.config import RunConfig

_ADAPTER = "adapter_config.json"


def playable(run: RunConfig) -> RunConfig:
    """The last stage, or the run itself where it has none.

    Raises:
        ConfigError: It imitates, and plays no episodes.
    """
    stages = run.stage_configs()
    last = stages[-1][1] if stages else run
    if last.algorithm.name == "sft":
        raise ConfigError(
            "algorithm.name: sft has demonstrations and plays no episodes; name the tasks and an "
            "algorithm that does, e.g. --set algorithm.name=grpo --set "
            "prompt_source.source_config.path=tasks.jsonl"
        )
    return last


def checkpoint_weights(folder: Path) -> Path:
    """The folder of the weights: `folder` itself, or the model of a run folder.

    Raises:
        ConfigError: There are none.
        RunFolderError: It is a run of stages, and none is finished.
    """
    for candidate in (folder, folder / "model"):
        if (candidate / "config.json").is_file():
            return candidate.absolute()
    stage = last_finished_stage(folder)
    if stage is not None:
        return checkpoint_weights(stage)
    if (folder / _ADAPTER).is_file():
        raise ConfigError(
            f"--checkpoint {folder}: holds an adapter without its base; write whole weights with: "
            "retrain export RUN TO"
        )
    raise ConfigError(
        f"--checkpoint {folder}: holds no config.json; name a folder of Hugging Face weights, such "
        "as RUN/model or RUN/checkpoints/checkpoint-20"
    )


def require_same_vocabulary(config: RunConfig, weights: Path) -> None:
    """Refuse weights that read other token ids than the configuration's model.

    Where the configuration's model is not on this machine, the two cannot be compared, and a
    message says so.

    Raises:
        ConfigError: The tokenizers differ, or the weights know fewer ids than their tokenizer.
    """
    from retrain.model_files import load_tokenizer

    theirs: dict[str, int] = load_tokenizer(config, weights).get_vocab()
    known = _known_ids(weights)
    if known is not None and max(theirs.values()) >= known:
        raise ConfigError(
            f"--checkpoint {weights}: the weights know {known} token ids, and the tokenizer beside "
            f"them writes ids up to {max(theirs.values())}; they do not belong together"
        )
    try:
        ours: dict[str, int] = load_tokenizer(config).get_vocab()
    except ConfigError as error:
        say(f"warning: the checkpoint's vocabulary is not compared with the model's: {error}")
        return
    if theirs != ours:
        raise ConfigError(
            f"--checkpoint {weights}: is of another model than model.name_or_path "
            f"({config.model.name_or_path}): {_difference(theirs, ours)}; name a checkpoint of "
            "this configuration, or --set model.name_or_path"
        )


def _known_ids(weights: Path) -> int | None:
    """How many ids the weights have embeddings for, where their configuration says so."""
    try:
        config: Any = json.loads((weights / "config.json").read_text(encoding="utf-8"))
        size = config.get("text_config", config).get("vocab_size")
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(f"--checkpoint {weights}: config.json cannot be read ({error})") from None
    return size if isinstance(size, int) else None


def _difference(theirs: dict[str, int], ours: dict[str, int]) -> str:
    if len(theirs) != len(ours):
        return f"its vocabulary has {len(theirs)} tokens, the model's {len(ours)}"
    token = next(token for token in theirs if theirs[token] != ours.get(token))
    where = ours.get(token)
    there = "is not in the model's" if where is None else f"has id {where} in the model's"
    return f"token {token!r} has id {theirs[token]} in its vocabulary and {there}"
