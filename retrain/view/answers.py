"""`Answers`: what the page may ask about one run; a list is kept while its parts are asked for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from threading import Lock

from retrain.errors import DataError
from retrain.view.charts import charts
from retrain.view.documents import Document, episode_document, list_row
from retrain.view.following import Following
from retrain.view.listing import Listing, list_episodes
from retrain.view.pictures import Picture, Pictures, picture_id
from retrain.view.query import Query
from retrain.view.reading import read_episode, read_rows
from retrain.view.requests import Window
from retrain.view.side_by_side import compare_group

_KEPT_LISTS = 4

MOST_RAW = 32 * 1024**2
"""Bytes of an episode's rows that are told as they stand."""


class Answers:
    """Answers as JSON values.

    Attributes:
        following: The run.
    """

    def __init__(self, following: Following, images: Sequence[Path] = ()) -> None:
        """Answer about a run.

        Args:
            following: The run.
            images: Folders beside the run's whose pictures may be shown.
        """
        self.following = following
        self._pictures = Pictures([following.place.folder, *images])
        self._lists: OrderedDict[tuple[Query, int], Listing] = OrderedDict()
        self._lock = Lock()

    def run(self) -> Document:
        """The run around its lists."""
        return self.following.document()

    def listing(self, query: Query, window: Window) -> Document:
        """Some rows of a list, how many there are, and where the episode asked for stands."""
        version = self.following.index.state.version
        listing = self._listing(query, version)
        rows = listing.rows[window.start : window.start + window.count]
        return {
            "version": version,
            "total": len(listing.rows),
            "episodes": listing.episodes,
            "start": window.start,
            "found": listing.place_of(window.find),
            "rows": [list_row(row) for row in rows],
        }

    def episode(self, id: str) -> Document:
        """One episode, with all its tokens.

        Raises:
            DataError: There is none of that name, or it cannot be read.
        """
        return episode_document(read_episode(self.following.index, id), self._pictures)

    def picture(self, id: str, image: str) -> Picture:
        """One of the images that an episode shows.

        Args:
            id: The episode.
            image: Its `picture_id`.

        Raises:
            DataError: There is none of that name, or it is not shown.
        """
        streams = read_episode(self.following.index, id).streams
        for source in (source for stream in streams for source in stream.images):
            if picture_id(source) == image:
                return self._pictures.read(source)
        raise DataError(f"{id} shows no image {image!r:.40}")

    def raw(self, id: str) -> Document:
        """The rows of one episode as they stand in the file.

        Raises:
            DataError: There is none of that name, it cannot be read, or it is too long to show.
        """
        file, _, episode = self.following.index.find(id)
        size = sum(place.size for place in episode.places)
        if size > MOST_RAW:
            line = episode.places[0].number
            raise DataError(
                f"the rows of {id} have {size / 1024**2:.0f} MiB, too many for a page: read them "
                f"in {file.path}, line {line}"
            )
        return {"rows": read_rows(self.following.index, id)}

    def group(self, id: str) -> Document:
        """The episodes of one group side by side.

        Raises:
            DataError: There is none of that name, or it cannot be read.
        """
        return compare_group(self.following.index, id)

    def charts(self) -> Document:
        """The curves so far."""
        return {"charts": [asdict(chart) for chart in charts(self.following.rows)]}

    def _listing(self, query: Query, version: int) -> Listing:
        key = query, version
        with self._lock:
            if key in self._lists:
                self._lists.move_to_end(key)
                return self._lists[key]
        listing = list_episodes(self.following.index, query)
        with self._lock:
            self._lists[key] = listing
            while len(self._lists) > _KEPT_LISTS:
                self._lists.popitem(last=False)
        return listing
