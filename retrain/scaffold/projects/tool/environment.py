"""A visitor asks on which floor somebody works; the model has a directory to look it up in."""

import random
from typing import Any

from retrain.environment import ToolEnvironment, tool
from retrain.types import Action, Observation, Task

FLOORS = range(1, 60)


class Reception(ToolEnvironment):
    """The floors are drawn from the episode's seed, so they cannot be learned by heart.

    Args:
        max_turns: Most turns of the model.
    """

    def __init__(self, max_turns: int = 3) -> None:
        super().__init__(max_turns=max_turns)

    async def reset(self, task: Task, seed: int) -> Observation:
        """Begin an episode; the task's metadata names who is asked for."""
        self.directory = random.Random(seed)
        self.floors: dict[str, int] = {}
        self.floor = self.floor_of(task.metadata["who"])
        return await super().reset(task, seed)

    def floor_of(self, name: str) -> int:
        """The floor of a person: the same one throughout an episode."""
        return self.floors.setdefault(name, self.directory.choice(FLOORS))

    @tool
    def look_up(self, name: str) -> str:
        """Look up on which floor somebody works.

        Args:
            name: The person's first name.
        """
        return str(self.floor_of(name))

    async def score(self, action: Action) -> tuple[float, dict[str, Any]]:
        """1 where the answer is the floor, else 0."""
        success = action.final and action.text.strip() == str(self.floor)
        return float(success), {"success": success}
