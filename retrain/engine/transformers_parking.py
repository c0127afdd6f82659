"""Memory of a loaded model, given back and taken again while its process lives."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn


class ParkedWeights:
    """A model's weights while its memory is used by somebody else.

    Those of a GPU wait in main memory; those of main memory in a temporary file.
    """

    def __init__(self, model: nn.Module) -> None:
        """Take the weights out of the model: until `put_back` it computes nothing.

        Args:
            model: The model; no forward may run.

        Raises:
            OSError: The temporary folder cannot hold them; the model is as it was.
        """
        self._model = model
        self._folder = tempfile.TemporaryDirectory(prefix="retrain-weights-")
        self._device = next(model.parameters()).device
        own = dict(model.named_parameters())
        if self._device.type == "cpu":
            try:
                save_file(
                    {name: weight.data.contiguous() for name, weight in own.items()}, self._file
                )
            except BaseException:
                self._folder.cleanup()
                raise
        else:
            self._main = {name: weight.data.to("cpu") for name, weight in own.items()}
        for weight in own.values():
            weight.data = torch.empty(0, dtype=weight.dtype, device=self._device)
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    @property
    def _file(self) -> Path:
        return Path(self._folder.name) / "weights.safetensors"

    def put_back(self) -> None:
        """Give the model its weights again."""
        parked = load_file(self._file) if self._device.type == "cpu" else self._main
        for name, weight in self._model.named_parameters():
            weight.data = parked[name].to(self._device)
        self._folder.cleanup()
