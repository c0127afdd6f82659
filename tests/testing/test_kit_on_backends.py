"""Both backends run through the kit: what enters their losses is what was played."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from slime_source import named_slime

from retrain.testing import TapeBackendSuite

pytestmark = pytest.mark.slow


class OwnBackend(TapeBackendSuite):
    @pytest.fixture
    def model_dir(self, demo_model: Path) -> Path:
        return demo_model


class TestTRL(OwnBackend):
    takes_segments = False

    @pytest.fixture(autouse=True)
    def needs_trl(self) -> None:
        pytest.importorskip("trl", reason="needs TRL: pip install 'retrain[trl]'")

    def read_loss(self, recorded: Any) -> Any:
        from backends.trl.backend import TRLBackend

        return TRLBackend().read_loss(recorded)


class TestTorch(OwnBackend):
    @pytest.fixture(autouse=True)
    def needs_torch(self) -> None:
        pytest.importorskip("torch", reason="needs torch: pip install 'retrain[torch]'")

    def read_loss(self, recorded: Any) -> Any:
        from backends.torch.backend import TorchBackend

        return TorchBackend().read_loss(recorded)


class TestSlimePort(OwnBackend):
    """The port of slime's contract, for machines where slime cannot be imported."""

    def read_loss(self, recorded: Any) -> Any:
        from backends.slime.parity import read_loss

        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("RETRAIN_SLIME", raising=False)
            return read_loss(recorded)


@pytest.mark.slime
class TestSlimeItself(OwnBackend):
    @pytest.fixture(autouse=True)
    def needs_slime(self) -> None:
        named_slime()

    def read_loss(self, recorded: Any) -> Any:
        from backends.slime.parity import read_loss

        reading = read_loss(recorded)
        assert not reading.source.startswith("port"), reading.notes
        return reading
