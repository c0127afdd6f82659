"""Who is to be assigned to what, and how a text names them.

The lists and their order are DialOp's, so that its indices are ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

REVIEWERS = (
    "Ava Li",
    "Daniel Nguyen",
    "Sofia Patel",
    "Andrei Petrov",
    "Morgan Reed",
    "Joseph Santos",
    "Ethan Smith",
    "Noah Wilson",
)

PAPERS = (
    "BLEU: a Method for Automatic Evaluation of MT",
    "Electra: Pre-training Text Encoders as Discriminators",
    "GloVe: Global Vectors for Word Representation",
    "GLUE: A Multi-Task Benchmark and Analysis Platform for NLU",
    "LLaMA: Open and Efficient Foundation Language Models",
    "RoBERTa: A Robustly Optimized BERT Pretraining Approach",
    "QuAC: Question Answering in Context",
    "SWAG: An Adversarial Dataset for Commonsense Inference",
)

_SMALL_WORDS = frozenset({"a", "an", "and", "as", "for", "in", "of", "pre", "open", "on", "to"})
"""Words of titles that name nothing."""


@dataclass(frozen=True, slots=True)
class Mention:
    """One name in a text.

    Attributes:
        kind: "reviewer" or "paper".
        index: Which one, in the full lists.
    """

    kind: str
    index: int


@dataclass(frozen=True)
class Names:
    """The names of one board.

    Attributes:
        reviewers: Their names; the first words are unique.
        papers: As many titles; what stands before the colon is unique.
    """

    reviewers: tuple[str, ...]
    papers: tuple[str, ...]

    @property
    def size(self) -> int:
        """How many reviewers there are, and papers."""
        return len(self.reviewers)

    def reviewer(self, index: int) -> str:
        """A reviewer's first name."""
        return self.reviewers[index].partition(" ")[0]

    def paper(self, index: int) -> str:
        """A paper's short title."""
        return self.papers[index].partition(":")[0]

    @property
    def listed(self) -> str:
        """All names, for messages."""
        reviewers = ", ".join(map(self.reviewer, range(self.size)))
        papers = ", ".join(map(self.paper, range(self.size)))
        return f"reviewers: {reviewers}; papers: {papers}"

    def mentions(self, text: str) -> Iterator[Mention]:
        """The names in a text, in order; a name of several words is one mention.

        A word counts where it occurs in one name only ("ava", "patel", "commonsense"), whatever
        its case.
        """
        last: tuple[str, int] | None = None
        for found in re.finditer(r"[^\W_]+", text):
            named = self._of_word.get(found[0].lower())
            if named is None or named == last:
                continue
            last = named
            yield Mention(*named)

    def mentioned(self, text: str, kind: str) -> list[int]:
        """Which reviewers or papers a text names, in order, each once."""
        found = [mention.index for mention in self.mentions(text) if mention.kind == kind]
        return list(dict.fromkeys(found))

    @cached_property
    def _of_word(self) -> dict[str, tuple[str, int]]:
        """(kind, index) of every word that occurs in one name only."""
        owners: dict[str, set[tuple[str, int]]] = {}
        for kind, names in (("reviewer", self.reviewers), ("paper", self.papers)):
            for index, name in enumerate(names):
                for word in _words(name):
                    owners.setdefault(word, set()).add((kind, index))
        return {word: next(iter(who)) for word, who in owners.items() if len(who) == 1}


def _words(name: str) -> Sequence[str]:
    words = re.findall(r"[^\W_]+", name.lower())
    return [word for word in words if word not in _SMALL_WORDS]
