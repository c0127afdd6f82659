"""slime's source, for the tests that hold ours against it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def named_slime() -> Path:
    """The checkout that RETRAIN_SLIME names; skips the test where it names none."""
    named = os.environ.get("RETRAIN_SLIME")
    if not named:
        pytest.skip("set RETRAIN_SLIME to a checkout of slime")
    return Path(named)


@contextmanager
def importable_slime() -> Iterator[None]:
    """Puts the checkout on the path of this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(named_slime()))
        yield
