"""The model guesses a number from 1 to 9, and is told "higher" or "lower" until it is right."""

import random
import re

from retrain.environment import Environment
from retrain.types import Action, Message, Observation, StepResult, Task


class GuessNumber(Environment):
    """Rewards a number that is found, the more the sooner.

    Args:
        max_guesses: Most guesses; 4 are always enough, as each can halve what is left.
    """

    def __init__(self, max_guesses: int = 4) -> None:
        self.max_guesses = max_guesses

    async def reset(self, task: Task, seed: int) -> Observation:
        """Think of a number. All episodes of a group get the same seed, and so the same number."""
        self.secret = random.Random(seed).randint(1, 9)
        self.possible = set(range(1, 10))
        self.guesses = 0
        return Observation(task.messages)

    async def step(self, action: Action) -> StepResult:
        """Answer one guess."""
        self.guesses += 1
        written = re.fullmatch("[1-9]", action.text.strip())
        guess = int(written[0]) if written else 0
        found = guess == self.secret
        info = {"success": found, "possible": guess in self.possible}
        reward = 1.0 - 0.2 * (self.guesses - 1) if found else 0.0
        over = not found and self.guesses == self.max_guesses
        return StepResult(Observation(self.answer(guess)), reward, found, over, info)

    def answer(self, guess: int) -> tuple[Message, ...]:
        """What is said to a guess, and what it rules out; nothing where it is right."""
        if guess == self.secret:
            return ()
        if guess == 0:
            return (Message("user", "A number from 1 to 9, please."),)
        higher = self.secret > guess
        self.possible = {one for one in self.possible if one != guess and (one > guess) == higher}
        return (Message("user", "higher" if higher else "lower"),)
