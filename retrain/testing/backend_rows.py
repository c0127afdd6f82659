"""What entered a backend's loss, beside what should have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from retrain.parity import LossReading, LossRow
from retrain.parity.rows import Place, float32
from retrain.testing.canned.playing import CannedGroup
from retrain.testing.wording import Decode


class Entered:
    """The rows of a backend, found by their place.

    Attributes:
        rows: All of them, in the order given.
        reading: The rows with how they are aggregated; None where nobody says.
        decode: Gives the text of ids.
    """

    def __init__(
        self,
        played: Sequence[CannedGroup],
        rows: Iterable[LossRow] | LossReading,
        decode: Decode,
    ) -> None:
        """Put rows beside the episodes that they come from."""
        self.reading = rows if isinstance(rows, LossReading) else None
        self.rows = list(rows.rows if isinstance(rows, LossReading) else rows)
        self.decode = decode
        self._expected = {group.case.name: group.expected for group in played}
        self._sampled = {
            place: flags for group in played for place, flags in _sampled_tokens(group)
        }
        self._found: dict[Place, list[LossRow]] = defaultdict(list)
        for row in self.rows:
            self._found[row.place].append(row)

    @property
    def extra(self) -> list[Place]:
        """Places of rows that no sample has."""
        known = {row.place for rows in self._expected.values() for row in rows}
        return sorted(set(self._found) - known)

    def expected(self, case: str) -> tuple[LossRow, ...]:
        """The rows that a case must become."""
        return self._expected[case]

    def found(self, row: LossRow) -> list[LossRow]:
        """The rows that stand in a row's place."""
        return self._found.get(row.place, [])

    def pairs(self, case: str) -> Iterator[tuple[LossRow, LossRow]]:
        """Each row of a case, expected and found; a lost row is another test's matter."""
        for then in self._expected[case]:
            for now in self.found(then)[:1]:
                yield then, now

    def sampled(self, row: LossRow) -> tuple[bool, ...]:
        """[R] whether the model sampled each response token, masked or not."""
        return self._sampled[row.place]

    @staticmethod
    def close(one: float | None, other: float | None) -> bool:
        """Whether two numbers are the same as float32, which is what frameworks train on."""
        if one is None or other is None:
            return one is other
        first, second = float32([one, other])
        return first == second

    @staticmethod
    def shift(then: LossRow, now: LossRow) -> str:
        """A remark where the whole mask has moved by one token."""
        if then.mask[1:] == now.mask[:-1]:
            return " (it has moved one token to the left)"
        if then.mask[:-1] == now.mask[1:]:
            return " (it has moved one token to the right)"
        return ""


def row_name(row: LossRow, case: str) -> str:
    """A row in words."""
    part = f", segment {row.part}" if row.part else ""
    return f"case {case!r}, sample {row.index}{part}"


def _sampled_tokens(played: CannedGroup) -> Iterator[tuple[Place, tuple[bool, ...]]]:
    """Which response tokens the model sampled, for each sample of a group."""
    for trajectory, slot in zip(played.group.trajectories, played.slots, strict=True):
        for part, sample in enumerate(slot):
            turns = trajectory.segments[part].turns if trajectory.segments else ()
            flags = [
                flag
                for turn in turns
                for flag in (*[True] * len(turn.output_ids), *[False] * len(turn.env_ids))
            ]
            index = sample.index if sample.index is not None else -1
            yield (index, part), tuple(flags) or (False,) * sample.response_length
