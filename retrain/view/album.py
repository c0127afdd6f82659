"""`Album`: the pictures that a single file holds, each once however many episodes show it."""

from __future__ import annotations

from collections.abc import Mapping

from retrain.errors import DataError
from retrain.view.answers import Answers
from retrain.view.documents import Document

MOST_BYTES = 24_000_000
"""Bytes of all pictures of a file, which grow by a third as text."""


class Album:
    """Collects pictures as long as they fit."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        """Begin with none.

        Args:
            most: Bytes of all of them together.
        """
        self._left = most

    def collect(self, answers: Answers, episodes: Mapping[str, Document]) -> dict[str, str]:
        """The pictures of some episodes, as `data:` URIs by id; what does not fit is left out.

        Args:
            answers: What reads them.
            episodes: What the page is told of each, by id.
        """
        found: dict[str, str] = {}
        for episode, told in episodes.items():
            for image in (image for stream in told["streams"] for image in stream["images"]):
                if image["why"] is None and image["id"] not in found:
                    self._add(found, answers, episode, image["id"])
        return found

    def _add(self, found: dict[str, str], answers: Answers, episode: str, image: str) -> None:
        try:
            picture = answers.picture(episode, image)
        except DataError:  # replaced or removed meanwhile
            return
        if len(picture.data) <= self._left:
            self._left -= len(picture.data)
            found[image] = picture.uri
