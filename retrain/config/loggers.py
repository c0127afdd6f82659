"""The `loggers:` section: what copies `metrics.jsonl` elsewhere while a run goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic import model_validator as check

from retrain.config.section import JsonMapping, Section, Texts


def _on_or_off(value: Any) -> Any:
    return {True: {}, False: None}[value] if isinstance(value, bool) else value


class WandbConfig(Section):
    """Weights & Biases."""

    project: str = Field(default="retrain", min_length=1, description="the project")
    entity: str | None = Field(
        default=None, min_length=1, description="user or team; null: the account's own"
    )
    tags: Texts = Field(default=(), description="the run's tags")
    mode: Literal["auto", "online", "offline"] = Field(
        default="auto",
        description="auto: `$WANDB_MODE`, else online where an account is known, else offline",
    )


class TrackioConfig(Section):
    """trackio."""

    project: str = Field(default="retrain", min_length=1, description="the project")
    space_id: str | None = Field(
        default=None,
        min_length=1,
        description="a Hugging Face Space to send the rows to; null: this machine alone",
    )


class LoggersConfig(Section):
    """The loggers, each alone, `true` for its defaults, or one or several of them by name."""

    tensorboard: bool = Field(
        default=False, description="event files in the run folder, `tensorboard/`"
    )
    wandb: Annotated[WandbConfig | None, BeforeValidator(_on_or_off)] = Field(
        default=None, description="Weights & Biases; `true` takes the defaults"
    )
    trackio: Annotated[TrackioConfig | None, BeforeValidator(_on_or_off)] = Field(
        default=None, description="trackio; `true` takes the defaults"
    )
    custom: dict[str, JsonMapping] = Field(
        default_factory=dict, description="one's own, by package.module:Class, with their settings"
    )

    def chosen(self) -> dict[str, Mapping[str, Any]]:
        """The settings of every chosen logger, by its name."""
        known = {"tensorboard": {} if self.tensorboard else None, **_settings(self)}
        built_in = {name: given for name, given in known.items() if given is not None}
        return {**built_in, **self.custom}

    @check(mode="before")
    @classmethod
    def _by_name(cls, given: Any) -> Any:
        names = [given] if isinstance(given, str) else given
        if isinstance(names, list | tuple) and all(isinstance(name, str) for name in names):
            known = [name for name in names if ":" not in name]
            custom: dict[str, Any] = {name: {} for name in names if ":" in name}
            return {**dict.fromkeys(known, True), **({"custom": custom} if custom else {})}
        return given


def _settings(config: LoggersConfig) -> dict[str, Mapping[str, Any] | None]:
    sections = {"wandb": config.wandb, "trackio": config.trackio}
    return {
        name: None if section is None else section.model_dump()
        for name, section in sections.items()
    }
