from __future__ import annotations

from pathlib import Path

import pytest
from demo_runs import make_demo_model


@pytest.fixture(scope="session")
def demo_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The calculator example's model: random weights, a real byte-level tokenizer."""
    pytest.importorskip("torch", reason="needs torch: pip install 'retrain[engine]'")
    pytest.importorskip("transformers", reason="needs transformers: pip install 'retrain[engine]'")
    return make_demo_model(tmp_path_factory.mktemp("kit") / "model")
