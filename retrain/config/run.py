"""`RunConfig`: one configuration file, validated and resolved."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from retrain.config.algorithm import AlgorithmConfig
from retrain.config.loggers import LoggersConfig
from retrain.config.merge import deep_merge
from retrain.config.problems import explain, report
from retrain.config.rewards import RewardSetupConfig
from retrain.config.rollout import RolloutConfig
from retrain.config.section import At, Section, faults
from retrain.config.sections import (
    ClusterConfig,
    EnvironmentConfig,
    EvaluationConfig,
    ModelConfig,
    PromptSourceConfig,
    RenderingConfig,
    SlimeLaptopConfig,
)
from retrain.config.vocabulary import ROWS, SFT_KEYS
from retrain.errors import ConfigError

_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
_NOT_IN_A_STAGE = ("stages", "output_dir", "experiment_name")


class StageConfig(BaseModel):
    """One stage: its name, and what it changes in the file."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow")

    name: str = Field(pattern=_NAME, description="the stage's name and folder")

    @property
    def overrides(self) -> dict[str, Any]:
        """The stage's own sections, partial."""
        return dict(self.model_extra or {})

    @model_validator(mode="after")
    def _own_keys_only(self) -> StageConfig:
        wrong = [key for key in _NOT_IN_A_STAGE if key in self.overrides]
        if wrong:
            raise faults(
                *(((key,), "cannot stand in a stage; set it for the run") for key in wrong)
            )
        return self


