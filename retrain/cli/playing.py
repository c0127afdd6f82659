"""What `rollout` and `eval` play: a stage that plays episodes, and the weights to play with."""

from __future__ import annotations

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
    lack = "holds no config.json" if folder.is_dir() else "is no folder"
    raise ConfigError(
        f"--checkpoint {folder}: {lack}; name a run folder, or a folder of Hugging Face weights, "
        "such as RUN/model or RUN/checkpoints/checkpoint-20"
    )


def require_same_model(config: RunConfig, weights: Path) -> None:
    """Refuse weights of another model than the configuration's.

    Where the configuration's model is not on this machine, the two cannot be compared, and a
    message says so.

    Raises:
        ConfigError: Architectures, sizes or tokenizers differ, or the weights know fewer ids than
            their tokenizer.
    """
    from retrain.model_files import model_structure, structure_difference, vocabulary_difference

    theirs = _own_structure(config, weights)
    try:
        difference = vocabulary_difference(config, weights)
        difference = difference or structure_difference(theirs, model_structure(config))
    except ConfigError as error:
        say(f"warning: the checkpoint is not compared with the configuration's model: {error}")
        return
    if difference:
        raise ConfigError(
            f"--checkpoint {weights}: is of another model than model.name_or_path "
            f"({config.model.name_or_path}): {difference}; name a checkpoint of this "
            f"configuration, or --set model.name_or_path={weights}"
        )


def _own_structure(config: RunConfig, weights: Path) -> dict[str, Any]:
    """What some weights are, once they are known to belong to the tokenizer beside them."""
    from retrain.model_files import load_tokenizer, model_structure

    highest = max(load_tokenizer(config, weights).get_vocab().values())
    theirs = model_structure(config, weights)
    if theirs.get("vocab_size", highest + 1) <= highest:
        raise ConfigError(
            f"--checkpoint {weights}: the weights know {theirs['vocab_size']} token ids, and the "
            f"tokenizer beside them writes ids up to {highest}; they do not belong together"
        )
    return theirs
