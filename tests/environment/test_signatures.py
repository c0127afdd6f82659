"""Keyword arguments from the configuration, checked against what a callable takes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Optional, TypedDict, Union

import pytest
from pydantic import Field

from retrain.errors import ConfigError
from retrain.signatures import check_config, signature_of


class Range(TypedDict, total=False):
    low: int
    high: int


class Custom:
    """A type that only Python knows."""


def narrow(
    span: Range,
    spans: Union[list[Range], None] = None,  # noqa: UP007
    named: Optional[dict[str, Range]] = None,  # noqa: UP045
    few: Annotated[list[Range], Field(max_length=1)] = [],  # noqa: B006
    either: int | Range = 0,
) -> None: ...


def loose(later: Missing, made: Custom | None = None, **rest: int) -> None: ...  # type: ignore[name-defined]  # noqa: F821


@dataclass
class Holder:
    span: Range


def holds(holder: Holder, size: int = 1) -> None: ...


def calls(back: Callable[[int], int], made: Custom) -> None: ...


class Base:
    def __init__(self, size: int = 1, *, name: str = "") -> None: ...


class Middle(Base):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)


class Derived(Middle):
    def __init__(self, depth: int, **options: Any) -> None:
        super().__init__(**options)


class Bare: ...


def test_dictionaries_of_a_declared_form_are_checked_at_any_depth() -> None:
    good = {"span": {"low": 1}, "spans": [{}], "named": {"a": {"high": 2}}, "either": {"low": 3}}

    assert check_config(narrow, good, "k") == good
    for bad in (
        {"span": {"lo": 1}},
        {"span": {}, "spans": [{"low": "1"}]},
        {"span": {}, "named": {"a": 1}},
        {"span": {}, "few": [{}, {}]},
    ):
        with pytest.raises(ConfigError, match=r"^k\."):
            check_config(narrow, bad, "k")


def test_what_has_no_readable_type_is_taken_as_it_is() -> None:
    values = {"later": object(), "rest": "x", "made": 3}

    assert check_config(loose, values, "k") == values
    assert check_config(holds, {"holder": 1, "size": 2}, "k") == {"holder": 1, "size": 2}


def test_objects_that_are_no_json_are_checked_by_their_class() -> None:
    values = {"back": abs, "made": Custom()}

    assert check_config(calls, values, "k") == values
    with pytest.raises(ConfigError, match=r"k\.made: .*instance of Custom"):
        check_config(calls, {"back": abs, "made": object()}, "k")


@pytest.mark.parametrize(
    ("target", "names", "is_open"),
    [
        (Base, ["size", "name"], False),
        (Derived, ["depth", "size", "name"], False),
        (Bare, [], False),
        (functools.partial(calls, abs), ["made"], False),
        (loose, ["later", "made"], True),
        (Base().__init__, ["size", "name"], False),  # type: ignore[misc]
    ],
)
def test_the_arguments_of_any_callable(
    target: Callable[..., Any], names: list[str], is_open: bool
) -> None:
    signature = signature_of(target)

    assert [argument.name for argument in signature.arguments] == names
    assert signature.open is is_open


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"depht": 1}, "k.depht: Derived takes no 'depht'; did you mean 'depth'"),
        ({}, "k.depth: missing; Derived needs it"),
        ({"depth": 1, "size": 1.5}, "k.size: .*integer.*got 1.5"),
        ({"depth": 1, "size": "x" * 200}, r"got 'x{70,}\.\.\."),
    ],
)
def test_every_fault_is_named_by_its_key(values: Mapping[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_config(Derived, values, "k")


def test_names_that_the_caller_supplies_cannot_be_set() -> None:
    with pytest.raises(ConfigError, match="takes no 'depth'"):
        check_config(Derived, {"depth": 1}, "k", skip=["depth"])
    assert check_config(Derived, {"size": 1}, "k", skip=["depth"]) == {"size": 1}
