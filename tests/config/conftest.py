from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

BASE = """\
experiment_name: calculator
model: {name_or_path: some/model}
environment: {type: calculator}
prompt_source: {type: list, source_config: {items: ["1+1"]}}
"""

ALGORITHM = """\
algorithm:
  name: grpo
  hyperparameters:
    num_iterations: 20
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a configuration: the sections every run needs, then the text given."""

    def to_file(text: str = ALGORITHM, *, base: str = BASE, name: str = "run.yaml") -> Path:
        path = tmp_path / name
        path.write_text(base + dedent(text), encoding="utf-8")
        return path

    return to_file
