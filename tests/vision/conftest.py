from __future__ import annotations

import sys
from pathlib import Path

import pytest

from retrain.compose import Composition, compose

sys.path.append(str(Path(__file__).parents[1] / "engine" / "http_engines"))

pytest.importorskip("PIL", reason="needs Pillow: pip install 'retrain[images]'")
pytest.importorskip("trl", reason="needs TRL: pip install 'retrain[trl]'")


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A picture that must be resized, and one that need not."""
    from tiny_vlm import save_pictures

    return save_pictures(tmp_path_factory.mktemp("pictures"))


@pytest.fixture(scope="session")
def vlm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny model that reads images."""
    from tiny_vlm import make_tiny_vlm

    return make_tiny_vlm(tmp_path_factory.mktemp("vlm"))


@pytest.fixture(autouse=True)
def own_image_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where pictures go that a test makes in memory."""
    folder = tmp_path / "made"
    monkeypatch.setenv("RETRAIN_IMAGES", str(folder))
    return folder


@pytest.fixture(scope="module")
def composition(
    vlm: Path, pictures: tuple[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Composition:
    """The parts of a run over the pictures."""
    from seeing import items_of, see_config

    return compose(see_config(vlm, tmp_path_factory.mktemp("runs") / "run", items_of(*pictures)))
