from collections.abc import Iterator

import pytest

from retrain.reward.hub.pool import close_pools


@pytest.fixture(scope="module", autouse=True)
def no_process_is_left() -> Iterator[None]:
    yield
    close_pools()
