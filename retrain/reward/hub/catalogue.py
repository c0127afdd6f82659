"""The names of the hub, and where their rules live."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, cast

from retrain.errors import ConfigError, MissingDependency, nearest
from retrain.registry import load_object

BOXED = "boxed_"
"""Before a name: the rule sees what the last box of the response holds."""

RULES: Mapping[str, str] = {
    "math": "math_answer:math",
    "deepscaler": "math_answer:deepscaler",
    "dapo": "dapo:dapo",
    "exact": "texts:exact",
    "regex": "texts:regex",
    "f1": "f1:f1",
    "gpqa": "gpqa:gpqa",
    "json_schema": "texts:json_schema",
    "ifbench": "ifbench:ifbench",
    "length": "length:length",
    "repetition": "shape:repetition",
    "format": "shape:format",
    "code": "code_answer:code",
}
"""A rule's function by its name, below `retrain.reward.hub`."""

SLIME = frozenset({"math", "deepscaler", "dapo", "f1", "gpqa", "ifbench"})
"""The rules that slime has under the same name: they take `compat="slime"`."""

KEYED = frozenset({"dapo"})
"""The rules that give several values by name; their rewards take `reward_key`."""

SERVICES: Mapping[str, str] = {"remote": "remote:Remote", "llm_judge": "judge:Judge"}
"""The class of what asks a server, by its name, below `retrain.reward.hub`."""

MODELS: Mapping[str, str] = {"reward_model": "reward_model:reward_model"}
"""What makes a reward of a model in this process, by its name, below `retrain.reward.hub`."""

NAMES = (*RULES, *(f"{BOXED}{name}" for name in RULES))
SERVICE_NAMES = (*SERVICES, *(f"{BOXED}{name}" for name in SERVICES))

_NEEDS = {
    "math": ("math_verify", "retrain[math]"),
    "deepscaler": ("math_verify", "retrain[math]"),
    "dapo": ("math_verify", "retrain[math]"),
    "json_schema": ("jsonschema", "retrain[json-schema]"),
}


def plain_name(name: str) -> str:
    """A rule's name without the mark that it sees a box only."""
    return name.removeprefix(BOXED)


def load_rule(name: str) -> Callable[..., Any]:
    """The function of a rule; a box is not taken out here.

    Args:
        name: Its name, with or without `boxed_`.

    Raises:
        ConfigError: There is no such rule; the message names the nearest one.
        MissingDependency: It needs a package that is not installed.
    """
    plain = plain_name(name)
    if plain not in RULES:
        if plain in SERVICES:
            raise ConfigError(f"{name!r} asks a server; it cannot be a part of another rule")
        if plain in MODELS:
            raise ConfigError(f"{name!r} reads whole conversations; it is no rule over one answer")
        known = (*NAMES, *SERVICE_NAMES, *MODELS)
        raise ConfigError(f"the reward hub has no {name!r}; {nearest(name, known)}")
    if plain in _NEEDS:
        require(*_NEEDS[plain], what=f"reward {name!r}")
    target = f"{__package__}.{RULES[plain]}"
    return cast("Callable[..., Any]", load_object(target, f"reward {name!r}"))


def require(module: str, package: str, *, what: str) -> None:
    """Check that an optional package is installed, without importing it.

    Args:
        module: What is imported.
        package: What brings it.
        what: What needs it, for the message.

    Raises:
        MissingDependency: It is not; the message holds the command that installs it.
    """
    if find_spec(module) is None:
        raise MissingDependency(f"{what} needs {module}; install it with: pip install '{package}'")
