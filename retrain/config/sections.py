"""The sections of the configuration, other than `algorithm:`."""

from __future__ import annotations

from datetime import date as calendar_date
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from retrain.config.peft import PeftConfig
from retrain.config.section import JsonMapping, NameOrMapping, Positive, Section, Texts, faults


class ModelConfig(Section):
    """The model that is trained."""

    name_or_path: str = Field(
        min_length=1, description="a name on the Hugging Face Hub, or a folder"
    )
    torch_dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        default="auto",
        description="the type of the weights; auto is float32, with bfloat16 autocast on a GPU",
    )
    trust_remote_code: bool = Field(default=False, description="run code that the model brings")
    peft: PeftConfig | None = Field(default=None, description="adapters; null trains it all")
    revision: str | None = Field(default=None, description="branch, tag or commit on the Hub")
    tokenizer: str | None = Field(default=None, description="another tokenizer than the model's")
    threads: Positive | None = Field(default=None, description="CPU threads of torch")


class EnvironmentConfig(Section):
    """The world that the model acts in."""

    type: str = Field(min_length=1, description="a registered name, or package.module:Class")
    env_specific_config: JsonMapping = Field(
        default_factory=dict, description="the environment's own settings"
    )
    agents: dict[str, NameOrMapping] = Field(
        default_factory=dict,
        description="of an environment with several agents: who plays those that are not trained, "
        "policy (the model, untrained), chat or package.module:Class, alone or as "
        "{name: …, PARAMETER: …}; every other agent is trained",
    )


class RowKeysConfig(Section):
    """Which key of a row holds what."""

    id_key: str = Field(default="id", description="key of the task's id")
    prompt_key: str = Field(default="prompt", description="key of the prompt: text, or messages")
    label_key: str = Field(default="label", description="key of the expected answer")
    images_key: str = Field(default="images", description="key of the prompt's images")


class ListSourceConfig(RowKeysConfig):
    """`type: list`: the rows stand in the configuration."""

    items: list[Any] = Field(min_length=1, description="prompts, or rows as in a JSONL file")


class JsonlSourceConfig(RowKeysConfig):
    """`type: jsonl`: one JSON object a line."""

    path: str = Field(min_length=1, description="the file")


class DatasetSourceConfig(RowKeysConfig):
    """`type: dataset`: rows of a Hugging Face dataset."""

    path: str = Field(
        min_length=1,
        description="a dataset on the Hugging Face Hub (openai/gsm8k), a folder of data files or "
        "one that save_to_disk wrote, or a parquet, arrow, json, jsonl, csv or tsv file",
    )
    name: str | None = Field(
        default=None, min_length=1, description="its configuration, where it has several (main)"
    )
    split: str = Field(
        default="train", min_length=1, description="its split, or a part of one (train[:10%])"
    )
    revision: str | None = Field(default=None, description="branch, tag or commit on the Hub")
    columns: Annotated[tuple[str, ...] | None, Field(strict=False)] = Field(
        default=None, description="columns that become metadata; null: all"
    )
    limit: Positive | None = Field(default=None, description="rows, from the first one; null: all")


SOURCES: dict[str, type[BaseModel]] = {
    "list": ListSourceConfig,
    "jsonl": JsonlSourceConfig,
    "dataset": DatasetSourceConfig,
}
"""The prompt sources whose settings are known here; an environment checks its own."""


class PromptSourceConfig(Section):
    """Where the tasks come from."""

    type: Literal["list", "jsonl", "dataset", "environment"] = Field(
        description="the kind; environment: the environment's class makes the tasks"
    )
    source_config: JsonMapping = Field(
        default_factory=dict, validate_default=True, description="what this kind needs"
    )
    system_prompt: str | None = Field(
        default=None,
        min_length=1,
        description="a system message before every prompt that does not begin with one; that of "
        "the evaluation is this one where it has none",
    )

    @field_validator("source_config")
    @classmethod
    def _known(cls, value: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        model = SOURCES.get(info.data.get("type", ""))
        if model is None:
            return value
        try:
            return model.model_validate(value).model_dump()
        except ValidationError as error:
            inner = {"errors": error.errors(), "model": model}
            raise PydanticCustomError("nested", "does not fit", inner) from error


class ImagesConfig(Section):
    """What images may be."""

    allow_urls: bool = Field(default=False, description="fetch images from the network")
    max_bytes: Positive = Field(default=20_000_000, description="most bytes of an image file")
    max_pixels: Positive = Field(
        default=33_000_000, description="most pixels of an image, before it is resized"
    )


class RenderingConfig(Section):
    """How messages become tokens."""

    history: Literal["keep", "template"] = Field(
        default="keep", description="append only, or as the template rewrites it (new segments)"
    )
    tool_format: str = Field(default="auto", description="how tool calls are written")
    date: str = Field(
        default="2024-07-26", description="what templates that ask for the date are told"
    )
    stop_token_ids: Annotated[tuple[int, ...], Field(strict=False)] = Field(
        default=(), description="further tokens that end a turn"
    )
    images: ImagesConfig = Field(default_factory=ImagesConfig, description="what images may be")

    @field_validator("date")
    @classmethod
    def _a_date(cls, value: str) -> str:
        try:
            return calendar_date.fromisoformat(value).isoformat()
        except ValueError:
            raise faults(((), f"expected a date, YYYY-MM-DD, got {value!r}")) from None


class EvaluationConfig(Section):
    """Held-out episodes."""

    prompt_source: PromptSourceConfig = Field(description="as above")
    n_samples_per_prompt: Positive = Field(default=1, description="episodes per prompt")
    temperature: float | None = Field(default=None, ge=0, description="null: as in training")
    interval: Positive | None = Field(default=None, description="iterations; null: eval_interval")


class SlimeLaptopConfig(Section):
    """Checkouts that let slime run without a GPU; other backends ignore it."""

    slime: str | None = Field(
        default=None, min_length=1, description="slime's checkout; null: $RETRAIN_SLIME"
    )
    megatron: str | None = Field(
        default=None,
        min_length=1,
        description="Megatron-LM's checkout, with slime's patches; null: $RETRAIN_MEGATRON",
    )


class ClusterConfig(Section):
    """Where slime runs; other backends ignore it."""

    address: str | None = Field(
        default=None,
        description="Ray's job server (http://HEAD:8265); null: $RAY_API_SERVER_ADDRESS, or a "
        "private Ray on this machine",
    )
    slime: str | None = Field(
        default=None,
        description="slime's checkout on the nodes; null: where slime is imported from",
    )
    megatron: str | None = Field(
        default=None, description="Megatron-LM's checkout; null: where megatron is imported from"
    )
    python_path: Texts = Field(
        default=(), description="further folders that the nodes import from, the user's modules"
    )
    env_vars: dict[str, str] = Field(
        default_factory=dict, description="environment variables of the job"
    )
