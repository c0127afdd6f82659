"""What an iteration says about how its batch was filled."""

from __future__ import annotations

import pytest

from retrain.report.filling_metrics import filling_metrics
from retrain.rollout.filling import OverSampling, Tally


@pytest.mark.parametrize(
    ("tally", "said"),
    [
        (Tally(carried=3), {}),
        (
            Tally(restarted=2, continued=1, replaced=4),
            {"rollout/restarted": 2.0, "rollout/continued": 1.0, "rollout/replaced": 4.0},
        ),
    ],
)
def test_where_every_group_is_waited_for_only_what_happened_is_said(
    tally: Tally, said: dict[str, float]
) -> None:
    assert filling_metrics(OverSampling(4), tally, [], ()) == said


@pytest.mark.parametrize("partial", [True, False])
def test_groups_given_up_are_counted_where_half_played_ones_may_not_go_on(partial: bool) -> None:
    how = OverSampling(4, 2.0, partial=partial)
    told = filling_metrics(how, Tally(unfinished=0 if partial else 3), [], ())
    assert told.get("rollout/unfinished") == (None if partial else 3.0)
