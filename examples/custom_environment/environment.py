"""Guess a number: the environment answers "higher" or "lower" until the guess is right."""

import math
import random
import re

from retrain.environment import Environment
from retrain.types import Action, Message, Observation, StepResult, Task


def compare(number: int, guess: int) -> str:
    """Where `number` lies, seen from `guess`."""
    return "higher" if number > guess else "lower" if number < guess else "right"


class GuessNumber(Environment):
    """Rewards each guess by the information that it brings.

    Ruling out all but k of n numbers is worth log(n / k), as a share of what there is to know. The
    rewards of an episode that finds the number sum to 1, however it got there, so no detour pays.

    Args:
        max_guesses: Most guesses; 7 are enough for 100 numbers, and 6 are not.
    """

    def __init__(self, max_guesses: int = 7) -> None:
        self.max_guesses = max_guesses

    async def reset(self, task: Task, seed: int) -> Observation:
        """Think of a number from 1 to the task's `highest`, which is 2 or more."""
        self.highest = int(task.metadata["highest"])
        self.secret = random.Random(seed).randint(1, self.highest)
        self.possible = list(range(1, self.highest + 1))
        self.guesses = 0
        return Observation(task.messages)

    async def step(self, action: Action) -> StepResult:
        """Answer one guess: the first number of the model's turn."""
        self.guesses += 1
        number = re.search("[0-9]{1,9}", action.text)
        guess = int(number[0]) if number else 0
        answer = compare(self.secret, guess)
        before = len(self.possible)
        self.possible = [n for n in self.possible if compare(n, guess) == answer]
        reward = math.log(before / len(self.possible)) / math.log(self.highest)
        reply = Message("user", answer if number else "That is not a number.")
        found, over = answer == "right", self.guesses == self.max_guesses
        info = {"success": found, "possible": len(self.possible)}
        return StepResult(Observation((reply,)), reward, found, over, info)
