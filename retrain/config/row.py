"""One row of the vocabulary: what a key means, and what each framework calls it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Word:
    """A framework's word for a key.

    Attributes:
        option: Its option, without the prefix; "" where retrain does it in the framework's place.
        same: The option takes the key's own values, so that setting it is setting the key.
        note: How the option follows from the key where it is not the same.
    """

    option: str = ""
    same: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """What a key means.

    Attributes:
        meaning: For the documentation, units included.
        trl: TRL's word.
        slime: slime's word.
        synonyms: Other spellings of the key.
        sft: The key has a meaning for supervised fine-tuning too.
        default: How the default is shown where it is computed.
    """

    meaning: str
    trl: Word
    slime: Word
    synonyms: tuple[str, ...] = ()
    sft: bool = False
    default: str = ""

    def word(self, framework: str) -> Word:
        """The word of one framework; an empty one where the framework is a third party's."""
        return {"trl": self.trl, "slime": self.slime}.get(framework, Word())
