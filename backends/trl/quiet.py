"""Keeps the frameworks' own chatter off the terminal; what it says stands in our metrics."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_frameworks() -> Iterator[None]:
    """Hide progress bars and deprecation warnings of transformers, TRL and bitsandbytes."""
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    from retrain.engine.transformers_loading import quiet_transformers

    with quiet_transformers(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
        yield
