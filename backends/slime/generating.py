"""`generate` where slime fills an iteration: one whole episode for one sample of slime's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from backends.slime.context import Context
from backends.slime.drawing import place_of
from backends.slime.engine import SlimeSampling
from backends.slime.handed_out import OVER
from backends.slime.interruption import InterruptibleEngine
from backends.slime.live_episodes import LiveEpisode
from backends.slime.nesting import as_list
from backends.slime.samples import answers_to, fill, flat
from bridges import EnvironmentBridge, RolloutBridge
from bridges.limits import EpisodeLimits
from retrain.engine.base import SamplingParams
from retrain.seeds import EpisodeSeed
from retrain.types import Trajectory


async def generate_episode(
    context: Context, args: Any, sample: Any, sampling_params: Mapping[str, Any], evaluation: bool
) -> Any:
    """Play the episode of one sample, and score it.

    Under `partial_rollout`, an episode that slime aborts is suspended: it stays in this process
    with its environment, and goes on from its tokens when its sample comes back. Where it is gone
    by then (another process, or one too many were kept), it is played from the beginning, and
    `live_episodes.BEGUN_AGAIN` is set in the sample's metadata.

    Args:
        context: The bridges and the engine.
        args: Slime's arguments.
        sample: Slime's sample; one that is over already is returned as it is.
        sampling_params: Slime's; they are not changed. An episode that goes on keeps those that it
            was begun with.
        evaluation: Whether the episode is held out.

    Returns:
        The sample, filled and with its reward, which is None where a function scores whole groups:
        slime then asks for it with `--group-rm`. A list of samples where the configuration lets an
        episode have several segments. An aborted one has reward None. A failed one trains nothing.

    Raises:
        RetrainError: A failure whose policy is to raise.
    """
    if sample.status.value in OVER:
        return [sample] if context.segmented else sample
    live = context.live.take(sample)
    if live is None:
        live = _begin(context, args, sample, sampling_params, evaluation)
    else:
        live.go_on()
    played = await live.rest()
    if played is None:
        await context.live.keep(sample, live)
        return _fill_so_far(context, args, sample, live)
    scored, later = await _scored(context, played)
    samples = context.composition.data_format.to_samples(scored)
    vision = context.composition.image_processor
    filled = fill(sample, samples, answers_to(scored, live.answers), args, vision)
    for sibling in flat([filled]) if later else ():
        sibling.reward = None
    if _partial(args) and args.mask_offpolicy_in_partial_rollout:
        _mask_stale(filled, live.stale)
    return as_list(filled) if context.segmented else filled


async def _scored(context: Context, played: Trajectory) -> tuple[Trajectory, bool]:
    """The episode with its reward, and whether that is to come with its group's (`--group-rm`)."""
    rewards = context.composition.rewards
    if rewards.calculator.needs_groups:
        return replace(played, reward=0.0, witness=None), True
    (scored,) = await rewards.score([played])
    return scored, False


def _begin(
    context: Context, args: Any, sample: Any, raw: Mapping[str, Any], evaluation: bool
) -> LiveEpisode:
    configured = context.configured(evaluation=evaluation)
    params = _params(configured.settings.params, sample, raw)
    engine = InterruptibleEngine(context.engine, goes_on=_partial(args) and not evaluation)
    rollouts = _rollouts(configured, args, params, engine)
    place = place_of(sample, context.tasks)
    return LiveEpisode(rollouts.episode(place.request, place.member), engine, params)


def _partial(args: Any) -> bool:
    return bool(getattr(args, "partial_rollout", False))


def _fill_so_far(context: Context, args: Any, sample: Any, live: LiveEpisode) -> Any:
    """Show slime what a suspended episode has written."""
    place = place_of(sample, context.tasks)
    task = place.request.task
    seed = EpisodeSeed(context.config.seed, "train", task.id, place.request.visit, place.member)
    composition = context.composition
    trajectory, answers = live.so_far(task, seed, composition.renderer.parse)
    placed = replace(trajectory, group_index=place.request.index, index=sample.index)
    vision = composition.image_processor
    return fill(sample, composition.data_format.to_samples(placed), answers, args, vision)


def _mask_stale(filled: Any, stale: Sequence[int]) -> None:
    """Take what older weights wrote out of the loss, as slime does (its `generate_and_rm`)."""
    for sibling, count in zip(flat([filled]), stale, strict=False):
        sibling.loss_mask[:count] = [0] * count


def _params(own: SamplingParams, sample: Any, raw: Mapping[str, Any]) -> SlimeSampling:
    """Slime's sampling parameters, those that it leaves out from the configuration."""
    always = own.raw if isinstance(own, SlimeSampling) else {}
    return SlimeSampling(
        max_tokens=_given(raw, "max_new_tokens", own.max_tokens),
        temperature=_given(raw, "temperature", own.temperature),
        top_p=_given(raw, "top_p", own.top_p),
        top_k=_given(raw, "top_k", own.top_k),
        stop_token_ids=frozenset(raw.get("stop_token_ids") or ()),
        raw={**always, **raw},
        session_id=sample.session_id,
    )


def _given(raw: Mapping[str, Any], key: str, default: Any) -> Any:
    value = raw.get(key)
    return default if value is None else value


def _rollouts(
    configured: RolloutBridge, args: Any, params: SlimeSampling, engine: InterruptibleEngine
) -> RolloutBridge:
    """The bridge for one episode, within the tokens that slime gives it."""
    environment, settings = configured.environment, configured.settings
    limits = _limits(environment.limits, args, params.max_tokens, settings.evaluation)
    if limits != environment.limits:
        environment = EnvironmentBridge(environment.renderer, environment.make_environment, limits)
    return RolloutBridge(environment, configured.rewards, engine, replace(settings, params=params))


def _limits(limits: EpisodeLimits, args: Any, max_tokens: int, evaluation: bool) -> EpisodeLimits:
    """The episode's bounds: slime's `max_new_tokens` is of the whole response."""
    name = "eval_max_context_len" if evaluation else "rollout_max_context_len"
    contexts = [n for n in (limits.max_context_len, getattr(args, name, None)) if n is not None]
    return replace(
        limits,
        max_response_len=max_tokens,
        max_context_len=min(contexts) if contexts else None,
    )
