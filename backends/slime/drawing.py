"""From the samples that a data source of slime's gives to the groups that are to be played."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backends.slime.framework import framework
from retrain.errors import BackendFailure
from retrain.rollout.messages import read_messages
from retrain.rollout.request import GroupRequest
from retrain.types import Task

REQUEST = "retrain_request"
"""Where a sample's metadata names the task and the visit that it was drawn for."""


@dataclass(frozen=True, slots=True)
class Place:
    """What one sample is to be played as.

    Attributes:
        request: Its group.
        member: Which member of the group, from 0.
    """

    request: GroupRequest
    member: int


def group_samples(request: GroupRequest, n_samples: int) -> list[Any]:
    """Fresh samples for a group, as slime's own data source makes them.

    Args:
        request: The group.
        n_samples: How many members it has.
    """
    task = request.task
    return [
        framework().sample(
            group_index=request.index,
            index=request.index * n_samples + member,
            prompt=_prompt(task),
            label=task.label,
            metadata={
                **task.metadata,
                REQUEST: {"task": task.id, "visit": request.visit, "member": member},
            },
        )
        for member in range(n_samples)
    ]


def place_of(sample: Any, tasks: Mapping[str, Task], position: int = 0) -> Place:
    """What a sample is to be played as.

    Args:
        sample: Slime's sample. One that our `DataSource` drew names its task; any other is a task
            by itself: its prompt (text, or messages without a chat template applied), its label
            and its metadata.
        tasks: The configured tasks by id.
        position: Its group where the sample does not say.

    Raises:
        DataError: Its prompt is neither text nor messages.
    """
    group = position if sample.group_index is None else sample.group_index
    drawn = (sample.metadata or {}).get(REQUEST)
    if drawn is None or drawn["task"] not in tasks:
        member = 0 if sample.index is None else sample.index
        return Place(GroupRequest(group, _task(sample, group), 0), member)
    return Place(GroupRequest(group, tasks[drawn["task"]], drawn["visit"]), drawn["member"])


def _prompt(task: Task) -> str | list[dict[str, str]]:
    if isinstance(task.prompt, str):
        return task.prompt
    return [{"role": message.role, "content": message.content} for message in task.prompt]


def _task(sample: Any, group: int) -> Task:
    name = f"slime-{group}"
    prompt = sample.prompt
    if not isinstance(prompt, str):
        prompt = read_messages(f"sample {sample.index}: its prompt", prompt)
    return Task(name, prompt, sample.label, dict(sample.metadata or {}))


class Drawing:
    """The groups that were drawn, and the samples of theirs that wait for the episodes."""

    def __init__(self, source: Any, tasks: Mapping[str, Task], first_index: int) -> None:
        """Begin with nothing drawn.

        Args:
            source: A data source of slime's: `get_samples(count)` gives groups of samples.
            tasks: The configured tasks by id.
            first_index: The index of the first group where the samples do not say.
        """
        self._source = source
        self._tasks = tasks
        self._next = first_index
        self._waiting: dict[int, Sequence[Any]] = {}

    def draw(self, count: int) -> list[GroupRequest]:
        """Draw groups.

        Raises:
            BackendFailure: The source gives fewer, or groups that are empty or of several sizes.
        """
        groups = self._source.get_samples(count)
        sizes = [len(group) for group in groups]
        known = {*sizes, *(len(group) for group in self._waiting.values())}
        if len(sizes) != count or 0 in sizes or len(known) > 1:
            raise BackendFailure(
                f"the data source was asked for {count} groups of samples, all of one size, and "
                f"gave groups of {sizes}"
            )
        return [self._request(group) for group in groups]

    def adopt(self, request: GroupRequest, samples: Sequence[Any]) -> None:
        """Take the samples of a group that was drawn before this process began."""
        self._waiting[request.index] = samples

    def keep(self, indices: Collection[int]) -> None:
        """Forget the samples of all groups but those with these indices."""
        self._waiting = {i: group for i, group in self._waiting.items() if i in indices}

    def members(self, index: int) -> Sequence[Any]:
        """The samples of a group, by the group's index."""
        return self._waiting[index]

    def _request(self, group: Sequence[Any]) -> GroupRequest:
        request = place_of(group[0], self._tasks, self._next).request
        self._next = max(self._next, request.index) + 1
        self._waiting[request.index] = group
        for sample in group:
            sample.group_index = request.index
        return request
