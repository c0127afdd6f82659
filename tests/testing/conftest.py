from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "calculator"


@pytest.fixture(scope="session")
def demo_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The calculator example's model: random weights, a real byte-level tokenizer."""
    pytest.importorskip("torch", reason="needs torch: pip install 'retrain[engine]'")
    pytest.importorskip("transformers", reason="needs transformers: pip install 'retrain[engine]'")
    folder = tmp_path_factory.mktemp("kit") / "model"
    script = [sys.executable, str(EXAMPLE / "make_model.py"), "--output", str(folder)]
    subprocess.run(script, check=True, capture_output=True)
    return folder
