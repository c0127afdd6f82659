"""`TapeBackendSuite`: `BackendSuite` for a backend that has a `read_loss`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from retrain.compose import Composition, compose
from retrain.model_files import load_tokenizer
from retrain.parity import LossReading, Recorded, read_recorded
from retrain.rendering.base import Renderer
from retrain.rollout.tape import RecordingEngine, recording_tape
from retrain.rollout.tape.header import make_header
from retrain.testing.backend import BackendSuite
from retrain.testing.backend_hooks import PlayCases, ReadRows
from retrain.testing.canned.cases import Case
from retrain.testing.canned.playing import CannedGroup, canned_config, canned_engine, play_cases


class TapeBackendSuite(BackendSuite):
    """Records the canned episodes on a tape and plays it through the backend's own path.

    Subclass it, define `read_loss` and override the fixture `model_dir`.
    """

    def read_loss(self, recorded: Recorded) -> LossReading:
        """As `backends.base.ReadsLoss.read_loss`."""
        raise NotImplementedError(f"{type(self).__name__} must define read_loss(self, recorded)")

    @pytest.fixture
    def model_dir(self) -> Path:
        """A folder with a tokenizer, its chat template, and a model as far as it is needed."""
        raise NotImplementedError(f"{type(self).__name__} must override the fixture model_dir")

    @pytest.fixture
    def renderer(self, model_dir: Path) -> Renderer:
        """Decodes the tokens of the canned cases, for messages."""
        return compose(canned_config(model_dir)).renderer

    @pytest.fixture
    def play(self, model_dir: Path, tmp_path: Path) -> PlayCases:
        """Plays canned cases, onto a tape."""

        def played(cases: Sequence[Case]) -> tuple[CannedGroup, ...]:
            rewrites = any(case.rewrites for case in cases)
            composition = compose(canned_config(model_dir, rewrites=rewrites))
            return _record(cases, composition, _tape(tmp_path, rewrites))

        return played

    @pytest.fixture
    def read_rows(self, model_dir: Path, tmp_path: Path) -> ReadRows:
        """Plays the tape through the backend."""

        def read(groups: Sequence[CannedGroup]) -> LossReading:
            rewrites = any(group.case.rewrites for group in groups)
            config = canned_config(model_dir, rewrites=rewrites)
            return self.read_loss(read_recorded(config, _tape(tmp_path, rewrites)))

        return read


def _tape(folder: Path, rewrites: bool) -> Path:
    return folder / ("rewriting.tape" if rewrites else "canned.tape")


def _record(cases: Sequence[Case], composition: Composition, path: Path) -> tuple[CannedGroup, ...]:
    tokenizer = load_tokenizer(composition.config)

    def encode(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False))

    engine = RecordingEngine(canned_engine(cases, composition.renderer, encode))
    played = play_cases(cases, composition, engine)
    with recording_tape(path, make_header(composition.config, "canned")) as tape:
        for group in played:
            tape.add(group.group, engine)
    return played
