"""`ifbench`: whether a response follows instructions that can be checked.

The instructions are those of IFBench (Pyatkin et al. 2025, arXiv:2507.02833) that are listed in
`INSTRUCTIONS`, checked by rules of our own; each other one is an error, never a score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from retrain.errors import RewardFailure, nearest
from retrain.reward.hub.cases import Case, Compat, response_of, shown
from retrain.reward.hub.instructions import INSTRUCTIONS


def ifbench(
    case: Case, *, compat: Compat | None = None, give: Literal["all", "share"] = "all"
) -> float:
    """1.0 where every instruction is followed; else 0.0.

    Args:
        case: The response; metadata holds `instruction_id_list` and `kwargs`, one for each.
        compat: "slime" for what slime's `ifbench` gives: 0.0 without instructions, and a KeyError
            for an unknown one.
        give: "share" for the part of the instructions that are followed.

    Raises:
        RewardFailure: There are no instructions, or one is unknown or lacks an argument.
    """
    metadata = case.metadata or {}
    names, arguments = metadata.get("instruction_id_list") or [], metadata.get("kwargs") or []
    if compat == "slime":
        response = case.response or ""
        followed = [_slime(*pair, response) for pair in _pairs(names, arguments)]
        return float(bool(followed) and all(followed))
    if not names:
        raise RewardFailure("ifbench needs metadata with a list `instruction_id_list`")
    _check_list("instruction_id_list", names, str)
    _check_list("kwargs", arguments, Mapping | None)
    response = response_of(case)
    followed = [_follows(name, given, response) for name, given in _pairs(names, arguments)]
    return sum(followed) / len(followed) if give == "share" else float(all(followed))


def _check_list(key: str, given: Any, kind: Any) -> None:
    if not isinstance(given, list | tuple) or not all(isinstance(one, kind) for one in given):
        what = "names" if kind is str else "objects"
        raise RewardFailure(f"ifbench: {key} is {shown(given)}, expected a list of {what}")


def _pairs(names: Sequence[str], arguments: Sequence[Any]) -> list[tuple[str, dict[str, Any]]]:
    """Each instruction with its arguments, those that are None left out."""
    given = [dict(row or {}) for row in arguments] + [{}] * (len(names) - len(arguments))
    return [
        (name, {key: value for key, value in row.items() if value is not None})
        for name, row in zip(names, given, strict=False)
    ]


def _slime(name: str, arguments: Mapping[str, Any], response: str) -> bool:
    check = INSTRUCTIONS[name]
    return bool(response.strip()) and check(response, arguments)


def _follows(name: Any, arguments: Mapping[str, Any], response: str) -> bool:
    if name not in INSTRUCTIONS:
        known = nearest(str(name), INSTRUCTIONS)
        raise RewardFailure(f"ifbench has no instruction {shown(name)}; {known}")
    if not response.strip():
        return False
    try:
        return INSTRUCTIONS[name](response, arguments)
    except KeyError as error:
        raise RewardFailure(f"ifbench: {name} needs the argument {error}") from None
    except (TypeError, ValueError) as error:
        raise RewardFailure(f"ifbench: {name}: an argument cannot be used: {error}") from None
