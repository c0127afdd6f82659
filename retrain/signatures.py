"""What a callable takes: its named parameters as a pydantic model, and checks against it.

Tools check the model's arguments with it, and the configuration checks `params` and
`env_specific_config` with it before anything starts.
"""

from __future__ import annotations

import inspect
import json
import sys
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import typing_extensions
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic_core import SchemaError

from retrain.errors import ConfigError, nearest

_IN_WORDS = {"missing": "missing", "extra_forbidden": "there is no such argument"}
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument that can be passed by name.

    Attributes:
        name: Its name.
        hint: Its type; `Any` where there is no type hint.
        default: Its default; `inspect.Parameter.empty` where it is required.
        description: What the documentation says about it.
    """

    name: str
    hint: Any = Any
    default: Any = inspect.Parameter.empty
    description: str | None = None

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.default is inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Signature:
    """The arguments that a callable takes by name.

    Attributes:
        arguments: In the order written.
        open: Whether it takes any other name as well (`**kwargs` that lead nowhere known).
    """

    arguments: tuple[Argument, ...]
    open: bool = False


class ArgumentModel:
    """Validates values for arguments; fields are numbered, so that any argument name is possible.

    Args:
        what: What the arguments belong to ("tool add").
        arguments: The arguments.

    Raises:
        ConfigError: An argument's type cannot be described.
    """

    def __init__(self, what: str, arguments: Iterable[Argument]) -> None:
        numbered = {f"argument_{i}": argument for i, argument in enumerate(arguments)}
        self._names = {field: argument.name for field, argument in numbered.items()}
        config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
        fields: Any = {field: _field(argument) for field, argument in numbered.items()}
        try:
            self.model: type[BaseModel] = create_model("Arguments", __config__=config, **fields)
        except (PydanticUserError, PydanticUndefinedAnnotation) as error:
            raise ConfigError(f"{what}: {str(error).splitlines()[0]}") from error
        except SchemaError as error:
            reason = str(error).splitlines()[-1].strip()
            raise ConfigError(f"{what}: a type hint cannot be checked: {reason}") from error

    def validate(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Check and convert values, as leniently as pydantic does by default.

        Raises:
            pydantic.ValidationError: A value is missing, unknown or of a wrong type.
        """
        return self._given(self.model.model_validate(dict(values)))

    def validate_strictly(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Check values from a configuration file: "5" is not a number, but a list may be a tuple.

        Raises:
            pydantic.ValidationError: A value is missing, unknown or of a wrong type.
        """
        try:
            return self._given(self.model.model_validate(dict(values), strict=True))
        except ValidationError:
            try:
                text = json.dumps(dict(values))
            except (TypeError, ValueError):
                text = None
            if text is None:
                raise
            return self._given(self.model.model_validate_json(text, strict=True))

    def _given(self, model: BaseModel) -> dict[str, Any]:
        given = model.model_fields_set
        return {
            name: getattr(model, field) for field, name in self._names.items() if field in given
        }


def signature_of(target: Callable[..., Any], *, skip: Collection[str] = ()) -> Signature:
    """The arguments of a function, or of a class's `__init__`.

    Where a class passes `**kwargs` on, its base classes' arguments count too.

    Args:
        target: The function or class.
        skip: Names of arguments that the caller supplies itself.
    """
    functions = [target] if not inspect.isclass(target) else _initialisers(target)
    arguments: dict[str, Argument] = {}
    is_open = bool(functions)
    for function in functions:
        parameters = inspect.signature(function).parameters.values()
        hints = _hints(function)
        for parameter in parameters:
            name = parameter.name
            if parameter.kind in _BY_NAME and name not in skip and name not in arguments:
                arguments[name] = Argument(name, hints.get(name, Any), parameter.default)
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            is_open = False
            break
    if inspect.isclass(target):
        arguments.pop("self", None)
    return Signature(tuple(arguments.values()), is_open)


def check_config(
    target: Callable[..., Any], values: Mapping[str, Any], key: str, *, skip: Collection[str] = ()
) -> dict[str, Any]:
    """Check keyword arguments from the configuration against what a callable takes.

    Args:
        target: The function or class that they are for.
        values: The arguments by name.
        key: Where they stand in the configuration ("environment.env_specific_config").
        skip: Names of arguments that the caller supplies itself.

    Returns:
        The arguments, converted to the types that `target` declares.

    Raises:
        ConfigError: An unknown, missing or wrong argument, named with its key.
    """
    signature = signature_of(target, skip=skip)
    name = getattr(target, "__qualname__", repr(target))
    known = {argument.name: argument for argument in signature.arguments}
    for given in values:
        if given not in known and not signature.open:
            raise ConfigError(f"{key}.{given}: {name} takes no {given!r}; {nearest(given, known)}")
    for argument in signature.arguments:
        if argument.required and argument.name not in values:
            raise ConfigError(f"{key}.{argument.name}: missing; {name} needs it")
    typed = {given: _checkable(known[given]) for given in values if given in known}
    typed = {given: argument for given, argument in typed.items() if argument.hint is not Any}
    try:
        checked = ArgumentModel(name, typed.values()).validate_strictly(
            {given: values[given] for given in typed}
        )
    except ValidationError as error:
        raise ConfigError("; ".join(f"{key}.{problem}" for problem in problems(error))) from None
    return {given: checked.get(given, value) for given, value in values.items()}


def problems(error: ValidationError) -> list[str]:
    """What is wrong, one line per value: its path, what was expected, and what was given."""
    lines = []
    for item in error.errors(include_url=False):
        path = ".".join(str(part) for part in item["loc"])
        message = f"{item['msg'][:1].lower()}{item['msg'][1:]}, got {_shorten(item['input'])}"
        lines.append(f"{path}: {_IN_WORDS.get(item['type'], message)}")
    return lines


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _field(argument: Argument) -> tuple[Any, Any]:
    default = ... if argument.required else argument.default
    hint = portable(argument.hint)
    described: dict[str, Any] = {}
    if argument.description is not None:
        described["description"] = argument.description
    return hint, Field(default, alias=argument.name, **described)


def _initialisers(cls: type) -> list[Callable[..., Any]]:
    return [vars(base)["__init__"] for base in cls.__mro__[:-1] if "__init__" in vars(base)]


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    target = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    try:
        return typing.get_type_hints(target, include_extras=True)
    except (NameError, TypeError, AttributeError):
        return {}


def _checkable(argument: Argument) -> Argument:
    try:
        ArgumentModel(argument.name, [argument])
    except ConfigError:
        return Argument(argument.name, Any, argument.default)
    return argument


def portable(hint: Any) -> Any:
    """Replace `typing.TypedDict` classes in a type; before Python 3.12 pydantic refuses them."""
    if sys.version_info >= (3, 12):
        return hint
    if typing.is_typeddict(hint) and type(hint).__module__ == "typing":
        return _portable_typed_dict(hint)
    arguments = typing.get_args(hint)
    if not arguments or typing.get_origin(hint) is typing.Literal:
        return hint
    if typing.get_origin(hint) is typing.Annotated:
        return typing.Annotated[(portable(arguments[0]), *arguments[1:])]
    replaced = tuple(portable(argument) for argument in arguments)
    if replaced == arguments:
        return hint
    if isinstance(hint, type(int | str)):
        return typing.Union[replaced]  # noqa: UP007 - built from a tuple
    return hint.copy_with(replaced) if hasattr(hint, "copy_with") else hint.__origin__[replaced]


def _portable_typed_dict(hint: Any) -> Any:
    fields = {
        name: typing_extensions.Required[portable(field)]
        if name in hint.__required_keys__
        else typing_extensions.NotRequired[portable(field)]
        for name, field in typing.get_type_hints(hint).items()
    }
    return typing_extensions.TypedDict(hint.__name__, fields)  # type: ignore[operator]
