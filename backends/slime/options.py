"""`slime_X` options: checked by name, type, number of values and choice before slime sees them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from backends.slime.flags import Flag, known_flags
from backends.slime.options_refused import ONLY_AT, REFUSED, SLIME_MANAGER_ONLY
from retrain.config import BRIDGE_OPTIONS, ROWS, RunConfig
from retrain.errors import ConfigError, nearest

PREFIX = "algorithm.hyperparameters.slime_"

OWN_OPTIONS = frozenset(key.removeprefix("slime_") for key in BRIDGE_OPTIONS)
"""Prefixed keys that this backend answers itself."""

_RESOLVED = frozenset(
    row.slime.option for row in ROWS.values() if row.slime.option and row.slime.same
)
"""Options that are a key of the vocabulary in slime's word: the configuration has resolved them."""

_JSON_KINDS = ("loads", "json_list_type")
_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "int": ((int,), "an integer"),
    "float": ((int, float), "a number"),
    "str": ((str,), "text"),
    "nullable_str": ((str,), "text"),
    "human_readable_int": ((int, str), "an integer"),
    "enum_type_handler": ((str, int), "a name"),
}


def check_options(
    config: RunConfig, declared: Mapping[str, Flag] = MappingProxyType({})
) -> dict[str, Any]:
    """The `slime_X` options that go to slime, as they are.

    Args:
        config: The run.
        declared: What the slime on this machine declares: options that the tested one has not,
            and other choices.

    Raises:
        ConfigError: Listing every option that slime does not have, whose value it does not take,
            or that would undo what retrain does.
    """
    flags = {**known_flags(), **{n: f for n, f in declared.items() if f.choices}}
    flags = {**declared, **flags}
    checked: dict[str, Any] = {}
    wrong: list[str] = []
    for name, value in config.algorithm.hyperparameters.prefixed("slime").items():
        fault = _fault(name, value, config, flags)
        if fault is not None:
            wrong.append(f"{PREFIX}{name}: {fault}")
        elif name not in OWN_OPTIONS and name not in _RESOLVED and name not in ONLY_AT:
            checked[name] = value
    if wrong:
        raise ConfigError("\n".join(wrong))
    return checked


def own_option(config: RunConfig, name: str, default: bool) -> bool:
    """The value of a `slime_X` switch that this backend answers to."""
    return bool(config.algorithm.hyperparameters.prefixed("slime").get(name, default))


def _fault(name: str, value: Any, config: RunConfig, flags: Mapping[str, Flag]) -> str | None:
    """What is wrong with an option; None where nothing is."""
    if name in OWN_OPTIONS:
        return _own_fault(name, value)
    reason = _refusal(name, value, config)
    if reason is not None:
        return f"is refused: {reason}"
    if name in flags:
        return value_fault(flags[name], value)
    return f"slime has no option {name!r}; {_suggestion(name)}"


def _own_fault(name: str, value: Any) -> str | None:
    if not isinstance(value, bool):
        return f"expected true or false, got {value!r}"
    if name.startswith("use_retrain_") and not value:
        what = name.removeprefix("use_retrain_")
        return f"is refused: false would leave retrain's {what} out; use slime without retrain"
    return None


def _refusal(name: str, value: Any, config: RunConfig) -> str | None:
    if name in REFUSED:
        return REFUSED[name]
    if name in SLIME_MANAGER_ONLY and config.rollout.owner == "retrain":
        return SLIME_MANAGER_ONLY[name]
    if name in ONLY_AT and value != ONLY_AT[name][0]:
        return ONLY_AT[name][1]
    if name in ("bf16", "fp16") and value != (half_precision(config) == name):
        return f"model.torch_dtype {config.model.torch_dtype} trains in {half_precision(config)}"
    if name == "advantage_estimator" and value != estimator(config):
        return f"algorithm.name {config.algorithm.name} is {estimator(config)} here; set that"
    if name == "router_policy" and value == "consistent_hashing":
        return "sglang-router 0.3.2 does not know it, though slime asks for it; use cache_aware"
    if name == "eps_clip_c" and value is not None:
        return "retrain's loss has no dual clip; TRL's delta is another formula"
    return None


def half_precision(config: RunConfig) -> str:
    """What Megatron trains in; its master weights and its optimizer are float32."""
    return "fp16" if config.model.torch_dtype == "float16" else "bf16"


def estimator(config: RunConfig) -> str:
    """Slime's advantage estimator: gspo's ratio is the sequence's, all others are grpo here."""
    return "gspo" if config.algorithm.name == "gspo" else "grpo"


def _suggestion(name: str) -> str:
    for flag in known_flags().values():
        if flag.dest == name:
            return f"{flag.spelling} is the option for it, so write slime_{flag.name}"
    return nearest(name, known_flags().keys() | OWN_OPTIONS)


def value_fault(flag: Flag, value: Any) -> str | None:
    """What is wrong with a value; None where slime takes it."""
    if value is None:
        return None
    if flag.switch:
        return None if isinstance(value, bool) else f"expected true or false, got {value!r}"
    if flag.kind in _JSON_KINDS:
        return _json_fault(value)
    if flag.nargs == "?" and value is True:
        return None
    if flag.several or (flag.repeatable and isinstance(value, list | tuple)):
        return _list_fault(flag, value)
    return _one_fault(flag, value)


def _list_fault(flag: Flag, value: Any) -> str | None:
    values = value if isinstance(value, list | tuple) else [value]
    if isinstance(flag.nargs, int) and len(values) != flag.nargs:
        return f"expected a list of {flag.nargs} values, got {len(values)}"
    if flag.nargs == "+" and not values:
        return "expected a list that is not empty"
    for item in values:
        fault = _one_fault(flag, item)
        if fault is None and isinstance(item, str) and item.startswith("-"):
            fault = f"{item!r} would be read as an option of its own"
        if fault is not None:
            return fault
    return None


def _one_fault(flag: Flag, value: Any) -> str | None:
    types, expected = _TYPES.get(flag.kind, ((str, int, float, list, bool), "one value"))
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        return f"expected {expected}, got {value!r}"
    if flag.choices and str(value) not in flag.choices:
        return f"{value!r} is none of {', '.join(flag.choices)}; {_near(value, flag)}"
    return None


def _near(value: Any, flag: Flag) -> str:
    return nearest(str(value), flag.choices)


def _json_fault(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        json.loads(value)
    except ValueError as error:
        return f"expected a mapping, a list, or JSON as text, got {value!r} ({error})"
    return None
