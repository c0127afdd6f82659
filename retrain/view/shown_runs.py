"""`ShownRuns`: the runs that a page may ask about, those that begin while it is open among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock

from retrain.errors import DataError
from retrain.view.answers import Answers
from retrain.view.following import Following
from retrain.view.runs import RunPlace


class ShownRuns:
    """The stages of a run, or the one run; each is followed once somebody asks for it."""

    def __init__(
        self,
        runs: Sequence[Following],
        find: Callable[[], Sequence[RunPlace]] | None = None,
        images: Sequence[Path] = (),
    ) -> None:
        """Show some runs.

        Args:
            runs: Those that there are now.
            find: Finds those that there are later; by default no more appear.
            images: Folders beside the runs' whose pictures may be shown.
        """
        self._images = images
        self._answers = {run.place.name: Answers(run, images) for run in runs}
        self._names = tuple(self._answers)
        self._find = find
        self._stopped = False
        self._lock = Lock()

    @property
    def names(self) -> tuple[str, ...]:
        """What the runs are called, the newest last."""
        return self._names

    def look(self) -> None:
        """Look for stages that have begun since; a run that is gone is listed no more."""
        if self._find is None:
            return
        try:
            places = self._find()
        except (DataError, OSError):
            return  # the folder is being moved or is gone: what was read of it is still shown
        with self._lock:
            for place in places:
                if not self._stopped and place.name not in self._answers:
                    self._answers[place.name] = Answers(Following(place), self._images)
            self._names = tuple(p.name for p in places if p.name in self._answers)

    def of(self, name: str) -> Answers:
        """Answers about one run, which is followed from now on.

        Raises:
            DataError: There is none of that name.
        """
        with self._lock:
            answers = self._answers.get(name)
            if answers is not None and not self._stopped:
                answers.following.start()
        if answers is None:
            raise DataError(f"there is no run {name!r:.80} here, but {', '.join(self._names)}")
        return answers

    def stop(self) -> None:
        """Follow none of them any more."""
        with self._lock:
            self._stopped = True
            followed = [answers.following for answers in self._answers.values()]
        for following in followed:
            following.stop()
