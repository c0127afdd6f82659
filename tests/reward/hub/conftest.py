from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from retrain.reward.hub.pool import close_pools


@pytest.fixture(scope="module", autouse=True)
def no_process_is_left() -> Iterator[None]:
    yield
    close_pools()


@pytest.fixture
def serve() -> Iterator[Any]:
    """Starts servers that score, and closes them after the test."""
    from scoring_server import scoring_servers

    with scoring_servers() as start:
        yield start
