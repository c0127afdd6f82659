"""Engines: token ids in, token ids and logprobs out."""

from retrain.engine.base import EngineCapabilities, Generation, InferenceEngine, SamplingParams
from retrain.engine.scripted import ScriptedEngine

__all__ = [
    "EngineCapabilities",
    "Generation",
    "InferenceEngine",
    "SamplingParams",
    "ScriptedEngine",
]
