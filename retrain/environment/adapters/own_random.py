"""An episode's own state of the process-wide random generators.

Games that draw from `random` or `numpy.random` directly share one state over all episodes of a
process: whoever draws in between changes the game of everybody else, and a seed means nothing.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_ONE_AT_A_TIME = threading.RLock()


class OwnRandom:
    """What `random` and NumPy's global generator are while this episode's code runs.

    Args:
        seed: Seeds both, in [0, 2**32).
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._python = random.Random(seed).getstate()
        self._numpy: Any = None

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Put the episode's states in place of the process's, and back afterwards.

        Only one episode of the process is in here at a time.
        """
        with _ONE_AT_A_TIME:
            numpy = sys.modules.get("numpy.random")
            outer = random.getstate(), None if numpy is None else numpy.get_state()
            random.setstate(self._python)
            if numpy is not None:
                if self._numpy is None:
                    self._numpy = numpy.RandomState(self._seed).get_state()
                numpy.set_state(self._numpy)
            try:
                yield
            finally:
                self._python = random.getstate()
                random.setstate(outer[0])
                if numpy is not None:
                    self._numpy = numpy.get_state()
                    numpy.set_state(outer[1])
