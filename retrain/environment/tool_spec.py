"""What the model is told about a tool, read off the function's type hints and docstring."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

from retrain.environment.base import ToolSchema
from retrain.environment.json_schema import shorten_schema
from retrain.errors import ConfigError
from retrain.signatures import Argument, ArgumentModel

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class _QuietGenerator(GenerateJsonSchema):
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic's


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model and the validator see it.

    Attributes:
        name: The name that the model calls.
        schema: {"type": "function", "function": {"name", "description", "parameters"}}.
        arguments: Validates the model's arguments.
    """

    name: str
    schema: ToolSchema
    arguments: ArgumentModel


def describe_tool(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    method: bool = False,
) -> ToolSpec:
    """Read a tool's description off its type hints and its docstring.

    Args:
        function: The function; its docstring may be in Google, NumPy or reST style.
        name: The name that the model calls; the function's own by default.
        description: What it does; the docstring's summary by default.
        method: Whether the first parameter is `self`, which the model does not give.

    Raises:
        ConfigError: A parameter without a type hint, of a type that JSON cannot express, or that
            cannot be passed by name.
    """
    tool_name = name or str(getattr(function, "__name__", ""))
    what = f"tool {tool_name or function!r}"
    if not _NAME.fullmatch(tool_name):
        raise ConfigError(f"{what}: a tool's name has 1 to 64 letters, digits, '_' or '-'")
    text, documented = _read_docstring(function)
    given = list(_arguments(function, what, documented, method))
    arguments = ArgumentModel(what, given)
    parameters = shorten_schema(_json_schema(arguments, given, what))
    parameters = {"type": "object", "properties": parameters.pop("properties", {}), **parameters}
    described = {"name": tool_name, "description": description or text, "parameters": parameters}
    return ToolSpec(tool_name, {"type": "function", "function": described}, arguments)


def _json_schema(
    arguments: ArgumentModel, given: Sequence[Argument], what: str
) -> Mapping[str, Any]:
    try:
        return arguments.model.model_json_schema(schema_generator=_QuietGenerator)
    except PydanticUserError as error:
        if len(given) > 1:
            for one in given:
                _json_schema(ArgumentModel(what, [one]), [one], what)
        reason = str(error).splitlines()[0]
        named = f"parameter {given[0].name!r}: " if len(given) == 1 else ""
        raise ConfigError(f"{what}: {named}JSON cannot express its type: {reason}") from error


def _arguments(
    function: Callable[..., Any], what: str, documented: Mapping[str, str], method: bool
) -> list[Argument]:
    hints = _type_hints(function, what)
    _refuse_images(hints.get("return"), what)
    parameters = list(inspect.signature(function).parameters.values())[1 if method else 0 :]
    arguments = []
    for parameter in parameters:
        name = parameter.name
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ConfigError(f"{what}: the model gives arguments by name, {parameter} has none")
        if name not in hints:
            raise ConfigError(f"{what}: parameter {name!r} needs a type hint, as in `{name}: str`")
        arguments.append(Argument(name, hints[name], parameter.default, documented.get(name)))
    return arguments


def _type_hints(function: Callable[..., Any], what: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(inspect.unwrap(function), include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise ConfigError(f"{what}: a type hint cannot be read: {error}") from error


def _refuse_images(hint: Any, what: str) -> None:
    """See at start-up that no tool says that it returns an image of another library's own kind."""
    for inner in typing.get_args(hint):
        _refuse_images(inner, what)
    module, name = getattr(hint, "__module__", ""), getattr(hint, "__name__", "")
    if name == "Image" and module.split(".")[0] in ("fastmcp", "mcp"):
        raise ConfigError(
            f"{what}: returns an image of MCP's ({module}.{name}); return retrain.images.Image, or "
            "a picture of Pillow"
        )


def _read_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    text = inspect.getdoc(function)
    if not text:
        return "", {}
    import docstring_parser  # not at the top: it costs 20 ms and only tools need it

    parsed = docstring_parser.parse(text)
    described = {p.arg_name: " ".join((p.description or "").split()) for p in parsed.params}
    summary = (parsed.short_description, parsed.long_description)
    return "\n\n".join(part for part in summary if part), {k: v for k, v in described.items() if v}
