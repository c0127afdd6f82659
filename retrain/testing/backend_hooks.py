"""What the author of a backend says about it, and how its rows are read."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, TypeAlias

import pytest

from retrain.errors import RetrainError
from retrain.parity import LossReading, LossRow
from retrain.rendering.base import Renderer
from retrain.testing.backend_rows import Entered
from retrain.testing.canned.cases import CASES, REWRITING, Case
from retrain.testing.canned.playing import CannedGroup, play_cases
from retrain.testing.tokenizer import kit_renderer
from retrain.testing.wording import described, fail

Rows: TypeAlias = "Iterable[LossRow] | LossReading"
ReadRows: TypeAlias = Callable[[Sequence[CannedGroup]], Rows]
PlayCases: TypeAlias = Callable[[Sequence[Case]], tuple[CannedGroup, ...]]


class BackendHooks:
    """What `BackendSuite` needs to know of a backend.

    Attributes:
        takes_segments: Whether it trains on episodes of several segments; one that does not must
            refuse them, by any of retrain's errors.
    """

    takes_segments: ClassVar[bool] = True

    def rows(self, groups: Sequence[CannedGroup]) -> Rows:
        """Take samples through the backend, up to the loss.

        Args:
            groups: The groups of one iteration, in an order that is not that of their indices;
                `group.samples` are the samples, to be changed as the backend likes.

        Returns:
            What enters the loss, in any order. A `LossReading` also says how token losses make a
            step's loss, so that the tokens' weights can be tested.
        """
        raise NotImplementedError(f"{type(self).__name__} must define rows(self, groups)")

    @pytest.fixture
    def read_rows(self) -> ReadRows:
        """`rows`; override it where a backend needs other fixtures."""
        return self.rows

    @pytest.fixture
    def play(self) -> PlayCases:
        """Plays canned cases; `read_rows` gets them in another order."""
        return play_cases

    @pytest.fixture
    def renderer(self) -> Renderer:
        """Decodes the tokens of the canned cases, for messages."""
        return kit_renderer()

    @pytest.fixture
    def entered(self, request: pytest.FixtureRequest) -> Entered:
        """What entered the loss of episodes of one segment; read once for a class."""
        outcome = _once(request, "_entered", CASES)
        if isinstance(outcome, RetrainError):
            fail("rows failed", expected="the rows that enter the loss", came=described(outcome))
        return outcome

    @pytest.fixture
    def segments(self, request: pytest.FixtureRequest) -> Entered | None:
        """What entered the loss of episodes of several segments; None where they are refused."""
        outcome = _once(request, "_segments", REWRITING)
        if not self.takes_segments:
            if isinstance(outcome, RetrainError):
                return None
            fail(
                "takes_segments is False, and episodes of several segments are not refused",
                expected="one of retrain's errors",
                came=f"{len(outcome.rows)} rows",
            )
        if isinstance(outcome, RetrainError):
            fail("rows failed", expected="a row for each segment", came=described(outcome))
        return outcome


def _once(
    request: pytest.FixtureRequest, name: str, cases: Sequence[Case]
) -> Entered | RetrainError:
    """Play cases and read their rows, or find what that gave before for the same class."""
    kept: Entered | RetrainError | None = vars(request.cls).get(name)
    if kept is None:
        ask = request.getfixturevalue
        played = ask("play")(cases)
        try:
            rows = ask("read_rows")(copy.deepcopy(played[::-1]))
            kept = Entered(played, rows, ask("renderer").decode)
        except RetrainError as error:
            kept = error
        setattr(request.cls, name, kept)
    return kept
