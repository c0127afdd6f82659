"""What the model is told about a tool."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional, TypedDict

import pytest
from pydantic import BaseModel, Field

from retrain.environment import ToolEnvironment, tool
from retrain.errors import ConfigError


class Unit(enum.Enum):
    CELSIUS = "celsius"
    KELVIN = "kelvin"


@dataclass
class Point:
    x: int
    title: str = "here"


class Box(TypedDict, total=False):
    corner: Point
    label: str


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


def parameters(function: Any) -> dict[str, Any]:
    schema = tool(function).schema["function"]["parameters"]
    json.dumps(schema)
    return schema


def test_a_plain_function_has_the_form_of_transformers_get_json_schema() -> None:
    @tool
    def weather(city: str, days: int = 1) -> str:
        """Say what the weather will be.

        It may be wrong.

        Args:
            city: Where, for
                example Paris.
            days: How many days.
        """
        return f"{city} {days}"

    assert weather.schema == {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Say what the weather will be.\n\nIt may be wrong.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Where, for example Paris."},
                    "days": {"type": "integer", "description": "How many days.", "default": 1},
                },
                "required": ["city"],
            },
        },
    }


def test_every_scalar_and_container_has_its_json_type() -> None:
    def many(a: str, b: int, c: float, d: bool, e: list[int], f: dict[str, float]) -> None:
        """Take many."""

    properties = parameters(many)["properties"]

    assert [properties[name]["type"] for name in "abcdef"] == [
        "string",
        "integer",
        "number",
        "boolean",
        "array",
        "object",
    ]
    assert properties["e"]["items"] == {"type": "integer"}
    assert properties["f"]["additionalProperties"] == {"type": "number"}


def test_closed_sets_become_enums() -> None:
    def convert(unit: Unit, mode: Literal["fast", "exact"] = "fast") -> None:
        """Convert."""

    properties = parameters(convert)["properties"]

    assert properties["unit"] == {"type": "string", "enum": ["celsius", "kelvin"]}
    assert properties["mode"] == {"type": "string", "enum": ["fast", "exact"], "default": "fast"}


def test_optional_is_nullable_and_a_union_is_any_of() -> None:
    def f(a: Optional[int] = None, b: str | None = None, c: int | str = 0) -> None:  # noqa: UP045
        """F."""

    properties = parameters(f)["properties"]

    assert properties["a"] == {"type": "integer", "nullable": True, "default": None}
    assert properties["b"] == {"type": "string", "nullable": True, "default": None}
    assert properties["c"]["anyOf"] == [{"type": "integer"}, {"type": "string"}]


def test_nested_types_are_written_in_place() -> None:
    def draw(boxes: list[Box], at: Point | None = None) -> None:
        """Draw."""

    schema = parameters(draw)
    point = {
        "type": "object",
        "properties": {
            "x": {"type": "integer"},
            "title": {"type": "string", "default": "here"},
        },
        "required": ["x"],
    }

    assert "$ref" not in json.dumps(schema)
    assert schema["properties"]["boxes"]["items"]["properties"]["corner"] == point
    assert schema["properties"]["at"] == {**point, "nullable": True, "default": None}


def test_a_type_that_contains_itself_keeps_its_reference() -> None:
    def plant(tree: Tree) -> None:
        """Plant."""

    schema = parameters(plant)

    assert schema["properties"]["tree"] == {"$ref": "#/$defs/Tree"}
    assert schema["$defs"]["Tree"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}


@pytest.mark.parametrize(
    "docstring",
    [
        "Add.\n\nArgs:\n    x: The first.\n",
        "Add.\n\nParameters\n----------\nx : int\n    The first.\n",
        "Add.\n\n:param x: The first.\n",
    ],
    ids=["google", "numpy", "rest"],
)
def test_descriptions_come_from_any_docstring_style(docstring: str) -> None:
    def add(x: int) -> int:
        return x

    add.__doc__ = docstring
    function = tool(add).schema["function"]

    assert function["description"] == "Add."
    assert function["parameters"]["properties"]["x"]["description"] == "The first."


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]


def test_a_union_of_models_is_written_in_place() -> None:
    def adopt(pets: list[Annotated[Cat | Dog, Field(discriminator="kind")]]) -> None:
        """Adopt."""

    schema = parameters(adopt)["properties"]["pets"]

    kinds = [one["properties"]["kind"]["const"] for one in schema["items"]["oneOf"]]
    assert kinds == ["cat", "dog"]
    assert "$defs" not in json.dumps(schema)


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


def test_defaults_are_written_as_json() -> None:
    def act(
        level: Level = Level.HIGH,
        at: Point = Point(1),  # noqa: B008
        rows: list[dict[str, int]] = [{"a": 1}],  # noqa: B006
        pair: tuple[int, str] = (1, "a"),
    ) -> None:
        """Act."""

    properties = parameters(act)["properties"]

    assert properties["level"] == {"type": "integer", "enum": [1, 2], "default": 2}
    assert properties["at"]["default"] == {"x": 1, "title": "here"}
    assert properties["rows"]["default"] == [{"a": 1}]
    assert properties["rows"]["items"]["additionalProperties"] == {"type": "integer"}
    assert properties["pair"]["prefixItems"] == [{"type": "integer"}, {"type": "string"}]


def test_bounds_and_a_description_come_from_an_annotation_too() -> None:
    def roll(dice: Annotated[int, Field(ge=1, le=6, description="How many.")] = 2) -> None:
        """Roll."""

    def documented(dice: Annotated[int, Field(description="Not this.")]) -> None:
        """Roll.

        Args:
            dice: This.
        """

    assert parameters(roll)["properties"]["dice"] == {
        "type": "integer",
        "description": "How many.",
        "default": 2,
        "minimum": 1,
        "maximum": 6,
    }
    assert parameters(documented)["properties"]["dice"]["description"] == "This."


def test_a_function_without_parameters_takes_an_empty_object() -> None:
    def now() -> str:
        """Tell the time."""
        return "noon"

    assert parameters(now) == {"type": "object", "properties": {}}


def test_self_is_not_an_argument_of_a_method() -> None:
    class World(ToolEnvironment):
        @tool
        def look(self, where: str) -> str:
            """Look."""
            return where

        @staticmethod
        @tool
        def wait(seconds: int) -> str:
            """Wait."""
            return str(seconds)

    names = [schema["function"]["name"] for schema in World().tools]
    properties = [schema["function"]["parameters"]["properties"] for schema in World().tools]

    assert names == ["look", "wait"]
    assert [list(p) for p in properties] == [["where"], ["seconds"]]


def test_a_tool_needs_no_docstring() -> None:
    def add(x: int) -> int:
        return x

    assert tool(add).schema["function"]["description"] == ""


def test_only_a_function_can_be_a_tool() -> None:
    with pytest.raises(ConfigError, match="put @tool below @staticmethod"):
        tool(classmethod(lambda cls: None))  # type: ignore[arg-type]


def test_the_name_and_description_can_be_set() -> None:
    @tool(name="sum", description="Adds.")
    def add(x: int) -> int:
        """Another."""
        return x

    assert (add.name, add.schema["function"]["description"]) == ("sum", "Adds.")


def test_argument_names_that_pydantic_reserves_work() -> None:
    def odd(schema: str, _private: int, model_config: bool) -> None:
        """Odd."""

    assert list(parameters(odd)["properties"]) == ["schema", "_private", "model_config"]


def no_hint(x) -> None:  # type: ignore[no-untyped-def]
    """X."""


def unknown_hint(x: Missing) -> None:  # type: ignore[name-defined]  # noqa: F821
    """X."""


def many_values(*values: int) -> None:
    """X."""


@dataclass
class Crate:
    box: Box


def a_crate(x: Crate) -> None:
    """X."""


def a_wrong_pattern(x: Annotated[str, Field(pattern="(")]) -> None:
    """X."""


def a_class_of_ours(x: ToolEnvironment) -> None:
    """X."""


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (no_hint, "parameter 'x' needs a type hint"),
        (unknown_hint, "Missing"),
        (many_values, "by name"),
        (a_class_of_ours, "JSON cannot express"),
        (a_crate, "typing_extensions.TypedDict"),
        (a_wrong_pattern, "cannot be checked: .*unclosed group"),
        (lambda x: x, "a tool's name"),
    ],
    ids=["no hint", "unknown hint", "varargs", "not JSON", "nested", "pattern", "lambda"],
)
def test_a_tool_that_cannot_be_described_is_refused_by_name(function: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as raised:
        tool(function).schema  # noqa: B018 - the property raises

    assert function.__name__ in str(raised.value)
