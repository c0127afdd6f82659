"""Backends by name: a row in a table, or another package's entry point."""

from __future__ import annotations

from backends.base import Backend
from retrain.registry import Registry

BACKENDS: Registry[type[Backend]] = Registry("backend", "retrain.backends")
BACKENDS.add_lazy("trl", "backends.trl.backend:TRLBackend", "pip install 'retrain[trl]'")
BACKENDS.add_lazy("torch", "backends.torch.backend:TorchBackend", "pip install 'retrain[torch]'")
BACKENDS.add_lazy("slime", "backends.slime.backend:SlimeBackend", "pip install 'retrain[slime]'")
