"""`f1`: how many words of a short answer and its label are the same."""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence

from retrain.errors import RewardFailure
from retrain.reward.hub.cases import Case, Compat, label_of, response_of

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WHOLE_ANSWERS = ("yes", "no", "noanswer")
_NO_ASCII_MARKS = str.maketrans("", "", string.punctuation)


def f1(case: Case, *, compat: Compat | None = None) -> float:
    """The harmonic mean of precision and recall over words, 0 to 1.

    Case, punctuation and English articles aside; "yes", "no" and "noanswer" are right as a whole or
    not at all. A label that is a list holds answers of which the best counts.
    Source: Rajpurkar et al. 2016, "SQuAD" (arXiv:1606.05250), section 6.1; yes and no as in Yang et
    al. 2018, "HotpotQA" (arXiv:1809.09600).

    Args:
        case: The response and its label.
        compat: "slime" for the scores of slime's `f1`.

    Raises:
        RewardFailure: The label is missing, empty or of a wrong kind.
    """
    if compat == "slime":
        if case.response is None:
            return 0.0
        return _overlap(_slime_words(case.response), _slime_words(case.label))
    given = _words(response_of(case))
    return max(_overlap(given, _words(label)) for label in _labels(case))


def _labels(case: Case) -> Sequence[str]:
    if not isinstance(case.label, list | tuple):
        return [label_of(case, "f1")]
    if not case.label:
        raise RewardFailure("f1 needs a label; the list of answers is empty")
    return [label_of(Case(None, label), "f1") for label in case.label]


def _overlap(given: list[str], wanted: list[str]) -> float:
    for one, other in ((given, wanted), (wanted, given)):
        if " ".join(one) in _WHOLE_ANSWERS and one != other:
            return 0.0
    same = sum((Counter(given) & Counter(wanted)).values())
    if same == 0:
        return 0.0
    precision, recall = same / len(given), same / len(wanted)
    return 2 * precision * recall / (precision + recall)


def _slime_words(text: str) -> list[str]:
    return _ARTICLES.sub(" ", text.lower().translate(_NO_ASCII_MARKS)).split()


def _words(text: str) -> list[str]:
    composed = unicodedata.normalize("NFKC", text).casefold()
    plain = "".join(c for c in composed if c in "$+<=>^`|~%°" or unicodedata.category(c)[0] != "P")
    words = _ARTICLES.sub(" ", plain).split()
    return words or plain.split()
