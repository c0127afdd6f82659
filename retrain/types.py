"""The data that crosses every seam: frozen, slotted, free of any framework.

Task -> Observation -> (Action, StepResult) per turn -> Trajectory -> Group
|
v  bridges.DataFormatBridge
Sample (retrain/sample.py)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

from retrain.errors import EpisodeError
from retrain.images import Image
from retrain.sample import Status
from retrain.seeds import EpisodeSeed


class FinishReason(StrEnum):
    """Why the engine stopped writing."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"


class StopReason(StrEnum):
    """Why an episode ended."""

    TERMINATED = "terminated"
    ENVIRONMENT_TRUNCATED = "environment_truncated"
    MAX_TURNS = "max_turns"
    MAX_RESPONSE_LEN = "max_response_len"
    CONTEXT_OVERFLOW = "context_overflow"
    ABORTED = "aborted"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model wrote.

    Attributes:
        name: The tool's name.
        arguments: Its arguments by name.
        id: The call's id where the model's format has one, else None.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message.

    Attributes:
        role: "system", "user", "assistant" or "tool".
        content: Its text.
        reasoning: What the model wrote before its answer, where the format separates it.
        tool_calls: Calls of an assistant message.
        tool_call_id: Which call a tool message answers.
        name: The tool that a tool message comes from.
        images: What it shows, before its text; or where the text says `<image>`, once for each.
    """

    role: str
    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """One row of the prompt source.

    Attributes:
        id: Stable across runs.
        prompt: Text (one user message) or messages.
        label: The expected answer, where there is one.
        metadata: Everything else about the row; JSON values.
        images: Paths or URLs of the prompt's images; its first user message shows them.
    """

    id: str
    prompt: str | tuple[Message, ...]
    label: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    images: tuple[str, ...] = ()

    @property
    def messages(self) -> tuple[Message, ...]:
        """The prompt as messages, the task's images in the first one of the user."""
        if isinstance(self.prompt, str):
            return self.with_images((Message("user", self.prompt),))
        return self.with_images(self.prompt)

    def with_images(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """A first prompt that shows the task's images; unchanged where it shows some already."""
        if not self.images or any(message.images for message in messages):
            return messages
        users = [at for at, message in enumerate(messages) if message.role == "user"]
        if not users:
            return messages
        shown = replace(messages[users[0]], images=tuple(map(Image, self.images)))
        return (*messages[: users[0]], shown, *messages[users[0] + 1 :])

    def with_first_images(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """A rewritten history whose first user message shows the task's images, as the prompt's."""
        users = (at for at, message in enumerate(messages, start=1) if message.role == "user")
        end = next(users, 0)
        return (*self.with_images(messages[:end]), *messages[end:])


@dataclass(frozen=True, slots=True)
class Observation:
    """The messages that the environment adds now; the first one is the whole prompt.

    Attributes:
        messages: What is added; with `rewrite` the whole conversation that the model reads next.
        rewrite: True puts `messages` in place of all that was said. Where they begin with exactly
            that (the model's turns as `Action.message` gives them), nothing is rewritten, and the
            rest is the reply. Only an environment with `rewrites_history` may say so.
    """

    messages: tuple[Message, ...] = ()
    rewrite: bool = False


@dataclass(frozen=True, slots=True)
class Action:
    """What the model did in one turn.

    Attributes:
        text: The content, without reasoning and tool calls.
        reasoning: The reasoning, where the format separates it.
        tool_calls: The calls, in the order written.
        parse_error: Why a tool call could not be read; None when all could. Such an action is
            answered by a user message: templates raise on or drop a tool message without a call.
        truncated: Whether a limit on length cut the turn, so that this is not all of it.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    parse_error: str | None = None
    truncated: bool = False

    @property
    def final(self) -> bool:
        """Whether it is a whole turn without a tool call: an answer."""
        return not self.tool_calls and self.parse_error is None and not self.truncated

    @property
    def message(self) -> Message:
        """The turn as an assistant message, for environments that give whole histories."""
        return Message("assistant", self.text, self.reasoning, self.tool_calls)


class StepResult(NamedTuple):
    """The environment's answer to an action, in Gymnasium's order."""

    observation: Observation
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Turn:
    """One model turn and the environment's reply to it.

    Attributes:
        output_ids: What the model sampled.
        output_logprobs: The engine's logprob of each, in nats, tempered and untruncated.
        finish_reason: Why the engine stopped.
        weight_version: The weights that sampled it.
        action: What was read in it.
        reward: The environment's reward for it.
        info: The environment's info for it; JSON values.
        env_ids: What the reply added to the stream, the next generation prompt included; empty
            after the last turn of a segment, so that a stream ends on a model token.
        cached_tokens: How many tokens of its prompt the engine did not compute again.
        weight_spans: (tokens, weight version) of each stretch, in order, where several weights
            wrote it; empty where `weight_version` wrote it all, else that one is the last.
    """

    output_ids: tuple[int, ...]
    output_logprobs: tuple[float, ...]
    finish_reason: FinishReason
    action: Action
    weight_version: str = "0"
    reward: float = 0.0
    info: Mapping[str, Any] = field(default_factory=dict)
    env_ids: tuple[int, ...] = ()
    cached_tokens: int = 0
    weight_spans: tuple[tuple[int, str], ...] = ()

    def __post_init__(self) -> None:
        written = len(self.output_ids)
        if written != len(self.output_logprobs):
            raise ValueError(
                f"a turn has {written} tokens and {len(self.output_logprobs)} logprobs"
            )
        if self.weight_spans and sum(count for count, _ in self.weight_spans) != written:
            raise ValueError(f"a turn has {written} tokens and weight spans {self.weight_spans}")

    @property
    def spans(self) -> tuple[tuple[int, str], ...]:
        """(tokens, weight version) of each stretch that one version wrote, in order."""
        return self.weight_spans or ((len(self.output_ids), self.weight_version),)


@dataclass(frozen=True, slots=True)
class Segment:
    """One append-only token stream: a prompt and the turns that follow it.

    Attributes:
        prompt_ids: The prompt; each image stands in it as the placeholders that it takes.
        turns: The turns.
        images: Paths or URLs of the images that the stream shows, in order.
    """

    prompt_ids: tuple[int, ...]
    turns: tuple[Turn, ...] = ()
    images: tuple[str, ...] = ()

    @property
    def response_ids(self) -> tuple[int, ...]:
        """Everything after the prompt: sampled tokens and replies, in order."""
        return tuple(i for turn in self.turns for i in (*turn.output_ids, *turn.env_ids))

    @property
    def ids(self) -> tuple[int, ...]:
        """The whole stream: exactly what the engine saw and wrote."""
        return self.prompt_ids + self.response_ids


@dataclass(frozen=True, slots=True)
class Timing:
    """One wait of an episode, in seconds since the episode began.

    Attributes:
        kind: "engine", "environment", "rendering" or "reward".
        turn: The turn it belongs to; -1 before the first.
        start: When it began.
        seconds: How long it took.
    """

    kind: str
    turn: int
    start: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Witness:
    """What is left of an episode in this process until it is scored; never written anywhere.

    Attributes:
        environment: The `Environment` that was played, closed.
        prompt: The messages of the first prompt, as the environment gave them.
        replies: The messages of each reply that entered the stream, turn by turn; where it
            rewrote the history, the new one.
    """

    environment: Any
    prompt: tuple[Message, ...]
    replies: tuple[tuple[Message, ...], ...]


@dataclass(frozen=True, slots=True)
class Scoring:
    """What scoring an episode found besides its raw rewards.

    Attributes:
        trained: The combination of the normalised values, that advantages are computed from; None
            where it is the raw reward.
        normalised: Value by component after its normalisation, before its weight.
        turns: [turns] raw reward of each turn, by component with a `distribution`.
        failures: Why a component failed: timeout, exception, value or count; by component.
        retries: How often a component was tried again, by component.
    """

    trained: float | None = None
    normalised: Mapping[str, float] = field(default_factory=dict)
    turns: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    retries: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode.

    Attributes:
        task: What it was about.
        seed: Which episode it was.
        segments: Its token streams; more than one only where history was rewritten, none only
            where it failed before its first prompt.
        status: How it ended.
        stop_reason: Why it ended.
        rewards: Raw reward by component.
        reward: The combined raw reward; None where it is not known.
        error: The failure, where status is failed or a reward component was dropped.
        timings: Where the time went.
        group_index: Which group of the run.
        index: Which episode of the run.
        masked: True keeps the slot and trains on nothing of it.
        scoring: What else scoring found; None where that is nothing.
        agent: Whose episode of a match it is; None where the environment has one agent.
        witness: For reward functions that read messages or the environment itself; None once the
            episode is scored.
    """

    task: Task
    seed: EpisodeSeed
    segments: tuple[Segment, ...]
    status: Status
    stop_reason: StopReason
    rewards: Mapping[str, float] = field(default_factory=dict)
    reward: float | None = None
    error: EpisodeError | None = None
    timings: tuple[Timing, ...] = ()
    group_index: int | None = None
    index: int | None = None
    masked: bool = False
    scoring: Scoring | None = None
    agent: str | None = None
    witness: Witness | None = field(default=None, compare=False, repr=False)

    @property
    def turns(self) -> tuple[Turn, ...]:
        """All turns, over all segments."""
        return tuple(turn for segment in self.segments for turn in segment.turns)

    @property
    def valid(self) -> bool:
        """Whether it is trained on and counts in its group's statistics."""
        unfinished = self.status in (Status.FAILED, Status.ABORTED, Status.PENDING)
        return not self.masked and not unfinished and self.reward is not None and bool(self.turns)

    @property
    def trained_reward(self) -> float | None:
        """What advantages are computed from: the reward, normalised where the setup says so."""
        if self.scoring is None or self.scoring.trained is None or self.reward is None:
            return self.reward
        return self.scoring.trained

    @property
    def response_text(self) -> str:
        """The text of the last action."""
        return self.turns[-1].action.text if self.turns else ""

    def seconds(self, kind: str) -> float:
        """Seconds spent in one kind of wait."""
        return sum(timing.seconds for timing in self.timings if timing.kind == kind)


@dataclass(frozen=True, slots=True)
class Group:
    """All G episodes of one visit to one task, never found by position in a flat list.

    Attributes:
        index: Which group of the run.
        task: Its task.
        visit: How often the task had been drawn before.
        trajectories: [G] its episodes; a slot may be invalid.
        advantages: [G] one per slot; 0.0 where the slot is invalid.
    """

    index: int
    task: Task
    visit: int
    trajectories: tuple[Trajectory, ...]
    advantages: tuple[float, ...] = ()
