"""`ErrorReader`: finds in a log the error that ended a run."""

from __future__ import annotations

import re

_PREFIX = re.compile(r"^\((?P<who>[^()]*\bpid=\d+[^()]*|raylet)\) ?")
_STAMP = re.compile(r"^\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d")
_EXCEPTION = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Failure|Failures|Interrupt|Exit|Dependency)"
    r"(?:\([\w.]+\))?(?::|$)"
)
_TRACEBACK = "Traceback (most recent call last):"
_MOST_LINES = 12


class ErrorReader:
    """Keeps the last exception of the driver and the last one of its workers.

    What the driver raised ended the run; a worker's exception counts where the driver raised none,
    for it may have been caught and tried again. Ray writes "(Actor pid=1, ip=…) " in front of a
    worker's lines. Of a chain of exceptions the last is kept, which is how Ray shows the cause.
    """

    def __init__(self) -> None:
        self._driver: list[str] = []
        self._worker: list[str] = []
        self._open: tuple[str | None, list[str]] | None = None

    def line(self, plain: str) -> None:
        """Read one line, without colours."""
        prefix = _PREFIX.match(plain)
        who = prefix["who"] if prefix else None
        text = plain[prefix.end() :] if prefix else plain
        if _EXCEPTION.match(text):
            self._begin(who, text)
        elif self._open is not None and who == self._open[0]:
            self._continue(text, self._open[1])

    def failure(self) -> str | None:
        """The exception, its message whole; None where there was none."""
        return "\n".join(self._driver or self._worker).strip() or None

    def _begin(self, who: str | None, text: str) -> None:
        found = [text]
        if who is None:
            self._driver = found
        else:
            self._worker = found
        self._open = (who, found)

    def _continue(self, text: str, found: list[str]) -> None:
        ends = not text or text.startswith(_TRACEBACK) or _STAMP.match(text)
        if ends or len(found) >= _MOST_LINES:
            self._open = None
            return
        found.append(text)
