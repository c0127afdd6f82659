"""Holds the rows of a backend against those expected, one aspect at a time."""

from __future__ import annotations

from retrain.parity import LossRow
from retrain.testing.backend_rows import Entered, row_name
from retrain.testing.wording import fail, first_difference, require, shown


def compare_counts(entered: Entered, case: str) -> None:
    """Fail where a sample has not exactly one row."""
    __tracebackhide__ = True
    for row in entered.expected(case):
        count = len(entered.found(row))
        require(count == 1, f"{row_name(row, case)} is not there once", expected=1, came=count)
    extra = entered.extra
    require(not extra, "rows that no sample was made into", expected="none", came=extra)


def compare_ends(entered: Entered, case: str) -> None:
    """Fail where a row ends too early."""
    __tracebackhide__ = True
    for then, now in entered.pairs(case):
        lost = then.tokens[len(now.tokens) :]
        came = f"the row ends {len(lost)} tokens earlier, without {entered.decode(list(lost))!r}"
        require(not lost, f"{row_name(then, case)} lost its end", expected="all of it", came=came)


def compare_tokens(entered: Entered, case: str) -> None:
    """Fail where a row holds other tokens, as far as it goes."""
    __tracebackhide__ = True
    for then, now in entered.pairs(case):
        at = first_difference(then.tokens, now.tokens)
        if at is not None and at < len(now.tokens):
            fail(
                f"{row_name(then, case)} holds another token at position {at}",
                expected=shown(then.tokens, at, entered.decode),
                came=shown(now.tokens, at, entered.decode),
            )


def compare_masks(entered: Entered, case: str, *, wanted: int) -> None:
    """Fail where the mask is not what it is to be; `wanted` says which of its values count."""
    __tracebackhide__ = True
    for then, now in entered.pairs(case):
        start = len(then.tokens) - len(then.mask)
        positions = [at for at, value in enumerate(then.mask) if value == wanted]
        wrong = [at for at in positions if now.mask[at : at + 1] != (wanted,)]
        if wrong:
            value = now.mask[wrong[0]] if wrong[0] < len(now.mask) else "no entry"
            token = shown(then.tokens, start + wrong[0], entered.decode)
            kind = "trained" if wanted else "not trained"
            fail(
                f"{row_name(then, case)}: the mask is wrong on {len(wrong)} tokens that are to be "
                f"{kind}{entered.shift(then, now)}",
                expected=f"{wanted} on response token {wrong[0]}: {token}",
                came=value,
            )


def compare_logprobs(entered: Entered, case: str, *, sampled: bool) -> None:
    """Fail where a token has another logprob, of those sampled or of the others."""
    __tracebackhide__ = True
    for then, now in entered.pairs(case):
        start = len(then.tokens) - len(then.mask)
        for at, by_model in enumerate(entered.sampled(then)):
            given = now.logprobs[at] if at < len(now.logprobs) else None
            if by_model is sampled and not entered.close(then.logprobs[at], given):
                token = shown(then.tokens, start + at, entered.decode)
                fail(
                    f"{row_name(then, case)}: response token {at} has another logprob: {token}",
                    expected=then.logprobs[at],
                    came="no entry" if given is None else given,
                )


def compare_advantages(entered: Entered, case: str) -> None:
    """Fail where a row has another advantage."""
    __tracebackhide__ = True
    for then, now in entered.pairs(case):
        same_number(then, case, "advantage", then.advantage, now.advantage)


def same_number(
    row: LossRow, case: str, what: str, expected: float | None, came: float | None
) -> None:
    """Fail where two numbers differ as float32."""
    __tracebackhide__ = True
    if not Entered.close(expected, came):
        fail(f"{row_name(row, case)} has another {what}", expected=expected, came=came)
