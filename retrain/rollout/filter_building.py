"""How a batch is filled, from the configuration: its filters above all."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from retrain.config.rollout import RolloutConfig
from retrain.errors import ConfigError
from retrain.rollout.filling import OverSampling
from retrain.rollout.filters import FILTERS, GroupFilter, all_of, any_of, not_
from retrain.rollout.partial import find_buffer_filter
from retrain.signatures import check_config

_COMBINATIONS = {"all_of": all_of, "any_of": any_of}


def over_sampling(rollout: RolloutConfig, batch_size: int) -> OverSampling:
    """How a batch is filled.

    Args:
        rollout: The configuration's section.
        batch_size: Groups of a batch; of several processes, of the share of one.

    Raises:
        ConfigError: The filter or the buffer filter is wrong.
    """
    return OverSampling(
        batch_size,
        rollout.over_sampling_factor,
        filter=None if rollout.filter is None else make_filter(rollout.filter),
        buffer_filter=find_buffer_filter(rollout.buffer_filter),
        max_staleness=rollout.max_staleness,
        max_refills=rollout.max_refills,
        fallback=rollout.filter_fallback,
        partial=rollout.partial,
        mask_stale=rollout.mask_stale_tokens,
    )


def make_filter(spec: str | Mapping[str, Any], key: str = "rollout.filter") -> GroupFilter:
    """Make the filter that a configuration describes.

    Args:
        spec: A name or import path; {"name": …} with the filter's parameters beside it;
            {"all_of": [spec, …]}, {"any_of": [spec, …]} or {"not": spec}.
        key: Where it stands in the configuration, for messages.

    Raises:
        ConfigError: There is no such filter, or a parameter is unknown, missing or wrong.
    """
    if isinstance(spec, str):
        return _named(spec, {}, key)
    options = dict(spec)
    kinds = [kind for kind in (*_COMBINATIONS, "not", "name") if kind in options]
    if len(kinds) != 1 or (kinds != ["name"] and len(options) != 1):
        raise ConfigError(
            f"{key}: expected a name, or exactly one of name (with its parameters), all_of, any_of "
            f"and not; got {', '.join(options) or 'nothing'}"
        )
    (kind,) = kinds
    value = options.pop(kind)
    if kind == "name":
        return _named(value, options, key)
    if kind == "not":
        return not_(make_filter(_spec(value, f"{key}.not"), f"{key}.not"))
    if not isinstance(value, list | tuple) or not value:
        raise ConfigError(f"{key}.{kind}: expected a list of filters, got {value!r:.60}")
    places = [(part, f"{key}.{kind}[{number}]") for number, part in enumerate(value)]
    return _COMBINATIONS[kind](*(make_filter(_spec(part, at), at) for part, at in places))


def _named(name: object, options: Mapping[str, Any], key: str) -> GroupFilter:
    if not isinstance(name, str):
        raise ConfigError(f"{key}.name: expected a name, got {name!r:.60}")
    filter_ = FILTERS.get(name)
    if not callable(filter_):
        raise ConfigError(f"{key}: {name!r} is no function")
    checked = check_config(filter_, options, key, skip=("group",))
    return partial(filter_, **checked) if checked else filter_


def _spec(value: object, key: str) -> str | Mapping[str, Any]:
    if isinstance(value, str | Mapping):
        return value
    raise ConfigError(f"{key}: expected a filter, got {value!r:.60}")
