"""What a player reads before the first turn."""

from __future__ import annotations

from typing import Literal, TypeAlias

from .board import View

Style: TypeAlias = Literal["rules", "scores"]
"""`rules` explains the game; `scores` gives the numbers only, for models that imitated it."""

_RULES = """\
You and a partner assign {size} reviewers to {size} papers, one each. Every pair of a reviewer and \
a paper has a score, and both of you are paid the sum of the scores of the assignment that you \
agree on. Each of you sees only some of the scores, multiplied by a private factor: your numbers \
and your partner's may not be on one scale. A score that neither of you sees counts {unseen}.

Talk with your partner, and propose an assignment when you know enough. Begin every turn with one \
of these tags:
[message] to say or ask something
[propose] to propose a whole assignment, a line for each paper: "PAPER: REVIEWER"
[accept] or [reject] to answer your partner's proposal

Reviewers: {reviewers}
Papers: {papers}

The scores that you see ("-": you see none):
{scores}"""


def first_prompt(view: View, style: Style) -> str:
    """Write the first prompt of a player.

    Args:
        view: What the player sees.
        style: How much is said.
    """
    if style == "scores":
        return list_scores(view)
    return _RULES.format(
        size=view.names.size,
        unseen=view.unseen,
        reviewers=", ".join(view.names.reviewers),
        papers="; ".join(view.names.papers),
        scores=list_scores(view),
    )


def list_scores(view: View) -> str:
    """The scores that a player sees, a line for each reviewer; "-" where it sees none."""
    names = view.names
    lines = []
    for reviewer, row in enumerate(view.scores):
        cells = (f"{names.paper(n)} {'-' if s is None else s}" for n, s in enumerate(row))
        lines.append(f"{names.reviewer(reviewer)}: {', '.join(cells)}")
    return "\n".join(lines)
