"""A model's `config.json`, as Hugging Face writes it, read without loading a framework."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retrain.errors import ConfigError

CONFIG = "config.json"
_KEY = "model.name_or_path"


@dataclass(frozen=True, slots=True)
class ModelConfigFile:
    """What `config.json` says of the text model.

    Attributes:
        values: The keys; those of `text_config` where a model reads images too.
        outer: The file's own keys, which hold what `text_config` leaves out.
    """

    values: Mapping[str, Any]
    outer: Mapping[str, Any]

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> ModelConfigFile:
        """Take the file's content."""
        inner = content.get("text_config")
        return cls(inner if isinstance(inner, Mapping) else content, content)

    @property
    def model_type(self) -> str:
        """The architecture ("qwen3"); "" where the file names none."""
        return str(self.outer.get("model_type") or "")

    def get(self, key: str, default: Any = None) -> Any:
        """A key's value; the default where it is absent or null."""
        for values in (self.values, self.outer):
            if values.get(key) is not None:
                return values[key]
        return default

    def need(self, key: str) -> Any:
        """A key's value.

        Raises:
            ConfigError: It is absent.
        """
        value = self.get(key)
        if value is None:
            raise ConfigError(
                f"{_KEY}: {CONFIG} of this {self.model_type} model has no {key}, which Megatron's "
                "arguments are derived from; take the file that the model was published with"
            )
        return value

    @property
    def rope(self) -> Mapping[str, Any]:
        """How positions are rotated: `rope_scaling` and, as newer files hold it, its parameters."""
        return {**self.get("rope_scaling", {}), **self.get("rope_parameters", {})}

    @property
    def rope_type(self) -> str:
        """Which kind of rotation: "default", "llama3", "yarn" ..."""
        return str(self.rope.get("rope_type") or self.rope.get("type") or "default")

    @property
    def rope_theta(self) -> int:
        """The base of the rotation; Megatron takes a whole number."""
        theta = float(self.rope.get("rope_theta") or self.get("rope_theta", 10000))
        if theta != int(theta):
            raise ConfigError(f"{_KEY}: rope_theta {theta} is no whole number, as Megatron needs")
        return int(theta)

    @property
    def rotary_share(self) -> float:
        """The share of a head's numbers that is rotated."""
        return float(self.rope.get("partial_rotary_factor") or self.get("partial_rotary_factor", 1))

    @property
    def head_dim(self) -> int:
        """Numbers of a head."""
        return int(self.get("head_dim") or self.need("hidden_size") // self.heads)

    @property
    def heads(self) -> int:
        """Heads of a layer that ask."""
        return int(self.need("num_attention_heads"))

    @property
    def layers(self) -> int:
        """Layers of the decoder."""
        return int(self.need("num_hidden_layers"))


def read_model_config(folder: Path) -> ModelConfigFile:
    """Read the `config.json` of a model folder.

    Raises:
        ConfigError: There is none, or it is no JSON object.
    """
    path = folder / CONFIG
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"{_KEY}: {str(folder)!r} has no {CONFIG}; name a Hugging Face model folder"
        ) from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{_KEY}: {path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{_KEY}: {path} holds no JSON object")
    return ModelConfigFile.of(content)


def find_model(name: str, revision: str | None = None) -> Path:
    """The folder of a model: itself, or its snapshot in the Hugging Face cache.

    slime reads weights from a folder and writes the trained ones in the same shape, so a name on
    the Hub must have been downloaded.

    Args:
        name: A folder, or a name on the Hub.
        revision: Branch, tag or commit on the Hub.

    Raises:
        ConfigError: There is neither, or no weights in it.
    """
    folder = Path(name).expanduser().absolute()
    if not folder.is_dir():
        folder = _cached(name, revision)
    if not any(folder.glob("*.safetensors")):
        raise ConfigError(
            f"{_KEY}: {str(folder)!r} holds no weights (no *.safetensors file); download or make "
            "the model first"
        )
    return folder


def _cached(name: str, revision: str | None) -> Path:
    looks_like_path = Path(name).is_absolute() or name.startswith((".", "~"))
    if looks_like_path:
        raise ConfigError(
            f"{_KEY}: {name!r} is no folder on this machine; the plan reads its {CONFIG}, and "
            "slime its weights"
        )
    try:
        from huggingface_hub import try_to_load_from_cache
    except ModuleNotFoundError:
        found = None
    else:
        found = try_to_load_from_cache(name, CONFIG, revision=revision)
    if isinstance(found, str):
        return Path(found).parent
    further = f" --revision {revision}" if revision else ""
    raise ConfigError(
        f"{_KEY}: slime reads a model from a folder, and {name!r} is not downloaded; "
        f"hf download {name}{further} (on every node, or to a folder that all of them see)"
    )
