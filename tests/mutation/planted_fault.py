"""What a planted fault is: one edit of the sources, and the tests that must notice it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class PlantedFault:
    """One edit that changes what is trained on.

    Attributes:
        does: What the faulty code does, as the table says it.
        file: The file, from the root of the repository.
        right: The text that stands there, once.
        wrong: The text that takes its place.
        tests: Files or folders of tests that are run; one of them must fail.
    """

    does: str
    file: str
    right: str
    wrong: str
    tests: tuple[str, ...]

    def plant(self, root: Path) -> None:
        """Make the edit in the tree at `root`.

        Raises:
            ValueError: The right text does not stand there exactly once.
        """
        path = root / self.file
        text = path.read_text()
        if text.count(self.right) != 1:
            raise ValueError(
                f"{self.file}: {self.right!r} stands there {text.count(self.right)} times, "
                f"expected once; mend the fault {self.does!r}"
            )
        path.write_text(text.replace(self.right, self.wrong))
