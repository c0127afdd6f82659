"""What is read of a model's folder without its weights: tokenizer, configuration, stop tokens.

transformers is imported inside the functions, so importing this module loads nothing heavy.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrain.errors import ConfigError, MissingDependency

if TYPE_CHECKING:
    from retrain.config import RunConfig

STRUCTURE = (
    "model_type",
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
)
"""Keys of a model's configuration that its weights' names and shapes follow from."""


def load_tokenizer(config: RunConfig, model_dir: str | Path | None = None) -> Any:
    """Load the tokenizer of `model:`.

    Raises:
        ConfigError: It cannot be loaded.
        MissingDependency: transformers is not installed.
    """
    transformers = _transformers()
    name = str(model_dir or config.model.tokenizer or config.model.name_or_path)
    if Path(name).is_absolute() and not Path(name).is_dir():
        raise ConfigError(f"model.name_or_path: {name!r} is no folder")
    try:
        return transformers.AutoTokenizer.from_pretrained(
            name, trust_remote_code=config.model.trust_remote_code, **_revision(config, model_dir)
        )
    except Exception as error:  # a damaged tokenizer.json raises a bare Exception
        reason = str(error).strip().partition("\n")[0]
        raise ConfigError(f"model.name_or_path: no tokenizer in {name!r} ({reason})") from error


def generation_eos(config: RunConfig, model_dir: str | Path | None) -> tuple[int, ...]:
    """The stop tokens of the model's generation_config, if it has one."""
    name = str(model_dir or config.model.name_or_path)
    try:
        generation = _transformers().GenerationConfig.from_pretrained(
            name, **_revision(config, model_dir)
        )
    except OSError:
        return ()
    eos = generation.eos_token_id
    if eos is None:
        return ()
    return (eos,) if isinstance(eos, int) else tuple(eos)


def known_positions(config: RunConfig, model_dir: str | Path | None) -> int | None:
    """How many positions the model knows, where its configuration says so."""
    positions = getattr(_text_config(config, model_dir), "max_position_embeddings", None)
    return positions if isinstance(positions, int) else None


def vocabulary_size(config: RunConfig, model_dir: str | Path | None) -> int | None:
    """How many ids the model knows, where its configuration says so."""
    size = getattr(_text_config(config, model_dir), "vocab_size", None)
    return size if isinstance(size, int) else None


def why_text_only(config: RunConfig, model_dir: str | Path | None = None) -> str | None:
    """Why a model can be shown no images; None where its configuration describes how it sees."""
    name = str(model_dir or config.model.name_or_path)
    try:
        found = _model_config(config, model_dir)
    except ConfigError:
        return f"{name!r} has no configuration that says how it reads images"
    if getattr(found, "vision_config", None) is not None:
        return None
    return (
        f"{name!r} reads text only (model type {found.model_type!r}); name a model that reads "
        "images, such as one of Qwen's VL models"
    )


def model_structure(config: RunConfig, model_dir: str | Path | None = None) -> dict[str, Any]:
    """What tells one model's weights from another's: its kind and its sizes, where they are given.

    Raises:
        ConfigError: There is no model configuration.
    """
    found = _text_config(config, model_dir)
    named = {name: getattr(found, name, None) for name in STRUCTURE}
    return {name: value for name, value in named.items() if value is not None}


def structure_difference(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str | None:
    """Say how another model's structure differs from ours; None where it does not.

    Args:
        theirs: Of the checkpoint.
        ours: Of `model:`.
    """
    differing = [name for name in STRUCTURE if theirs.get(name) != ours.get(name)]
    found = [
        f"its {name} is {theirs.get(name)}, the model's {ours.get(name)}" for name in differing
    ]
    return ", ".join(found) or None


def vocabulary_difference(config: RunConfig, weights: str | Path) -> str | None:
    """Say how the tokenizer beside some weights differs from that of `model:`; None for not.

    Raises:
        ConfigError: One of them cannot be loaded.
    """
    theirs: dict[str, int] = load_tokenizer(config, weights).get_vocab()
    ours: dict[str, int] = load_tokenizer(config).get_vocab()
    if theirs == ours:
        return None
    if len(theirs) != len(ours):
        return f"its vocabulary has {len(theirs)} tokens, the model's {len(ours)}"
    token = next(token for token in theirs if theirs[token] != ours.get(token))
    where = ours.get(token)
    there = "is not in the model's" if where is None else f"has id {where} in the model's"
    return f"token {token!r} has id {theirs[token]} in its vocabulary and {there}"


def _text_config(config: RunConfig, model_dir: str | Path | None) -> Any:
    return _model_config(config, model_dir).get_text_config()


def _model_config(config: RunConfig, model_dir: str | Path | None) -> Any:
    model = config.model
    name = str(model_dir or model.name_or_path)
    try:
        loaded = _transformers().AutoConfig.from_pretrained(
            name, trust_remote_code=model.trust_remote_code, **_revision(config, model_dir)
        )
    except (OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ConfigError(
            f"model.name_or_path: no model configuration in {name!r} ({reason})"
        ) from error
    return loaded


def _revision(config: RunConfig, model_dir: str | Path | None) -> dict[str, Any]:
    return {} if model_dir is not None else {"revision": config.model.revision}


def _transformers() -> Any:
    try:
        import transformers
    except ModuleNotFoundError as error:
        raise MissingDependency(
            "tokenizers are loaded with transformers; install it with: pip install 'retrain[trl]'"
        ) from error
    return transformers
