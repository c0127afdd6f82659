"""Examples as their users have them: in their own folder, with their own scripts."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from retrain.cli.main import app


@contextmanager
def inside(folder: Path, *modules: str) -> Iterator[None]:
    """Works in a folder; its modules of these names are imported afresh and forgotten again."""
    with pytest.MonkeyPatch.context() as patch:
        for name in modules:
            patch.delitem(sys.modules, name, raising=False)
        patch.chdir(folder)
        patch.syspath_prepend(str(folder))
        yield
        for name in modules:
            sys.modules.pop(name, None)


def prepared(main: Callable[[], object], output: Path, demonstrations: int) -> Path:
    """Let an example's `prepare.py` write its model and demonstrations into a folder."""
    with pytest.MonkeyPatch.context() as patch:
        words = ["--output", str(output), "--demonstrations", str(demonstrations)]
        patch.setattr(sys, "argv", ["prepare.py", *words])
        main()
    return output


def require_planned(config: str, overrides: Sequence[str], backend: str) -> None:
    """Plan a configuration of two stages on a backend."""
    overrides = (*overrides, f"algorithm.backend={backend}")
    words = [word for override in overrides for word in ("--set", override)]
    result = CliRunner().invoke(app, ["plan", config, "--json", *words])
    assert result.exit_code == 0, result.output
    assert [stage["backend"] for stage in json.loads(result.stdout)["stages"]] == [backend] * 2
