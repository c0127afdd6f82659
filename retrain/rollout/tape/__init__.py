"""The tape: episodes recorded once, engine answers and all, and played again bit for bit."""

from retrain.rollout.tape.departures import Departure, departures
from retrain.rollout.tape.engine import OffTape, TapeEngine
from retrain.rollout.tape.format import TapeAnswer, TapeGroup, TapeHeader
from retrain.rollout.tape.reading import Tape
from retrain.rollout.tape.recording import RecordingEngine, TapeRecorder, recording_tape

__all__ = [
    "Departure",
    "OffTape",
    "RecordingEngine",
    "Tape",
    "TapeAnswer",
    "TapeEngine",
    "TapeGroup",
    "TapeHeader",
    "TapeRecorder",
    "departures",
    "recording_tape",
]
