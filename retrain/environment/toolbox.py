"""`Toolbox`: the tools of an episode by name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

from retrain.environment.base import ToolSchema
from retrain.environment.tool_errors import ToolErrors
from retrain.errors import ConfigError, nearest
from retrain.types import Task

CHOICE = "tools"
"""The key of a task's metadata that names the tools which its episodes offer."""


class CallableTool(Protocol):
    """What a toolbox holds: a `Tool`, or one that a server offers."""

    @property
    def name(self) -> str:
        """The name that the model calls."""
        ...

    @property
    def schema(self) -> ToolSchema:
        """The tool as chat templates take it."""
        ...

    @property
    def serial(self) -> bool:
        """Whether calls of one turn run one after another, in the order written."""
        ...

    async def run(
        self, arguments: Mapping[str, Any], *, timeout: float | None, errors: ToolErrors
    ) -> str:
        """Call it; see `Tool.run`."""
        ...


class Toolbox:
    """Tools by name, in the order in which the prompt shows them.

    Args:
        tools: The tools.

    Raises:
        ConfigError: Two of them have one name.
    """

    def __init__(self, tools: Sequence[CallableTool] = ()) -> None:
        self._tools: dict[str, CallableTool] = {}
        for tool in tools:
            if tool.name in self._tools:
                raise ConfigError(f"two tools are named {tool.name!r}; give one @tool(name=…)")
            self._tools[tool.name] = tool

    def __iter__(self) -> Iterator[CallableTool]:
        return iter(self._tools.values())

    def get(self, name: str) -> CallableTool | None:
        """The tool of a name; None where there is none."""
        return self._tools.get(name)

    @property
    def schemas(self) -> tuple[ToolSchema, ...]:
        """The tools' JSON schemas."""
        return tuple(tool.schema for tool in self)

    @property
    def names(self) -> str:
        """The tools' names, for the model to read."""
        return ", ".join(self._tools) or "none"

    def chosen_for(self, task: Task) -> Toolbox:
        """Those of the tools that a task's metadata names under `tools`; all where it names none.

        Raises:
            ValueError: It names a tool that there is not, or holds no list of names.
        """
        names = chosen_names(task, self._tools)
        if names is None:
            return self
        return Toolbox([tool for name, tool in self._tools.items() if name in names])


def chosen_names(task: Task, known: Collection[str]) -> frozenset[str] | None:
    """The names that a task's metadata has under `tools`; None where it has none.

    Args:
        task: The task.
        known: The names that there are.

    Raises:
        ValueError: It names a tool that there is not, or holds no list of names.
    """
    names = task.metadata.get(CHOICE)
    if names is None:
        return None
    what = f"task {task.id!r}: metadata.{CHOICE}"
    if not isinstance(names, list | tuple) or not all(isinstance(n, str) for n in names):
        raise ValueError(f"{what} must be a list of tool names, got {names!r:.80}")
    for name in names:
        if name not in known:
            raise ValueError(f"{what}: there is no tool {name!r}; {nearest(name, known)}")
    return frozenset(names)
