"""`RunLog`: slime's log on its way to the run folder, without the credentials that it prints."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import BinaryIO

from backends.slime.following import LogFollower
from retrain.config.redact import REDACTED, is_credential, redact_text
from retrain.errors import RunFolderError

_SHORTEST = 8
"""Shorter values are no credentials, and would tear common words."""


class RunLog:
    """Writes each line of slime's log and gives it to the follower."""

    def __init__(
        self,
        file: BinaryIO,
        follower: LogFollower,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """Make a log.

        Args:
            file: Where the lines go.
            follower: Reads them.
            environment: Its credentials never reach the file.
        """
        self.follower = follower
        self._file = file
        self._secrets = tuple(
            value
            for name, value in environment.items()
            if is_credential(name) and len(value) >= _SHORTEST
        )

    def line(self, text: str) -> None:
        """Take one line, without its newline.

        Raises:
            RunFolderError: The file cannot be written.
        """
        safe = redact_text(text)
        for secret in self._secrets:
            safe = safe.replace(secret, REDACTED)
        try:
            self._file.write(safe.encode("utf-8", "replace") + b"\n")
            self._file.flush()
        except OSError as error:
            raise RunFolderError(f"slime.log: cannot be written: {error.strerror}") from error
        self.follower.line(safe)
