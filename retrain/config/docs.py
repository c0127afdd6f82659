"""Render docs/configuration.md from the models: `python -m retrain.config.docs [FILE]`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from retrain.config.hyperparameters import BRIDGE_OPTIONS
from retrain.config.row import Word
from retrain.config.run import RunConfig, StageConfig
from retrain.config.sections import SOURCES
from retrain.config.vocabulary import ROWS, Vocabulary
from retrain.written_pages import write_page

_TYPES = {str: "text", bool: "true or false", Path: "path", int: "int", float: "float"}
_SIGNS = {Gt: ("gt", ">"), Ge: ("ge", "≥"), Lt: ("lt", "<"), Le: ("le", "≤")}

_INTRODUCTION = """\
# Configuration

One YAML file describes a run. It is strict: an unknown key, a wrong type or a contradiction is an
error that names the line. Numbers are YAML 1.2's, so `1e-5` is a number and `yes` is text.
`retrain plan FILE` shows what a file resolves to.

This page is written by `python -m retrain.config.docs`; edit the code it is read from instead.

```yaml
experiment_name: calculator
model: {name_or_path: Qwen/Qwen3-0.6B}
environment: {type: calculator}
prompt_source: {type: jsonl, source_config: {path: tasks.jsonl}}
algorithm:
  name: grpo
  backend: trl          # the one key
  hyperparameters: {learning_rate: 1e-5, num_iterations: 20, rollout_batch_size: 4}
```

- Paths are relative to the file's folder; `output_dir`, and paths given with `--set`, to the
  working directory. A model's name is a path when it starts with `./`, `../` or `~`, or when it
  exists.
- `--set algorithm.hyperparameters.learning_rate=1e-5` lays a value over the file;
  `--set stages.0.algorithm.backend=slime` reaches into a stage. Values are YAML.
- A copy of the resolved file stands in the run folder, without credentials: the value of a key such
  as `api_key`, `hf_token` or `password` is written as `<redacted>`.
"""

_ENVIRONMENT_SOURCE = """\
### `source_config` of `type: environment`

The arguments of the environment's class method `tasks`; [prompts.md](prompts.md) describes it.
"""

_STAGES = """\
## `stages`

A list of trainings that follow each other, each from the weights of the one before. A stage is a
`name` and any of the sections above, which it lays over the file key by key; what it does not name,
it inherits. Its run folder is `<output_dir>/stages/NAME`.

- A section whose `type` the stage changes (`environment`, `prompt_source`) is replaced as a whole.
- A key replaces its synonyms, and `num_epochs` replaces `num_iterations`.
- An `sft` stage inherits only the hyperparameters that mean something to it, but all `trl_X`: write
  what only `grpo` knows (`trl_use_vllm`) into its own stage.
- A stage that names its own `algorithm.backend` keeps it, whatever `--backend` says.
- `experiment_name`, `output_dir` and `stages` cannot stand in a stage.
"""

_HYPERPARAMETERS = """\
## `algorithm.hyperparameters`

retrain's defaults win over the frameworks' and are sent to each, so that changing the backend does
not change the algorithm. A synonym is another spelling of the key; both with different values is an
error. For `sft`, a key without the mark is an error.
"""

_OPTIONS = """\
### The frameworks' own options

`trl_X`, `slime_X` and `torch_X` reach the framework's option X. All prefixes may stand in one file;
only the chosen backend's are used, and it checks them against the framework's own options and
types. An option beats retrain's default. Where the table names it without a note it is the key
itself (`slime_rollout_temperature` is `temperature`), so setting both to different values is an
error. Those of `torch` stand in [native_loop.md](native_loop.md#options).

These are answered by the backend itself:
"""


def render() -> str:
    """The whole page."""
    parts = [_INTRODUCTION, *_sections(RunConfig, ""), *_source_sections()]
    parts += [_ENVIRONMENT_SOURCE, _STAGES]
    return "\n".join([*parts, _HYPERPARAMETERS, _vocabulary(), _OPTIONS, _bridge_options()])


def _sections(model: type[BaseModel], at: str) -> Iterator[str]:
    title = f"## `{at}`" if at else "## The file"
    yield f"{title}\n\n{_table(model)}"
    for name, field in model.model_fields.items():
        for inner in _models(field.annotation):
            if not issubclass(inner, Vocabulary | StageConfig):
                yield from _sections(inner, f"{at}.{name}".lstrip("."))


def _source_sections() -> Iterator[str]:
    for name, model in SOURCES.items():
        yield f"### `source_config` of `type: {name}`\n\n{_table(model)}"


def _table(model: type[BaseModel]) -> str:
    rows = (
        (f"`{name}`", _type(field), _default(field), field.description or "")
        for name, field in model.model_fields.items()
    )
    return _markdown(("Key", "Type", "Default", "Means"), rows)


def _vocabulary() -> str:
    rows = (
        (
            ", ".join(f"`{word}`" for word in (key, *row.synonyms)),
            _type(Vocabulary.model_fields[key]),
            row.default or _default(Vocabulary.model_fields[key]),
            row.meaning,
            "yes" if row.sft else "",
            _word(row.trl),
            _word(row.slime),
        )
        for key, row in ROWS.items()
    )
    return _markdown(("Key", "Type", "Default", "Means", "sft", "TRL", "slime"), rows)


def _bridge_options() -> str:
    rows = ((f"`{key}`", meaning) for key, meaning in BRIDGE_OPTIONS.items())
    return _markdown(("Key", "Means"), rows)


def _word(word: Word) -> str:
    return ": ".join(part for part in (word.option and f"`{word.option}`", word.note) if part)


def _markdown(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(header)
    lines = [names, ["---"] * len(names), *(list(row) for row in rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default_factory is not None:
        value = field.get_default(call_default_factory=True, validated_data={})
        return "" if isinstance(value, BaseModel) else f"`{_yaml(value)}`"
    if field.validate_default and field.default is None:
        return "`runs/EXPERIMENT_NAME`"
    return f"`{_yaml(field.default)}`"


def _yaml(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _type(field: FieldInfo) -> str:
    return f"{_named(field.annotation)} {', '.join(_limits(field.annotation, field))}".strip()


def _limits(annotation: Any, field: FieldInfo | None = None) -> Iterator[str]:
    found = [*(field.metadata if field else ()), *getattr(annotation, "__metadata__", ())]
    for limit in found:
        if isinstance(limit, FieldInfo):
            yield from _limits(None, limit)
        for kind, (name, sign) in _SIGNS.items():
            if isinstance(limit, kind):
                yield f"{sign} {getattr(limit, name)}"
    for part in get_args(annotation):
        yield from _limits(part)


def _named(annotation: Any) -> str:
    arguments = [part for part in get_args(annotation) if part is not type(None)]
    origin = get_origin(annotation)
    if origin is Literal:
        return ", ".join(f"`{choice}`" for choice in arguments)
    if origin is dict and arguments[1] is not Any:
        return "mapping by name"
    if origin in (list, tuple):
        return "list"
    if origin is dict:
        return "mapping"
    if hasattr(annotation, "__metadata__") or len(arguments) == 1:
        return _named(arguments[0])
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section"
    if origin in (Union, UnionType):
        return " or ".join(map(_named, arguments))
    return _TYPES[annotation]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def main() -> None:
    """Write the page to the file named, or to docs/configuration.md."""
    write_page(render(), "docs/configuration.md")


if __name__ == "__main__":
    main()
