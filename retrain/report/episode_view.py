"""An episode as text, with what is trained on visible. Importing this file imports rich."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from rich.console import Console
from rich.text import Text

from retrain.report.sample_notes import SampleNotes
from retrain.report.terminal import one_line, printable
from retrain.sample import Sample, Status
from retrain.types import Segment, Trajectory

Decode = Callable[[Sequence[int]], str]
Stream = list[tuple[int, int]]
"""[T] (token id, 1 where it is trained on)."""

OPEN, CLOSE = "⟦", "⟧"
"""What encloses trained tokens where there is no colour."""

TRAINED, UNTRAINED = "bold green", "dim"
"""The styles of tokens that are trained on, and of all others."""

_HEADER = "bold"
_STATUS_STYLE = {Status.COMPLETED: "green", Status.TRUNCATED: "yellow"}


def render_episode(
    episode: Trajectory | Sample, decode: Callable[[Sequence[int]], str], *, plain: bool = False
) -> Text:
    """Render an episode: a header, then its token streams.

    Tokens that are trained on (mask 1) are coloured, or enclosed in ⟦ ⟧ when `plain`; all others
    are dim. Consecutive tokens of the same mask are decoded together, so that characters made of
    several tokens survive. Control characters are escaped, and so are ⟦ and ⟧ in the text itself,
    so that no text can steer the terminal or forge the mask.

    Args:
        episode: A trajectory, or one sample of it.
        decode: Gives the text of ids, special tokens included.
        plain: Show the mask by brackets, without any style.

    Returns:
        The text; it ends without a newline.
    """
    if isinstance(episode, Trajectory):
        header, streams = _trajectory_header(episode), _trajectory_streams(episode)
    else:
        header, streams = _sample_header(episode), [_sample_stream(episode)]
    text = _header(header, streams, episode.status, plain)
    for number, stream in enumerate(streams):
        if len(streams) > 1:
            text.append(f"\n-- segment {number + 1} of {len(streams)} --", "" if plain else _HEADER)
        text.append("\n")
        _append_stream(text, stream, decode, plain)
    return text


def print_episode(
    episode: Trajectory | Sample, decode: Callable[[Sequence[int]], str], console: Console
) -> None:
    """Print an episode: coloured where the console has colours, else with brackets."""
    plain = console.no_color or console.color_system is None
    console.print(render_episode(episode, decode, plain=plain), soft_wrap=True)


def _append_stream(text: Text, stream: Stream, decode: Decode, plain: bool) -> None:
    for trained, ids in _runs(stream):
        words = decode(ids)
        if plain:
            safe = printable(words, escape=OPEN + CLOSE)
            text.append(f"{OPEN}{safe}{CLOSE}" if trained else safe)
        else:
            text.append(printable(words), TRAINED if trained else UNTRAINED)


def _runs(stream: Stream) -> Iterator[tuple[int, list[int]]]:
    for trained, pairs in groupby(stream, key=lambda pair: pair[1]):
        yield trained, [token for token, _ in pairs]


def _trajectory_streams(trajectory: Trajectory) -> list[Stream]:
    trained = int(trajectory.valid)
    return [_segment_stream(segment, trained) for segment in trajectory.segments]


def _segment_stream(segment: Segment, trained: int) -> Stream:
    stream = [(token, 0) for token in segment.prompt_ids]
    for turn in segment.turns:
        stream += [(token, trained) for token in turn.output_ids]
        stream += [(token, 0) for token in turn.env_ids]
    return stream


def _sample_stream(sample: Sample) -> Stream:
    prompt = [(token, 0) for token in sample.prompt_ids]
    return prompt + list(zip(sample.response_ids, sample.loss_mask, strict=True))


def _trajectory_header(trajectory: Trajectory) -> dict[str, str]:
    seed = trajectory.seed
    error = trajectory.error
    return _facts(
        task=f"{trajectory.task.id} visit {seed.visit} sample {seed.sample_index}",
        agent=trajectory.agent,
        status=str(trajectory.status),
        stop=str(trajectory.stop_reason),
        reward=_reward(trajectory.reward, trajectory.rewards),
        trained=_trained(trajectory.scoring.trained if trajectory.scoring else None),
        turns=str(len(trajectory.turns)),
        error=f"{error.boundary}: {error.reason}" if error else None,
        note=None if trajectory.valid else "nothing of it is trained on",
    )


def _sample_header(sample: Sample) -> dict[str, str]:
    notes = SampleNotes.of(sample)
    places = [f"{name} {notes.seed[key]}" for name, key in _PLACES if key in notes.seed]
    reward = sample.reward
    components = reward if isinstance(reward, Mapping) else notes.rewards
    return _facts(
        task=" ".join([notes.task_id or f"sample {sample.index}", *places]),
        agent=notes.agent,
        segment=f"{notes.segment} of {notes.segments}" if notes.segments > 1 else None,
        status=str(sample.status),
        stop=notes.stop_reason,
        reward=_reward(None if isinstance(reward, Mapping) else reward, components),
        trained=_trained(notes.trained),
        advantage=f"{sample.advantage:+.4f}",
        turns=str(len(notes.turns)) if notes.turns else None,
        error=notes.error,
        note="nothing of it is trained on" if sample.remove_sample else None,
    )


_PLACES = (("visit", "visit"), ("sample", "sample_index"))


def _facts(**facts: str | None) -> dict[str, str]:
    return {name: one_line(fact) for name, fact in facts.items() if fact is not None}


def _reward(reward: float | None, components: Mapping[str, float]) -> str:
    total = "unknown" if reward is None else f"{reward:+.4f}"
    parts = [f"{name} {value:+.4f}" for name, value in components.items()]
    return f"{total} ({', '.join(parts)})" if parts else total


def _trained(reward: float | None) -> str | None:
    """The reward that advantages are computed from, where it is not the raw one."""
    return None if reward is None else f"{reward:+.4f}"


def _header(facts: dict[str, str], streams: Iterable[Stream], status: Status, plain: bool) -> Text:
    masks = [trained for stream in streams for _, trained in stream]
    tokens = f"{sum(masks)} trained of {len(masks)}"
    colour = _STATUS_STYLE.get(status, "red")
    text = Text("== ", "" if plain else _HEADER)
    for position, (name, fact) in enumerate({**facts, "tokens": tokens}.items()):
        style = colour if name == "status" else _HEADER
        text.append(("  " if position else "") + f"{name} ", "" if plain else UNTRAINED)
        text.append(fact, "" if plain else style)
    return text