class RunConfig(Section):
    """The whole configuration of a run."""

    experiment_name: str = Field(pattern=_NAME, description="names the run")
    seed: int = Field(default=42, ge=0, description="everything random follows from it")
    output_dir: Annotated[Path, Field(strict=False)] = Field(
        default=None,
        validate_default=True,
        description="the run folder; relative to the working directory",
    )
    model: ModelConfig = Field(description="the model that is trained")
    environment: EnvironmentConfig = Field(description="the world that the model acts in")
    prompt_source: PromptSourceConfig = Field(description="where the tasks come from")
    reward_setup: RewardSetupConfig = Field(
        default_factory=RewardSetupConfig, description="what is rewarded"
    )
    rollout: RolloutConfig = Field(default_factory=RolloutConfig, description="how episodes run")
    rendering: RenderingConfig = Field(
        default_factory=RenderingConfig, description="how messages become tokens"
    )
    algorithm: AlgorithmConfig = Field(description="how the model is trained")
    evaluation: EvaluationConfig | None = Field(default=None, description="held-out episodes")
    stages: Annotated[tuple[StageConfig, ...], Field(strict=False)] = Field(
        default=(), description="trainings that follow each other; see below"
    )
    loggers: LoggersConfig = Field(
        default_factory=LoggersConfig, description="copies of the metrics elsewhere"
    )
    cluster: ClusterConfig = Field(default_factory=ClusterConfig, description="where slime runs")
    slime_laptop: SlimeLaptopConfig | None = Field(
        default=None, description="runs slime without a GPU"
    )

    _base_dir: Path = PrivateAttr(default_factory=Path.cwd)

    @property
    def base_dir(self) -> Path:
        """The configuration file's folder; the working directory where there is no file."""
        return self._base_dir

    @property
    def title(self) -> str:
        """The experiment's name; for a stage, with the stage's name."""
        folder = self.output_dir
        stage = f" / {folder.name}" if folder.parent.name == "stages" else ""
        return f"{self.experiment_name}{stage}"

    @property
    def eval_interval(self) -> int | None:
        """Iterations between evaluations; None evaluates at no interval."""
        own = self.evaluation.interval if self.evaluation else None
        return own if own is not None else self.algorithm.hyperparameters.eval_interval

    @property
    def eval_temperature(self) -> float:
        """The temperature of held-out episodes."""
        own = self.evaluation.temperature if self.evaluation else None
        return own if own is not None else self.algorithm.hyperparameters.temperature

    @property
    def asynchronous(self) -> bool:
        """Whether the next batch is collected while this one is trained on."""
        return self.rollout.asynchronous

    def located(self, base_dir: Path) -> RunConfig:
        """The same configuration, as read from a file in `base_dir`."""
        copy = self.model_copy()
        copy._base_dir = base_dir
        return copy

    def stage_source(self, number: int) -> dict[str, Any]:
        """What a stage is validated from: the file with the stage laid over it."""
        stage = self.stages[number]
        base = self.model_dump(exclude_unset=True, exclude={"stages"})
        own = stage.overrides.get("algorithm", {})
        name = own.get("name") if isinstance(own, dict) else None
        if (name or self.algorithm.name) == "sft":
            given = base["algorithm"].get("hyperparameters", {})
            base["algorithm"]["hyperparameters"] = _meant_for_sft(given)
        folder = {"output_dir": self.output_dir / "stages" / stage.name}
        return {**deep_merge(base, stage.overrides), **folder}

    def stage_config(self, number: int) -> RunConfig:
        """The configuration of stage `number`, counted from 0.

        Raises:
            pydantic.ValidationError: The stage does not fit.
        """
        return RunConfig.model_validate(self.stage_source(number)).located(self.base_dir)

    def stage_configs(self) -> tuple[tuple[str, RunConfig], ...]:
        """Name and configuration of every stage, in order; empty for a run without stages.

        A stage's `output_dir` is `<output_dir>/stages/NAME`. An sft stage inherits only those
        hyperparameters that mean something to sft.

        Raises:
            ConfigError: Naming the stage and key that do not fit.
        """
        configs: list[tuple[str, RunConfig]] = []
        for number, stage in enumerate(self.stages):
            try:
                configs.append((stage.name, self.stage_config(number)))
            except ValidationError as error:
                found = explain(error, self.stage_source(number), RunConfig)
                where = f"stages[{number}] ({stage.name})"
                raise ConfigError(report(where, found)) from error
        return tuple(configs)

    @field_validator("output_dir", mode="before")
    @classmethod
    def _after_its_name(cls, value: object, info: ValidationInfo) -> object:
        if value is not None:
            return value
        return Path("runs") / str(info.data.get("experiment_name", "run"))

    @model_validator(mode="before")
    @classmethod
    def _asynchronous_in_one_place(cls, given: Any) -> Any:
        """`slime_train_async: true` sets `rollout.asynchronous`, unless that is set."""
        if not isinstance(given, Mapping) or given.get("stages"):
            return given
        algorithm, rollout = given.get("algorithm"), given.get("rollout") or {}
        if not isinstance(algorithm, Mapping) or not isinstance(rollout, Mapping):
            return given
        hyper = algorithm.get("hyperparameters")
        ahead = isinstance(hyper, Mapping) and hyper.get("slime_train_async") is True
        if not ahead or algorithm.get("backend") != "slime":
            return given
        return {**given, "rollout": {"asynchronous": True, **rollout}}

    @model_validator(mode="after")
    def _complete(self) -> RunConfig:
        found = _repeated_stages(self.stages)
        if not self.stages:
            found += [(("algorithm", *at), text) for at, text in self.algorithm.incomplete()]
            found += _loop_faults(self)
            if self.algorithm.hyperparameters.eval_interval and self.evaluation is None:
                at = ("algorithm", "hyperparameters", "eval_interval")
                found.append((at, "is set, but there is no evaluation section; add one"))
        if found:
            raise faults(*found)
        return self


def _repeated_stages(stages: tuple[StageConfig, ...]) -> list[tuple[At, str]]:
    names = [stage.name for stage in stages]
    return [
        (("stages", i, "name"), f"{name!r} stands twice; each stage needs a name of its own")
        for i, name in enumerate(names)
        if name in names[:i]
    ]


def _loop_faults(config: RunConfig) -> list[tuple[At, str]]:
    """`slime_train_async` and `rollout.asynchronous` are one key, and bound the weights' age."""
    found: list[tuple[At, str]] = []
    option = config.algorithm.hyperparameters.prefixed("slime").get("train_async")
    slime, ours = config.algorithm.backend == "slime", config.rollout.asynchronous
    if slime and isinstance(option, bool) and option != ours:
        text = (
            f"{_said(option)} contradicts rollout.asynchronous: {_said(ours)}; they are the same "
            "key, keep one"
        )
        found.append((("algorithm", "hyperparameters", "slime_train_async"), text))
    if config.asynchronous and config.rollout.max_staleness == 0:
        text = "0 allows no older weights, and an asynchronous batch is one update old; use 1"
        found.append((("rollout", "max_staleness"), text))
    return found


def _said(value: bool) -> str:
    return str(value).lower()


def _meant_for_sft(given: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if key not in ROWS or key in SFT_KEYS}
