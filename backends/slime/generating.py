"""`generate` where slime fills an iteration: one whole episode for one sample of slime's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from backends.slime.context import Context
from backends.slime.drawing import place_of
from backends.slime.engine import SlimeSampling
from backends.slime.samples import answers_to, fill
from bridges import EnvironmentBridge, RolloutBridge
from bridges.limits import EpisodeLimits

_OVER = ("completed", "truncated")


async def generate_episode(
    context: Context, args: Any, sample: Any, sampling_params: Mapping[str, Any], evaluation: bool
) -> Any:
    """Play the episode of one sample, and score it.

    A sample that comes back after an abort is played from the beginning: the world that its tokens
    were sampled in is gone, so every field of its response is reset.

    Args:
        context: The bridges and the engine.
        args: Slime's arguments.
        sample: Slime's sample; one that is over already is returned as it is.
        sampling_params: Slime's; they are not changed.
        evaluation: Whether the episode is held out.

    Returns:
        The sample, filled and with its reward; a list where the episode has several segments. An
        aborted one has reward None. A failed one trains nothing.

    Raises:
        RetrainError: A failure whose policy is to raise.
    """
    if sample.status.value in _OVER:
        return sample
    params = _params(context, sample, sampling_params, evaluation)
    rollouts = _rollouts(context, args, params, evaluation)
    place = place_of(sample, context.tasks)
    played = await rollouts.episode(place.request, place.member)
    (scored,) = await context.composition.rewards.score([played])
    samples = context.composition.data_format.to_samples(scored)
    return fill(sample, samples, answers_to(scored, params.answers), args)


def _params(
    context: Context, sample: Any, raw: Mapping[str, Any], evaluation: bool
) -> SlimeSampling:
    """Slime's sampling parameters, those that it leaves out from the configuration."""
    own = context.sampling(evaluation=evaluation)
    return replace(
        own,
        max_tokens=_given(raw, "max_new_tokens", own.max_tokens),
        temperature=_given(raw, "temperature", own.temperature),
        top_p=_given(raw, "top_p", own.top_p),
        top_k=_given(raw, "top_k", own.top_k),
        stop_token_ids=frozenset(raw.get("stop_token_ids") or ()),
        raw={**own.raw, **raw},
        session_id=sample.session_id,
        answers={},
    )


def _given(raw: Mapping[str, Any], key: str, default: Any) -> Any:
    value = raw.get(key)
    return default if value is None else value


def _rollouts(
    context: Context, args: Any, params: SlimeSampling, evaluation: bool
) -> RolloutBridge:
    """The bridge for one episode, within the tokens that slime gives it."""
    bridge = context.composition.rollouts(context.engine, evaluation=evaluation)
    environment = bridge.environment
    limits = _limits(environment.limits, args, params.max_tokens, evaluation)
    if limits != environment.limits:
        environment = EnvironmentBridge(environment.renderer, environment.make_environment, limits)
    settings = replace(bridge.settings, params=params)
    return RolloutBridge(environment, bridge.rewards, bridge.engine, settings)


def _limits(limits: EpisodeLimits, args: Any, max_tokens: int, evaluation: bool) -> EpisodeLimits:
    """The episode's bounds: slime's `max_new_tokens` is of the whole response."""
    name = "eval_max_context_len" if evaluation else "rollout_max_context_len"
    contexts = [n for n in (limits.max_context_len, getattr(args, name, None)) if n is not None]
    return replace(
        limits,
        max_response_len=max_tokens,
        max_context_len=min(contexts) if contexts else None,
    )
