from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.slime.laptop import hooks
from backends.slime.laptop.environment import SITE
from backends.slime.laptop.hooks import HOOKS, HookFinder

ROOT = Path(__file__).parents[2]
HOOK = """
from contextlib import contextmanager

@contextmanager
def around(module):
    before = dict(vars(module))
    yield
    module.seen = "value" not in before and module.value == 1
"""


@pytest.fixture
def hooked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of modules in which `hooked_target` has the hook `its_hook`."""
    (tmp_path / "its_hook.py").write_text(HOOK)
    (tmp_path / "hooked_target.py").write_text("value = 1\n")
    (tmp_path / "other_target.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    finder = HookFinder({"hooked_target": "its_hook", "absent_target": "its_hook"})
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    yield tmp_path
    for name in ("its_hook", "hooked_target", "other_target"):
        sys.modules.pop(name, None)


def test_a_hook_surrounds_the_execution_of_its_module(hooked: Path) -> None:
    import hooked_target  # type: ignore[import-not-found]

    assert hooked_target.seen is True


def test_other_modules_are_left_alone(hooked: Path) -> None:
    import other_target  # type: ignore[import-not-found]

    assert not hasattr(other_target, "seen")


def test_a_hook_of_a_module_that_is_not_there_hides_nothing(hooked: Path) -> None:
    with pytest.raises(ModuleNotFoundError, match="absent_target"):
        __import__("absent_target")


def test_hooks_are_installed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    hooks.install()
    hooks.install()
    assert sum(isinstance(finder, HookFinder) for finder in sys.meta_path) == 1


def test_every_hook_is_a_file_of_its_own_with_a_context() -> None:
    for hook in set(HOOKS.values()):
        source = ROOT / Path(*hook.split(".")).with_suffix(".py")
        assert "def around(module: ModuleType)" in source.read_text()


def python(code: str, *path: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own, with the laptop's folder first on its path."""
    found = os.pathsep.join(str(folder) for folder in (SITE, ROOT, *path))
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": found},
        capture_output=True,
        text=True,
    )


def test_every_process_loads_the_hooks_without_loading_torch() -> None:
    done = python(
        "import sys; print(type(sys.meta_path[0]).__name__, 'torch' in sys.modules, sys.path[-1])"
    )
    name, torch_loaded, last = done.stdout.split()
    assert (name, torch_loaded) == ("HookFinder", "False"), done.stderr
    assert Path(last).name == "standins", "a package that is installed beats its stand-in"


def test_an_environments_own_sitecustomize_is_loaded_too(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.own = 'loaded'\n")
    done = python("print(own)", tmp_path)
    assert done.stdout == "loaded\n", done.stderr


def test_a_stand_in_is_imported_where_the_package_is_missing() -> None:
    done = python(
        "from torch_memory_saver import torch_memory_saver as m\n"
        "with m.disable(): m.pause()\n"
        "import argparse\n"
        "from sglang.srt.server_args import ServerArgs\n"
        "parser = argparse.ArgumentParser()\n"
        "ServerArgs.add_cli_args(parser)\n"
        "found = parser.parse_args(['--pp-size', '2', '--enable-dp-attention'])\n"
        "print(found.pp_size, found.enable_dp_attention, found.nccl_port)\n"
    )
    assert done.stdout == "2 True None\n", done.stderr
